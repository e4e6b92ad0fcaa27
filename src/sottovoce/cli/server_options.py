"""What the commands of a server have in common."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli.options import optional
from sottovoce.server import ServerSettings, ServerStore

if TYPE_CHECKING:
    from collections.abc import Iterator

ConfigOption = Annotated[
    Path, typer.Option("--config", help="Settings file, from `sottovoce server init`.")
]
PortOption = Annotated[
    int | None, optional("Port to listen on.", "as in the settings", min=0, max=65_535)
]
WatchPortOption = Annotated[
    int | None,
    optional("Port for health and metrics.", "as in the settings", min=0, max=65_535),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@contextmanager
def opened(config: Path) -> Iterator[tuple[ServerSettings, ServerStore]]:
    """The settings and their database, brought up to date."""
    settings = ServerSettings.read(config)
    with closing(ServerStore(settings.database)) as store:
        store.migrate()
        yield settings, store
