"""A whole system on one machine, as `up` and `demo` have it: made, started, stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.atomic import write_atomically
from sottovoce.cli import output
from sottovoce.cli import proxy as proxy_commands
from sottovoce.cli import server as server_commands
from sottovoce.cli.catalogue_files import catalogue_in, items_of
from sottovoce.data import load
from sottovoce.errors import SettingsError, reason
from sottovoce.experiments.live.children import running
from sottovoce.experiments.live.panel import invented_panel
from sottovoce.experiments.live.system_folder import ABOUT, proxy_toml, server_toml, set_values
from sottovoce.privacy import account
from sottovoce.protocol import Catalogue, Terms
from sottovoce.protocol.terms import TRAINING
from sottovoce.server import Keys, ServerSettings
from sottovoce.server.choice import read_catalogue
from sottovoce.training import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.data import Interactions
    from sottovoce.experiments.live.children import Child
    from sottovoce.experiments.live.system_folder import LiveSystem
    from sottovoce.protocol import Item

HOST = "127.0.0.1"
PORT = 8080
BEAT_SECONDS = 0.5
"""Between two looks of either service: epochs go on at once."""
KEEP_MODELS = 61
"""The page's curve looks back over sixty epochs."""
PANEL = "panel.json"
ONE_OPERATOR = "Proxy and server are at one operator here, so only the local guarantee holds"


@dataclass(frozen=True)
class CatalogueSource:
    """What the catalogue is made from, and how it is trained."""

    data: str | None
    """A data set whose items make it, or None, with"""
    catalogue: Path | None = None
    """a file of items, and"""
    columns: str | None = None
    """what its columns are called."""
    min_interactions: int = 0
    preset: str = DEFAULT
    budget: float | None = None
    central_budget: float | None = None
    people: int | None = None
    """Who are expected to take part; None: as many as the data has."""
    tags: frozenset[str] | None = None
    """Kinds of tags that the catalogue keeps, where it is made from data; None: all."""

    def read(self) -> tuple[Catalogue, Interactions | None]:
        """The catalogue, and the people of the data set if there is one."""
        if self.data is None:
            assert self.catalogue is not None, "one of them is given"
            return catalogue_in(self.catalogue, self.columns), None
        people = load(self.data).filter(self.min_interactions)
        return Catalogue.of(self._with_tags(item) for item in items_of(people)), people

    def _with_tags(self, item: Item) -> Item:
        if self.tags is None:
            return item
        kept = {kind: tag for kind, tag in item.tags.items() if kind in self.tags}
        return replace(item, tags=kept)


class StopSignal:
    """Whether Ctrl-C or SIGTERM came since this was made."""

    def __init__(self) -> None:
        self.received = False
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, self._on_signal)

    def __call__(self) -> bool:
        return self.received

    def _on_signal(self, *_: object) -> None:
        self.received = True


