"""Options that several commands have, described once."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.mechanism import MECHANISMS

DataSource = Annotated[
    str, typer.Option("--data", help="Data set: a name from `sottovoce data list`, or a path.")
]
MinInteractions = Annotated[
    int,
    typer.Option(
        "--min-interactions", min=0, help="Leave out users and items with fewer interactions."
    ),
]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        help=f"Mechanism to run: {', '.join(MECHANISMS)}. May be repeated.",
        show_default="all",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads.", show_default="all")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
]
