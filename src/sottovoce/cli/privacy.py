"""`sottovoce privacy`: compute the epsilon of settings, or plan settings for a budget."""

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
    choose_command_budget,
)
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.privacy.statement import format_epsilon
from sottovoce.training import DEFAULT_PRESET, plan_training

# Number of people for whom settings are planned without `--clients`.
DEFAULT_CLIENTS = 10_000


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
            help="Number of people who take part. Without this option, a person's reports are "
            "assumed to be hidden by dummies only, and settings are planned for "
            f"{DEFAULT_CLIENTS:,} people."
        ),
    ] = None,
    json: JsonFile = None,
    history: HistoryOption = None,
    delta: Annotated[
        float,
        typer.Option(help="Delta of (epsilon, delta)-privacy; choose it below 1 / --clients."),
    ] = DEFAULT_DELTA,
) -> None:
    """Compute the privacy cost (epsilon) of settings, in numbers and in words.

    Prints the local epsilon and, with --clients, the central epsilon, which holds after the
    shuffle. Unless the options name the whole cost (--preset paper, or --epsilon, --reports and
    --epochs or --lifetime), the planner chooses the other settings for a budget, and they are
    printed.

    \b
    Examples:
      sottovoce privacy --preset paper --clients 50000
      sottovoce privacy --mechanism loudest --epsilon 5 --reports 1 --epochs 2 --clients 75040
      sottovoce privacy --central-budget 1 --clients 50000
      sottovoce privacy --budget 10 --central-budget 1 --clients 200 --items 500
    """
    total_budget = choose_command_budget(budget, central_budget, preset or DEFAULT_PRESET, training)
    if clients is None and total_budget is not None and total_budget.local is None:
        raise SettingsError(
            "settings for a central budget depend on the number of people: give --clients PEOPLE"
        )
    settings = plan_training(
        clients or DEFAULT_CLIENTS,
        items,
        history=history,
        preset=preset or DEFAULT_PRESET,
        budget=None if total_budget is None else replace(total_budget, delta=delta),
        **training,
    )
    crowd = None if clients is None else settings.estimate_crowd(clients)
    if crowd is not None and crowd < 2 and not settings.dummies:
        raise SettingsError(
            f"{clients} people who each take part in {settings.turns} of {settings.epochs} "
            "epochs are too few: an epoch may have a single person; raise --clients"
        )
    report = make_privacy_report(settings.event(items), crowd, delta)
    if total_budget is not None:
        output.print_line(f"The planner chooses {settings}.")
    if clients is not None and crowd is not None and crowd < clients:
        output.print_line(
            f"Each of {clients:,} people takes part in {settings.turns} of {settings.epochs} "
            f"epochs, which their device draws at random: an epoch has at least {crowd:,} people."
        )
    output.results.print(_make_table(settings.mechanism, report))
    output.print_line(report.statement())
    content = {"settings": settings.as_dict(), **report.as_dict(), "statement": report.statement()}
    output.write_json(json, content)


def _make_table(mechanism: str, report: PrivacyReport) -> Table:
    views = ["local, pure", f"local, delta {report.delta:g}", f"central, delta {report.delta:g}"]
    if report.event.dummies:
        views.append("all others fake")
    table = Table(mechanism, *output.align_right("reports", *views))
    missing = "needs --clients" if report.people is None else "no other people"
    for figures in report.spans:
        cells = [format_epsilon(figures.pure, 6), format_epsilon(figures.local, 6)]
        cells += [
            missing if epsilon is None else format_epsilon(epsilon)
            for epsilon in (figures.central, figures.dummies_only)
        ]
        table.add_row(figures.span, f"{figures.reports:,}", *cells[: len(views)])
    return table
