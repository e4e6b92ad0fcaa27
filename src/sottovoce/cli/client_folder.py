"""Where a client of the command line lies."""

import shlex
from pathlib import Path
from typing import Annotated

import platformdirs

from sottovoce.cli.options import optional

Folder = Annotated[Path | None, optional("The client's folder.", "in the user's data folder")]


def typed(command: str, given: Path | None) -> str:
    """A command of this client, to be pasted: with its folder, where one was named."""
    where = "" if given is None else f" --folder {shlex.quote(str(given))}"
    return f"sottovoce client {command}{where}"


def folder_of(given: Path | None) -> Path:
    """The one that was named, or the usual one."""
    return Path(platformdirs.user_data_dir("sottovoce")) / "client" if given is None else given
