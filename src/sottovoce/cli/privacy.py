"""`sottovoce privacy`: what a way of reporting costs, and which ways fit a budget."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.derived import training_options
from sottovoce.cli.options import PRESETS, HistoryOption
from sottovoce.cli.output import settings_in_words
from sottovoce.errors import SettingsError
from sottovoce.experiments.figures import save_figure
from sottovoce.mechanism import MECHANISMS
from sottovoce.privacy import Account, Crowd, Reporting, account, central_epsilon, local_epsilon
from sottovoce.privacy.account import DELTA
from sottovoce.training import DEFAULT, Budget, planned
from sottovoce.training.options import Option, options
from sottovoce.training.planning import PLANNED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


USUAL_CLIENTS = 10_000
"""Whom settings are planned for where nobody says how many people there are."""


class ViewOption(StrEnum):
    local = "local"
    central = "central"


@training_options(only=["mechanism", "epsilon", "reports", "epochs", "lifetime"])
def privacy(
    *,
    preset: Annotated[str | None, typer.Option(help=PRESETS)] = None,
    training: dict[str, Any],
    trainings: Annotated[int, typer.Option(help="Trainings in a lifetime.")] = 1,
    items: Annotated[int, typer.Option(min=1, help="Items in the catalogue.")] = 10_000,
    history: HistoryOption = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="People who take part; else no central figure, and settings as for "
            f"{USUAL_CLIENTS:,}. With --lifetime a share of them reports in each epoch."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="The chance that a promise fails.")] = DELTA,
    colluding: Annotated[
        int, typer.Option(help="Of the clients: the server's own, who hide nobody.")
    ] = 0,
    seeded_directions: Annotated[
        int,
        typer.Option(help="If the server seeds people's directions: among how many; 0: no."),
    ] = 0,
    bundled: Annotated[
        bool, typer.Option("--bundled", help="A person's reports arrive together: nothing hides.")
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(
            help="Plan: which (eps, reports) fit this epsilon in all; with --clients also the "
            "planner's settings and what they cost. Goes with the settings above it."
        ),
    ] = None,
    view: Annotated[ViewOption, typer.Option(help="What the target is.")] = ViewOption.central,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (PNG, SVG).")] = None,
) -> None:
    """Say what a way of reporting costs, locally and after the shuffle, in numbers and in words.

    The defaults shown are those of `loudest`; `--preset` and `--mechanism` bring their own.

    \b
    Examples:
      sottovoce privacy --preset paper --clients 50000
      sottovoce privacy --mechanism loudest --epsilon 5 --reports 1 --epochs 2 --clients 75040
      sottovoce privacy --target 1 --view central --clients 50000 --plot frontier.png
      sottovoce privacy --target 10 --view local --clients 50000
    """  # noqa: D301 - typer reads \b
    mechanism = training.pop("mechanism", None)
    if target is not None:
        beside = {"preset": preset, "trainings": trainings > 1, "colluding": colluding}
        beside |= {"seeded-directions": seeded_directions, "bundled": bundled}
        if refused := [f"--{name}" for name, value in beside.items() if value]:
            raise SettingsError(f"--target plans one training of honest people: no {refused[0]}")
        _plan(mechanism, training, target, view, clients, delta, items, history, json, plot)
        return
    if preset in PLANNED and clients is None:
        raise SettingsError(f"the preset {preset} is planned for a number of people: --clients N")
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
    crowd = None
    if clients is not None:
        in_an_epoch = settings.crowd(clients)
        if in_an_epoch < 2 <= clients:
            raise SettingsError(
                f"of {clients} people who take part in {settings.turns} of {settings.epochs} "
                "epochs no epoch is sure to have two: there is no crowd"
            )
        crowd = Crowd(in_an_epoch, colluding, seeded_directions, bundled)
    found = account(event, crowd, delta, trainings)
    _print(name, found)
    if json is not None:
        output.write_json(
            json, {"mechanism": name, **found.as_dict(), "statement": found.statement()}
        )
    if plot is not None:
        save_figure(plot, lambda figure: _draw_epochs(figure.subplots(), found))


def _print(mechanism: str, found: Account) -> None:
    views = ("local, pure", f"local, delta {found.delta:g}", f"central, delta {found.delta:g}")
    table = Table(mechanism, *output.right("reports", *views))
    for figures in found.spans:
        central = "no crowd given" if figures.central is None else f"{figures.central:.4g}"
        table.add_row(
            figures.span,
            f"{figures.reports:,}",
            f"{figures.pure:g}",
            f"{figures.local:.6g}",
            central,
        )
    output.results.print(table)
    output.results.print(found.statement(), soft_wrap=True)


def _plan(
    mechanism: str | None,
    training: dict[str, Any],
    target: float,
    view: ViewOption,
    clients: int | None,
    delta: float,
    items: int,
    history: float | None,
    json: Path | None,
    plot: Path | None,
) -> None:
    budget = Budget(**{view.value: target}, delta=delta)
    comparable = [name for name, kind in MECHANISMS.items() if not kind.gain_is_bound]
    names = [mechanism] if mechanism else comparable
    found = [o for name in names for o in options(name, target, view.value, clients, delta, items)]
    if not found:
        raise SettingsError(f"not even one report fits a {view.value} epsilon of {target:g}")
    _print_plan(sorted(found, key=lambda option: -option.signal))
    content = [{**asdict(option), "signal": option.signal} for option in found]
    said: dict[str, Any] = {"target": target, "view": view.value, "options": content, "plan": None}
    if clients is not None:
        plan = planned(
            clients, items, history=history, mechanism=mechanism, budget=budget, **training
        )
        cost = account(plan.event(items), Crowd.of(plan.crowd(clients)), delta)
        output.results.print(f"The planner takes {settings_in_words(plan)}.", soft_wrap=True)
        _print(plan.mechanism, cost)
        said |= {"plan": plan.as_dict(), "cost": cost.as_dict()}
    if json is not None:
        output.write_json(json, said)
    if plot is not None:
        output.messages.print("drawing the frontier: up to a minute")
        save_figure(
            plot,
            lambda figure: _draw_frontier(
                figure.subplots(), names, target, view, clients, delta, items
            ),
        )


def _print_plan(found: list[Option]) -> None:
    headings = ("eps", "reports in all (k T)", "signal", "local, pure", "central")
    table = Table("mechanism", *output.right(*headings))
    for option in found:
        central = "no crowd given" if option.central is None else f"{option.central:.3g}"
        table.add_row(
            option.mechanism,
            f"{option.epsilon:.3g}",
            f"{option.reports:,}",
            f"{option.signal:.4g}",
            f"{option.local:.4g}",
            central,
        )
    output.results.print(table)
    output.results.print(
        "Signal: reports times the square of what one of them carries, at usual settings; the "
        "first row says most. Share the reports out over as many epochs as you like, if everybody "
        "takes part in each: it costs the same. With --clients the planner has its own choice of "
        "eps, loud directions and turns.",
        soft_wrap=True,
    )


def _draw_epochs(axes: Axes, found: Account) -> None:
    event = found.event
    epochs = sorted({1 + round(i * (event.epochs - 1) / 12) for i in range(13)})
    spans = [Reporting(event.epsilon, event.reports, t, event.loud_fraction) for t in epochs]
    axes.plot(epochs, [s.pure for s in spans], label="local, pure", color="#c8442e")
    local = [local_epsilon(s, found.delta) for s in spans]
    axes.plot(epochs, local, label=f"local, delta {found.delta:g}", color="#c8442e", linestyle=":")
    if found.crowd is not None:
        central = [central_epsilon(s, found.crowd, found.delta) for s in spans]
        label = f"central, {found.crowd.honest:,} honest people"
        axes.plot(epochs, central, label=label, color="#1b6ca8")
    axes.set(xlabel="epochs", ylabel="epsilon", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_frontier(
    axes: Axes,
    names: list[str],
    target: float,
    view: ViewOption,
    clients: int | None,
    delta: float,
    items: int,
) -> None:
    """The most signal for a budget, from a tenth of the target to ten times it."""
    budgets = [target * 10 ** (i / 3 - 1) for i in range(7)]
    for name in names:
        best = [options(name, budget, view.value, clients, delta, items) for budget in budgets]
        points = [(b, o[0].signal) for b, o in zip(budgets, best, strict=True) if o]
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set(
        xlabel=f"{view.value} epsilon", ylabel="signal of one person", xscale="log", yscale="log"
    )
    axes.axvline(target, color="black", linestyle=":")
    axes.grid(alpha=0.3)
    axes.legend()
