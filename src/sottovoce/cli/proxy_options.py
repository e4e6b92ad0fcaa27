"""What the commands of a proxy have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path, typer.Option("--config", help="Settings file, from `sottovoce proxy init`.")
]
