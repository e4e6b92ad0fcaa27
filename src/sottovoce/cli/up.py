"""`sottovoce up`: server and proxy on one machine, for trying everything out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import output
from sottovoce.cli.options import PRESETS, optional
from sottovoce.cli.system import (
    HOST,
    ONE_OPERATOR,
    PORT,
    CatalogueSource,
    StopSignal,
    free_port,
    make_system,
    running_system,
    write_statement,
)
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import SettingsError
from sottovoce.experiments.live.children import watch
from sottovoce.experiments.live.system_folder import (
    LiveSystem,
    is_made,
    proxy_toml,
    server_toml,
    set_values,
)
from sottovoce.training import DEFAULT

EPOCH_SECONDS, TARGET_CLIENTS, LEAST_CLIENTS = 60, 0, 10
SWARM = 100
"""Clients to try it with, where no target says how many."""


def up(
    folder: Annotated[
        Path, typer.Argument(help="Folder for everything; created at the first start.")
    ] = Path("sottovoce-up"),
    *,
    data: Annotated[
        str | None,
        optional(
            "First start only: data set whose items make the catalogue, a name or a path.",
            SYNTHETIC,
        ),
    ] = None,
    min_interactions: Annotated[
        int | None,
        optional(
            "First start only: leave out users and items with fewer interactions.", "0", min=0
        ),
    ] = None,
    preset: Annotated[
        str | None,
        optional(f"First start only. {PRESETS}", DEFAULT),
    ] = None,
    port: Annotated[
        int | None, optional("Port of the proxy.", f"{PORT}", min=1, max=65_535)
    ] = None,
    server_port: Annotated[
        int | None, optional("Port of the server.", "the next free one", min=1, max=65_535)
    ] = None,
    epoch_seconds: Annotated[
        int | None, optional("Longest time of an epoch in seconds.", f"{EPOCH_SECONDS}", min=1)
    ] = None,
    target_clients: Annotated[
        int | None,
        optional(
            "End an epoch early when so many batches have come; 0: never.",
            f"{TARGET_CLIENTS}",
            min=0,
        ),
    ] = None,
    least_clients: Annotated[
        int | None,
        optional("Discard an epoch in which fewer people reported.", f"{LEAST_CLIENTS}", min=1),
    ] = None,
    epochs: Annotated[
        int | None, optional("Epochs of the training.", "the preset's", min=1)
    ] = None,
) -> None:
    """Run a server and a proxy on this machine until Ctrl-C. The first start makes their settings.

    The settings are in FOLDER/server/server.toml and FOLDER/proxy/proxy.toml. Options that are not
    for the first start only are written to these files, so later starts need not repeat them; their
    defaults hold for the first start.

    \b
    Examples:
      sottovoce up
      sottovoce up here --data ml-latest-small --preset strong --target-clients 600
      sottovoce up here --epoch-seconds 3600 --target-clients 2000
    """  # noqa: D301 - typer reads \b
    stop = StopSignal()
    given = StartOptions(port, server_port, epoch_seconds, target_clients, least_clients, epochs)
    if not is_made(folder):
        source = CatalogueSource(data or SYNTHETIC, min_interactions or 0, preset or DEFAULT)
        make_system(folder, source, lambda made: _configure(made, given))
    elif data is not None or preset is not None or min_interactions is not None:
        raise SettingsError(
            f"{folder}: there is a training already, so --data, --min-interactions and --preset "
            "cannot be changed; begin another training in another folder"
        )
    given.write(folder)
    _run(folder, LiveSystem.read(folder), stop)


@dataclass(frozen=True)
class StartOptions:
    """What may be chosen at any start; None leaves the settings as they are."""

    port: int | None
    server_port: int | None
    epoch_seconds: int | None
    target_clients: int | None
    least_clients: int | None
    epochs: int | None

    def with_defaults(self) -> StartOptions:
        port = self.port or PORT
        return StartOptions(
            port,
            self.server_port or free_port(port + 1),
            self.epoch_seconds or EPOCH_SECONDS,
            self.target_clients or TARGET_CLIENTS,
            self.least_clients or LEAST_CLIENTS,
            self.epochs,
        )

    def write(self, folder: Path) -> None:
        set_values(
            server_toml(folder),
            {
                ("", "epoch_seconds"): self.epoch_seconds,
                ("", "target_clients"): self.target_clients,
                ("", "least_clients"): self.least_clients,
                ("training", "epochs"): self.epochs,
                ("listen", "port"): self.server_port,
            },
        )
        set_values(
            proxy_toml(folder),
            {
                ("", "server"): self.server_port and f"http://{HOST}:{self.server_port}",
                ("", "least_clients"): self.least_clients,
                ("listen", "port"): self.port,
            },
        )
        if self.epochs is not None:  # what the page says follows from them
            write_statement(folder)


def _configure(folder: Path, given: StartOptions) -> None:
    given.with_defaults().write(folder)
    write_statement(folder)


def _run(folder: Path, system: LiveSystem, stop: StopSignal) -> None:
    with running_system(folder, system, stop) as children:
        if not stop():
            _print_start(folder, system)
        watch(children, stop)
    output.messages.print("Stopped.")


def _print_start(folder: Path, system: LiveSystem) -> None:
    training = system.training
    assert training is not None, "a folder's training is known"
    limit = training.epsilon * training.reports * training.epochs
    key = system.key.hex()
    for line in (
        f"Proxy, for clients and browsers: {system.proxy}",
        f"Server, for the proxy: {system.server}",
        f"Verification key: {key}",
        f"{ONE_OPERATOR} (docs/operations.md).",
        "Try next, in another terminal:",
        f"  sottovoce client init --proxy {system.proxy} --key {key} --limit {limit:g}",
        f"  sottovoce swarm --up {folder} --clients {system.target_clients or SWARM}",
        "Ctrl-C stops both.",
    ):
        typer.echo(line)
