"""Options that several commands have, described once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.mechanism import MECHANISMS
from sottovoce.training import all_presets


def group(name: str, text: str) -> typer.Typer:
    """A command with commands of its own, described by `text`."""
    return typer.Typer(name=name, help=text, no_args_is_help=True, add_completion=False)


def optional(text: str, default: str, *names: str, **limits: Any) -> Any:
    """An option that may be left out; `default` says in words what holds then."""
    return typer.Option(*names, help=text, show_default=default, **limits)


DataSource = Annotated[
    str, typer.Option("--data", help="Data set: a name from `sottovoce data list`, or a path.")
]
HistoryColumns = Annotated[
    str | None,
    optional("Names of the columns, e.g. user=who,item=what.", "the usual names", "--columns"),
]
MinInteractions = Annotated[
    int,
    typer.Option(
        "--min-interactions", min=0, help="Leave out users and items with fewer interactions."
    ),
]
Mechanisms = Annotated[
    list[str] | None,
    optional(f"Mechanism to run: {', '.join(MECHANISMS)}. May be repeated.", "all", "--mechanism"),
]
Threads = Annotated[int | None, optional("CPU threads.", "all", "--threads", min=1)]
PRESETS = f"Training preset: {', '.join(all_presets())}."
"""Help text of `--preset`."""
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="Epsilon that each person may spend in all, with nobody to trust; plans the rest.",
    ),
]
CentralBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--central-budget",
        help="The same, after an honest shuffle of everybody's reports (delta 1e-6).",
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
]


def people_option(default: str) -> Any:
    """`--people`."""
    text = "People who are expected to take part: what the training is planned for."
    return optional(text, default, "--people", min=1)


def history_option(default: str) -> Any:
    """`--history`."""
    text = "Items that a typical person has touched, about: what the training is planned for."
    return optional(text, default, "--history", min=1)


HistoryOption = Annotated[float | None, history_option("2% of the catalogue, 10 to 200")]
