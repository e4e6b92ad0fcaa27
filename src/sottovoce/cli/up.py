"""`sottovoce up`: server and proxy on one machine, for trying everything out."""

from __future__ import annotations

import json as json_format
import os
import shutil
import signal
import socket
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.atomic import write_atomically
from sottovoce.cli import output
from sottovoce.cli import proxy as proxy_commands
from sottovoce.cli import server as server_commands
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import SettingsError
from sottovoce.experiments.live.children import running, watch
from sottovoce.experiments.live.people import read_people
from sottovoce.experiments.live.standing import (
    ABOUT,
    Standing,
    change,
    is_made,
    proxy_toml,
    server_toml,
)
from sottovoce.protocol import Catalogue
from sottovoce.server import Keys, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
PORT = 8080
EPOCH_SECONDS, TARGET_CLIENTS, LEAST_CLIENTS = 60, 0, 10
SWARM = 100
"""Clients to try it with, where no target says how many."""
BEAT_SECONDS = 0.5
"""Between two looks of either service: epochs go on at once."""


def up(
    folder: Annotated[
        Path, typer.Argument(help="Where everything is kept; made at the first start.")
    ] = Path("sottovoce-up"),
    *,
    data: Annotated[
        str | None,
        typer.Option(
            help="First start only: whose items make the catalogue, a name or a path; synthetic."
        ),
    ] = None,
    min_interactions: Annotated[
        int | None,
        typer.Option(min=0, help="First start only: leave out users and items with fewer; 0."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="First start only: paper, hadamard, loudest or strong; loudest."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help=f"Of the proxy; {PORT}.")
    ] = None,
    server_port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Of the server; the next that is free.")
    ] = None,
    epoch_seconds: Annotated[
        int | None, typer.Option(min=1, help=f"Longest time of an epoch; {EPOCH_SECONDS}.")
    ] = None,
    target_clients: Annotated[
        int | None,
        typer.Option(min=0, help="So many batches end an epoch before its time; 0: none do."),
    ] = None,
    least_clients: Annotated[
        int | None,
        typer.Option(min=1, help=f"An epoch with fewer is discarded; {LEAST_CLIENTS}."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of the training; the preset's number.")
    ] = None,
) -> None:
    """Run a server and a proxy here until Ctrl-C. The first start makes keys and settings.

    The settings are in FOLDER/server/server.toml and FOLDER/proxy/proxy.toml. Options other than
    those for the first start are written to these files, and hold until they are given anew.

    \b
    Examples:
      sottovoce up
      sottovoce up here --data ml-latest-small --preset strong --target-clients 600
      sottovoce up here --epoch-seconds 3600 --target-clients 2000
    """  # noqa: D301 - typer reads \b
    stop = _Stop()
    given = Options(port, server_port, epoch_seconds, target_clients, least_clients, epochs)
    if not is_made(folder):
        _make(folder, data or SYNTHETIC, min_interactions or 0, preset or "loudest", given)
    elif data is not None or preset is not None or min_interactions is not None:
        raise SettingsError(
            f"{folder}: a training runs there already, so --data, --min-interactions and "
            "--preset have no place; begin another one in another folder"
        )
    given.write(folder)
    _run(folder, Standing.read(folder), stop)


@dataclass(frozen=True)
class Options:
    """What may be chosen at any start; None leaves the settings as they are."""

    port: int | None
    server_port: int | None
    epoch_seconds: int | None
    target_clients: int | None
    least_clients: int | None
    epochs: int | None

    def for_the_first_start(self) -> Options:
        """With our defaults for what was not given."""
        port = self.port or PORT
        return Options(
            port,
            self.server_port or _free_port(port + 1),
            self.epoch_seconds or EPOCH_SECONDS,
            self.target_clients or TARGET_CLIENTS,
            self.least_clients or LEAST_CLIENTS,
            self.epochs,
        )

    def write(self, folder: Path) -> None:
        """To the settings of both."""
        change(
            server_toml(folder),
            {
                ("", "epoch_seconds"): self.epoch_seconds,
                ("", "target_clients"): self.target_clients,
                ("", "least_clients"): self.least_clients,
                ("training", "epochs"): self.epochs,
                ("listen", "port"): self.server_port,
            },
        )
        change(
            proxy_toml(folder),
            {
                ("", "server"): self.server_port and f"http://{HOST}:{self.server_port}",
                ("", "least_clients"): self.least_clients,
                ("listen", "port"): self.port,
            },
        )


