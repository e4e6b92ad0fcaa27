"""Options that several commands have, described once."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.experiments.figures import figure_class
from sottovoce.mechanism import MECHANISMS
from sottovoce.training import all_presets

PICTURES = (".png", ".svg")


def group(name: str, text: str, example: str) -> typer.Typer:
    """A command with commands of its own, described by `text`."""
    told = f"{text}\n\n\b\nExample:\n  sottovoce {example}"
    return typer.Typer(name=name, help=told, no_args_is_help=True, add_completion=False)


def optional(text: str, default: str, *names: str, **limits: Any) -> Any:
    """An option that may be left out; `default` says in words what holds then."""
    return typer.Option(*names, help=text, show_default=default, **limits)


DataSource = Annotated[
    str, typer.Option("--data", help="Data set: a name from `sottovoce data list`, or a path.")
]
HistoryColumns = Annotated[
    str | None,
    optional(
        "Names of the columns, such as user=who,item=what,timestamp=day. Only those named are "
        "read.",
        "user, item, rating, timestamp",
        "--columns",
    ),
]
MinInteractions = Annotated[
    int,
    typer.Option(
        "--min-interactions",
        min=0,
        help="Leave out people and items with fewer interactions than this.",
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
        help="Local epsilon of one person, all reports together: it holds even if proxy and server "
        "work together. The other settings are planned for it.",
    ),
]
CentralBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--central-budget",
        help="Central epsilon of one person, all reports together: it holds if the proxy shuffles "
        "honestly (delta 1e-6). The other settings are planned for it.",
    ),
]


def can_be_written(path: Path | None) -> Path | None:
    """Before the work, not after it: missing folders are made, so the first one there counts."""
    if path is not None:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        is_fine = there == path or (there.is_dir() and os.access(there, os.W_OK))
        never = path.is_dir() or path.is_socket() or path.is_block_device()
        if never or not is_fine:
            raise typer.BadParameter(f"{path} cannot be written")
    return path


def _can_be_drawn(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in PICTURES:
        raise typer.BadParameter(f"{path} must end in {' or '.join(PICTURES)}")
    if path is not None:
        figure_class()
    return can_be_written(path)


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", callback=can_be_written, help="Also write the results to this JSON file."
    ),
]


def picture_option(what: str) -> Any:
    """`--plot`."""
    return typer.Option(
        "--plot", callback=_can_be_drawn, help=f"Also draw {what} to this PNG or SVG file."
    )


def people_option(default: str) -> Any:
    """`--people`."""
    text = "Number of people expected to take part. The training is planned for it."
    return optional(text, default, "--people", min=1)


def history_option(default: str) -> Any:
    """`--history`."""
    text = "Items that a typical person has touched. The training is planned for it."
    return optional(text, default, "--history", min=1)


HistoryOption = Annotated[float | None, history_option("2% of the catalogue, 10 to 200")]
