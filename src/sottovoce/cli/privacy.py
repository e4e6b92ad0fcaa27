"""`sottovoce privacy`: what a way of reporting costs, and which ways fit a budget."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    PRESETS,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    JsonFile,
    training_options,
)
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce.privacy import Account, Crowd, account
from sottovoce.privacy.account import DELTA, shown
from sottovoce.training import DEFAULT, Budget, planned
from sottovoce.training.planning import PLANNED, Option, options

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
      sottovoce privacy --central-budget 1 --clients 50000
    """
    mechanism = training.pop("mechanism", None)
    if budget is not None or central_budget is not None:
        if preset is not None or trainings > 1:
            raise SettingsError("a budget is for one training: leave out --preset, --trainings")
        if budget is not None and central_budget is not None:
            raise SettingsError("give --budget or --central-budget, not both")
        _plan(
            budget or central_budget or 0.0,
            "central" if budget is None else "local",
            delta,
            clients,
            items,
            mechanism=mechanism,
            json=json,
            history=history,
            **training,
        )
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
    crowd = None
    if clients is not None:
        in_an_epoch = settings.crowd(clients)
        if in_an_epoch < 2 <= clients:
            raise SettingsError(
                f"{clients} people who each take part in {settings.turns} of {settings.epochs} "
                "epochs are too few: an epoch may have a single person; raise --clients"
            )
        crowd = Crowd(in_an_epoch)
    found = account(event, crowd, delta, trainings)
    _print(name, found)
    content = {"mechanism": name, **found.as_dict(), "statement": found.statement()}
    output.write_json(json, content)


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


def _plan(
    epsilon: float,
    view: Literal["local", "central"],
    delta: float,
    clients: int | None,
    items: int,
    *,
    mechanism: str | None,
    json: Path | None,
    **given: Any,
) -> None:
    """Which ways of reporting fit a budget; for a crowd of known size also what is planned."""
    budget = Budget(**{view: epsilon}, delta=delta)
    comparable = [name for name, kind in MECHANISMS.items() if not kind.gain_is_bound]
    names = [mechanism] if mechanism else comparable
    found = [each for name in names for each in options(name, epsilon, view, clients, delta, items)]
    if not found:
        raise SettingsError(f"a {view} epsilon of {epsilon:g} is too small for one report")
    _print_plan(sorted(found, key=lambda option: -option.signal))
    content = [{**asdict(option), "signal": option.signal} for option in found]
    said: dict[str, Any] = {"epsilon": epsilon, "view": view, "options": content, "plan": None}
    if clients is not None:
        plan = planned(clients, items, mechanism=mechanism, budget=budget, **given)
        cost = account(plan.event(items), plan.crowd(clients), delta)
        output.say(f"The planner takes {output.settings_in_words(plan)}.")
        _print(plan.mechanism, cost)
        said |= {"plan": plan.as_dict(), "cost": cost.as_dict()}
    output.write_json(json, said)


def _print_plan(found: list[Option]) -> None:
    headings = ("epsilon", "reports in all (k T)", "signal", "local, pure", "central")
    table = Table("mechanism", *output.right(*headings))
    for option in found:
        central = "no crowd given" if option.central is None else shown(option.central, 3)
        table.add_row(
            option.mechanism,
            shown(option.epsilon, 3),
            f"{option.reports:,}",
            f"{option.signal:.4g}",
            shown(option.local),
            central,
        )
    output.results.print(table)
    output.say(
        "Signal: number of reports times the square of what one carries, at usual settings; the "
        "first row carries most. The reports may be spread over any number of epochs at the same "
        "cost, if everybody takes part in each. With --clients the planner makes its own choice of "
        "epsilon, loud directions and epochs."
    )