class _Stop:
    """Whether we were told to: by Ctrl-C or SIGTERM, from here on."""

    def __init__(self) -> None:
        self.told = False
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, self._hear)

    def __call__(self) -> bool:
        return self.told

    def _hear(self, *_: object) -> None:
        self.told = True


def _run(folder: Path, standing: Standing, stop: _Stop) -> None:
    """The server first: a proxy is ready when it has a manifest."""
    with ExitStack() as children:
        server = children.enter_context(
            running("server", ["server", "run", "--config", str(server_toml(folder))])
        )
        server.wait_until_ready(standing.server, stop)
        if stop():
            return
        proxy = children.enter_context(
            running("proxy", ["proxy", "run", "--config", str(proxy_toml(folder))])
        )
        proxy.wait_until_ready(standing.proxy, stop)
        if not stop():
            _tell(folder, standing)
        watch([server, proxy], stop)
    output.messages.print("Stopped.")


def _tell(folder: Path, standing: Standing) -> None:
    training = standing.training
    assert training is not None, "a folder's training is known"
    limit = training.epsilon * training.reports * training.epochs
    key = standing.key.hex()
    warning = "Proxy and server are at one operator here, so only the local guarantee holds"
    for line in (
        f"Proxy, for clients: {standing.proxy}",
        f"Server, for the proxy: {standing.server}",
        f"Verification key: {key}",
        f"{warning} (docs/operations.md).",
        "Try next, in another terminal:",
        f"  sottovoce client init --proxy {standing.proxy} --key {key} --limit {limit:g}",
        f"  sottovoce swarm --up {folder} --clients {standing.target_clients or SWARM}",
        "Ctrl-C stops both.",
    ):
        typer.echo(line)


def _make(folder: Path, data: str, min_interactions: int, preset: str, given: Options) -> None:
    """What `server init` and `proxy init` do, made aside and put in place when it is whole."""
    unfinished = folder / "unfinished"
    try:
        _check_ours(folder)
        about = {"data": data, "min_interactions": min_interactions}
        write_atomically(folder / ABOUT, (json_format.dumps(about, indent=2) + "\n").encode())
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        catalogue = unfinished / "catalogue.json"
        with output.messages.status("making keys, catalogue and settings"), _silence():
            people = read_people(data, min_interactions)
            catalogue.write_bytes(Catalogue.of(server_commands.items_of(people)).raw)
            server_commands.init(unfinished / "server", catalogue=catalogue, preset=preset)
            _make_proxy(unfinished)
        # Beats are short here, and everybody comes from one address.
        change(server_toml(unfinished), {("", "heartbeat"): BEAT_SECONDS})
        change(
            proxy_toml(unfinished),
            {("", "poll_seconds"): BEAT_SECONDS, ("rate", "batches_per_minute"): 0},
        )
        given.for_the_first_start().write(unfinished)
        # The proxy last: without its settings nothing counts as made.
        for name in ("server", "proxy"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (unfinished / name).rename(folder / name)
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be set up: {error}") from error
    shutil.rmtree(unfinished, ignore_errors=True)


def _check_ours(folder: Path) -> None:
    """A folder with anything in it is ours or left alone: what a cut start left is replaced."""
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if held and ABOUT not in held:
        raise SettingsError(f"{folder}: {min(held)} is in there; name a new or an empty folder")


def _make_proxy(unfinished: Path) -> None:
    settings = ServerSettings.read(server_toml(unfinished))
    proxy_commands.init(
        unfinished / "proxy",
        server=f"http://{HOST}:{settings.listen.port}",
        key=Keys.read(settings.keys).verification_key.hex(),
        secret_file=unfinished / "server" / "proxy.secret",
    )


def _free_port(first: int) -> int:
    """The first at which nobody listens, from this one on."""
    for port in range(first, 65_536):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise SettingsError(f"no port from {first} on is free: name one with --server-port")


@contextmanager
def _silence() -> Iterator[None]:
    """What `init` says is for operators of one of the two."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
