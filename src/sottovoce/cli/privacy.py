"""`sottovoce privacy`: what a way of reporting costs, and which one is planned for a budget."""

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    PRESET_HELP,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    JsonFile,
    add_training_options,
)
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.privacy.statement import format_epsilon
from sottovoce.training import DEFAULT_PRESET, Budget, plan_training
from sottovoce.training.budget import complete_budget

USUAL_CLIENTS = 10_000
"""Whom settings are planned for where nobody says how many people there are."""


@add_training_options(
    only=["mechanism", "epsilon", "reports", "epochs", "lifetime", "dummies", "factors"]
)
def privacy(
    *,
    preset: Annotated[str | None, typer.Option(help=PRESET_HELP)] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    training: dict[str, Any],
    items: Annotated[int, typer.Option(min=1, help="Number of items in the catalogue.")] = 10_000,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Number of people who take part. Without it dummies alone hide anybody, and "
            f"settings are planned for {USUAL_CLIENTS:,} people."
        ),
    ] = None,
    json: JsonFile = None,
    history: HistoryOption = None,
    delta: Annotated[
        float,
        typer.Option(help="Of the figures that have one: below one in the number of people."),
    ] = DEFAULT_DELTA,
) -> None:
    """Say what reporting costs in epsilon, in numbers and words.

    Locally, and with --clients also after the shuffle. With a budget: which settings the planner
    chooses for it, and what they cost. The defaults shown are those of `loudest`; `--preset` and
    `--mechanism` bring their own.

    \b
    Examples:
      sottovoce privacy --preset paper --clients 50000
      sottovoce privacy --mechanism loudest --epsilon 5 --reports 1 --epochs 2 --clients 75040
      sottovoce privacy --central-budget 1 --clients 50000
      sottovoce privacy --budget 10 --central-budget 1 --clients 200 --items 500
    """
    wanted = complete_budget(preset or DEFAULT_PRESET, Budget.from_options(budget, central_budget))
    if clients is None and wanted is not None and wanted.local is None:
        raise SettingsError("this is planned for a number of people: give --clients PEOPLE")
    settings = plan_training(
        clients or USUAL_CLIENTS,
        items,
        history=history,
        preset=preset or DEFAULT_PRESET,
        budget=None if wanted is None else replace(wanted, delta=delta),
        **training,
    )
    in_an_epoch = None if clients is None else settings.estimate_crowd(clients)
    if in_an_epoch is not None and in_an_epoch < 2 and not settings.dummies:
        raise SettingsError(
            f"{clients} people who each take part in {settings.turns} of {settings.epochs} "
            "epochs are too few: an epoch may have a single person; raise --clients"
        )
    found = make_privacy_report(settings.event(items), in_an_epoch, delta)
    if wanted is not None:
        output.print_line(f"The planner takes {output.describe_settings(settings)}.")
    if clients is not None and in_an_epoch is not None and in_an_epoch < clients:
        output.print_line(
            f"Each of {clients:,} people takes part in {settings.turns} of {settings.epochs} "
            f"epochs, drawn by their own device: an epoch has at least {in_an_epoch:,}."
        )
    _print(settings.mechanism, found)
    content = {"settings": settings.as_dict(), **found.as_dict(), "statement": found.statement()}
    output.write_json(json, content)


def _print(mechanism: str, found: PrivacyReport) -> None:
    views = ["local, pure", f"local, delta {found.delta:g}", f"central, delta {found.delta:g}"]
    if found.event.dummies:
        views.append("all others fake")
    table = Table(mechanism, *output.align_right("reports", *views))
    for figures in found.spans:
        none = "no crowd given" if found.people is None else "nobody to hide among"
        hidden = [
            none if each is None else format_epsilon(each)
            for each in (figures.central, figures.alone)
        ]
        local = (format_epsilon(figures.pure, 6), format_epsilon(figures.local, 6))
        shown_views = [*local, *hidden][: len(views)]
        table.add_row(figures.span, f"{figures.reports:,}", *shown_views)
    output.results.print(table)
    output.print_line(found.statement())