def make_system(folder: Path, source: CatalogueSource, configure: Callable[[Path], None]) -> None:
    """What `server init` and `proxy init` do, made aside and put in place when it is whole.

    `configure` writes what is special about this system to the settings of both.
    """
    unfinished = folder / "unfinished"
    try:
        _check_ours(folder)
        about = {"data": source.data, "min_interactions": source.min_interactions}
        write_atomically(folder / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        with output.messages.status("making keys, catalogue and settings"), _without_output():
            _make_server_and_proxy(unfinished, source)
            configure(unfinished)
        # The proxy last: without its settings nothing counts as made.
        for name in ("server", "proxy"):
            shutil.rmtree(folder / name, ignore_errors=True)
            (unfinished / name).rename(folder / name)
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be set up: {reason(error)}") from error
    shutil.rmtree(unfinished, ignore_errors=True)


def write_statement(folder: Path, people: int | None = None) -> None:
    """What the page says about privacy; a central figure only for a crowd of known size."""
    server = ServerSettings.read(server_toml(folder))
    items = len(read_catalogue(server.catalogue).items)
    terms = Terms.of(bytes(TRAINING), server.training, server.terms, items)
    promised = account(terms.event, people)
    set_values(
        proxy_toml(folder), {("page", "statement"): f"{promised.statement()} {ONE_OPERATOR}."}
    )


@contextmanager
def running_system(
    folder: Path, system: LiveSystem, stop: StopSignal, *, quiet: bool = False
) -> Iterator[list[Child]]:
    """Server and proxy, started in this order; fewer, if a signal comes meanwhile."""
    with ExitStack() as stack:
        children: list[Child] = []
        for name, url, path in (
            ("server", system.server_watch, server_toml(folder)),
            ("proxy", system.proxy_watch, proxy_toml(folder)),
        ):
            if stop():
                break
            arguments = [name, "run", "--config", str(path)]
            children.append(stack.enter_context(running(name, arguments, quiet=quiet)))
            children[-1].wait_until_ready(url, stop)
        # All are told before any is waited for, so that they end at the same time.
        for child in children:
            stack.callback(child.terminate)
        yield children


def write_ports(folder: Path, proxy: int, server: int) -> None:
    """Both services there, and where each is watched at the next ports that are free."""
    watch_proxy = free_port(max(proxy, server) + 1)
    watch_server = free_port(watch_proxy + 1)
    set_values(server_toml(folder), {("listen", "port"): server, ("watch", "port"): watch_server})
    set_values(
        proxy_toml(folder),
        {
            ("", "server"): f"http://{HOST}:{server}",
            ("listen", "port"): proxy,
            ("watch", "port"): watch_proxy,
        },
    )


def free_port(first: int) -> int:
    for port in range(first, 65_536):
        if is_free(port):
            return port
    raise SettingsError(f"no port from {first} on is free: name a lower one")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _check_ours(folder: Path) -> None:
    """Refuse a folder with other content; what an interrupted first start left is replaced."""
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if held and ABOUT not in held:
        raise SettingsError(f"{folder}: {min(held)} is in there; name a new or an empty folder")


def _make_server_and_proxy(unfinished: Path, source: CatalogueSource) -> None:
    """With short polling intervals, no limit for an address, and a page."""
    path = unfinished / "catalogue.json"
    catalogue, people = source.read()
    path.write_bytes(catalogue.raw)
    server_commands.init(
        unfinished / "server",
        catalogue=path,
        preset=source.preset,
        budget=source.budget,
        central_budget=source.central_budget,
        people=source.people or (None if people is None else people.histories.n_users),
        history=None if people is None else people.histories.typical_length(),
    )
    set_values(server_toml(unfinished), {("", "heartbeat"): BEAT_SECONDS})
    _make_proxy(unfinished)
    panel = None
    if source.data is not None and people is not None:
        panel = invented_panel(source.data, catalogue, people)
    if panel is not None:
        (unfinished / "proxy" / PANEL).write_bytes(panel.encode())
    set_values(
        proxy_toml(unfinished),
        {
            ("", "poll_seconds"): BEAT_SECONDS,
            ("", "keep_models"): KEEP_MODELS,
            ("rate", "batches_per_minute"): 0,
            ("rate", "per_epoch"): 0,
            ("listen", "connections_per_address"): 0,
            ("page", "serve"): True,
            ("page", "jitter"): 0.0,  # a trial: the page says that it sends at once
            ("page", "panel"): panel and PANEL,
        },
    )


def _make_proxy(unfinished: Path) -> None:
    settings = ServerSettings.read(server_toml(unfinished))
    proxy_commands.make(
        unfinished / "proxy",
        server=f"http://{HOST}:{settings.listen.port}",
        key=Keys.read(settings.keys).verification_key.hex(),
        secret_file=unfinished / "server" / "proxy.secret",
    )


@contextmanager
def _without_output() -> Iterator[None]:
    """Without the output of `init`, which is for operators."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield
