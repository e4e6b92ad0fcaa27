"""`sottovoce privacy`: what a way of reporting costs, and which ways fit a budget."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.figures import save_figure
from sottovoce.cli.options import (
    PRESETS,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    JsonFile,
    picture_option,
    training_options,
)
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce.privacy import Account, Reporting, account, central_epsilon, local_epsilon
from sottovoce.privacy.account import DELTA, shown
from sottovoce.training import DEFAULT, Budget, planned
from sottovoce.training.planning import PLANNED, Spending, ways_to_spend

USUAL_CLIENTS = 10_000
"""Whom settings are planned for where nobody says how many people there are."""


@training_options(only=["mechanism", "epsilon", "reports", "epochs", "lifetime"])
def privacy(
    *,
    preset: Annotated[str | None, typer.Option(help=PRESETS)] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    training: dict[str, Any],
    items: Annotated[int, typer.Option(min=1, help="Number of items in the catalogue.")] = 10_000,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Number of people who take part. Without it there is no central figure, and "
            f"settings are planned for {USUAL_CLIENTS:,} people."
        ),
    ] = None,
    json: JsonFile = None,
    plot: Annotated[
        Path | None, picture_option("epsilon by epochs (with a budget: what it buys)")
    ] = None,
    trainings: Annotated[
        int,
        typer.Option(min=1, help="Number of such trainings in a person's lifetime.", hidden=True),
    ] = 1,
    history: HistoryOption = None,
    delta: Annotated[
        float,
        typer.Option(help="Probability that a figure with a delta may fail to hold.", hidden=True),
    ] = DELTA,
) -> None:
    """Say what reporting costs in epsilon, in numbers and words.

    Locally, and with --clients also after the shuffle. With a budget: which epsilons and numbers of
    reports fit it and, with --clients, which settings the planner chooses and what they cost. The
    defaults shown are those of `loudest`; `--preset` and `--mechanism` bring their own.

    \b
    Examples:
      sottovoce privacy --preset paper --clients 50000
      sottovoce privacy --mechanism loudest --epsilon 5 --reports 1 --epochs 2 --clients 75040
      sottovoce privacy --central-budget 1 --clients 50000 --plot frontier.png
    """
    mechanism = training.pop("mechanism", None)
    if budget is not None or central_budget is not None:
        beside = {"preset": preset, "trainings": trainings > 1}
        if refused := [f"--{name}" for name, value in beside.items() if value]:
            raise SettingsError(
                f"a budget is planned for one training of honest people: leave out {refused[0]}"
            )
        target = _Target.of(budget, central_budget, clients, delta, items)
        _plan(target, mechanism, training, history, json, plot)
        return
    if preset in PLANNED and clients is None:
        raise SettingsError(
            f"the preset {preset} is planned for a number of people: give --clients PEOPLE"
        )
    settings = planned(
        clients or USUAL_CLIENTS,
        items,
        history=history,
        preset=preset or DEFAULT,
        budget=replace(PLANNED[preset], delta=delta) if preset in PLANNED else None,
        mechanism=mechanism,
        **training,
    )
    name, event = settings.mechanism, settings.event(items)
    people = None
    if clients is not None:
        people = settings.crowd(clients)
        if people < 2:
            raise SettingsError(
                f"{clients} people who each take part in {settings.turns} of {settings.epochs} "
                "epochs are too few: an epoch may have a single person; raise --clients"
            )
    found = account(event, people, delta, trainings)
    _print(name, found)
    content = {"mechanism": name, **found.as_dict(), "statement": found.statement()}
    output.write_json(json, content)
    if plot is not None:
        save_figure(plot, lambda figure: _draw_epochs(figure.subplots(), found))


def _print(mechanism: str, found: Account) -> None:
    views = ("local, pure", f"local, delta {found.delta:g}", f"central, delta {found.delta:g}")
    table = Table(mechanism, *output.right("reports", *views))
    for figures in found.spans:
        none = "no crowd given" if found.people is None else "nobody to hide among"
        central = none if figures.central is None else shown(figures.central)
        table.add_row(
            figures.span,
            f"{figures.reports:,}",
            shown(figures.pure, 6),
            shown(figures.local, 6),
            central,
        )
    output.results.print(table)
    output.say(found.statement())


@dataclass(frozen=True)
class _Target:
    """The epsilon that is asked for, in which view, and for whom."""

    epsilon: float
    view: Literal["local", "central"]
    clients: int | None
    delta: float
    items: int

    @classmethod
    def of(cls, local: float | None, central: float | None, *about: Any) -> "_Target":
        if local is not None and central is not None:
            raise SettingsError("give --budget or --central-budget, not both")
        if local is not None:
            return cls(local, "local", *about)
        assert central is not None, "one of them is given"
        return cls(central, "central", *about)

    def ways(self, mechanism: str, epsilon: float | None = None) -> list[Spending]:
        """The ways of reporting that fit it; or another epsilon."""
        wanted = self.epsilon if epsilon is None else epsilon
        return ways_to_spend(mechanism, wanted, self.view, self.clients, self.delta, self.items)


def _plan(
    target: _Target,
    mechanism: str | None,
    training: dict[str, Any],
    history: float | None,
    json: Path | None,
    plot: Path | None,
) -> None:
    budget = Budget(**{target.view: target.epsilon}, delta=target.delta)
    comparable = [name for name, kind in MECHANISMS.items() if not kind.gain_is_bound]
    names = [mechanism] if mechanism else comparable
    found = [way for name in names for way in target.ways(name)]
    if not found:
        raise SettingsError(
            f"a {target.view} epsilon of {target.epsilon:g} is too small for one report"
        )
    _print_plan(sorted(found, key=lambda way: -way.signal))
    content = [{**asdict(way), "signal": way.signal} for way in found]
    said: dict[str, Any] = {
        "epsilon": target.epsilon,
        "view": target.view,
        "ways": content,
        "plan": None,
    }
    if target.clients is not None:
        plan = planned(
            target.clients,
            target.items,
            history=history,
            mechanism=mechanism,
            budget=budget,
            **training,
        )
        cost = account(plan.event(target.items), plan.crowd(target.clients), target.delta)
        output.say(f"The planner takes {output.settings_in_words(plan)}.")
        _print(plan.mechanism, cost)
        said |= {"plan": plan.as_dict(), "cost": cost.as_dict()}
    output.write_json(json, said)
    if plot is not None:
        output.note("Drawing the frontier takes up to a minute.")
        save_figure(plot, lambda figure: _draw_frontier(figure.subplots(), names, target))


def _print_plan(found: list[Spending]) -> None:
    headings = ("epsilon", "reports in all (k T)", "signal", "local, pure", "central")
    table = Table("mechanism", *output.right(*headings))
    for way in found:
        central = "no crowd given" if way.central is None else shown(way.central, 3)
        table.add_row(
            way.mechanism,
            shown(way.epsilon, 3),
            f"{way.reports:,}",
            f"{way.signal:.4g}",
            shown(way.local),
            central,
        )
    output.results.print(table)
    output.say(
        "Signal: number of reports times the square of what one carries, at usual settings; the "
        "first row carries most. The reports may be spread over any number of epochs at the same "
        "cost, if everybody takes part in each. With --clients the planner makes its own choice of "
        "epsilon, loud directions and epochs."
    )


def _draw_epochs(axes: Any, found: Account) -> None:
    event = found.event
    epochs = sorted({1 + round(i * (event.epochs - 1) / 12) for i in range(13)})
    spans = [Reporting(event.epsilon, event.reports, t, event.loud_fraction) for t in epochs]
    axes.plot(epochs, [s.pure for s in spans], label="local, pure", color="#c8442e")
    local = [local_epsilon(s, found.delta) for s in spans]
    axes.plot(epochs, local, label=f"local, delta {found.delta:g}", color="#c8442e", linestyle=":")
    if found.people is not None:
        central = [central_epsilon(s, found.people, found.delta) for s in spans]
        label = f"central, {found.people:,} honest people"
        axes.plot(epochs, central, label=label, color="#1b6ca8")
    axes.set(xlabel="epochs", ylabel="epsilon", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_frontier(axes: Any, names: list[str], target: _Target) -> None:
    """The most signal for a budget, from a tenth of the target to ten times it."""
    budgets = [target.epsilon * 10 ** (i / 3 - 1) for i in range(7)]
    for name in names:
        best = [target.ways(name, budget) for budget in budgets]
        points = [(b, o[0].signal) for b, o in zip(budgets, best, strict=True) if o]
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set(
        xlabel=f"{target.view} epsilon", ylabel="signal of one person", xscale="log", yscale="log"
    )
    axes.axvline(target.epsilon, color="black", linestyle=":")
    axes.grid(alpha=0.3)
    axes.legend()
