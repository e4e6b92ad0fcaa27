"""A whole system on one machine, as `up` and `demo` have it: made, started, stopped."""

import json
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.atomic import write_atomically
from sottovoce.data import Interactions
from sottovoce.errors import SettingsError, reason
from sottovoce.experiments.live.children import Child, running
from sottovoce.experiments.live.panel import invented_panel
from sottovoce.experiments.live.system_folder import (
    ABOUT,
    LiveSystem,
    proxy_toml,
    server_toml,
    set_values,
)
from sottovoce.privacy import account
from sottovoce.protocol import Catalogue, Terms
from sottovoce.protocol.terms import TRAINING
from sottovoce.proxy.setup import make_proxy
from sottovoce.server import ServerSettings
from sottovoce.server.choice import read_catalogue
from sottovoce.server.setup import make_server
from sottovoce.training import Settings

HOST, PORT = "127.0.0.1", 8080
KEEP_MODELS = 61
"""The page's curve looks back over sixty epochs."""
PANEL = "panel.json"
ONE_OPERATOR = "Proxy and server are at one operator here, so only the local guarantee holds"


@dataclass(frozen=True, eq=False)
class Sandbox:
    """A server and a proxy on this machine, with a page and no limit for an address."""

    catalogue: Catalogue
    training: Settings
    least_clients: int
    epoch_seconds: int
    port: int
    data: str | None = None
    """The data set that the catalogue was made from, and"""
    min_interactions: int = 0
    """how it was filtered."""
    people: Interactions | None = None
    """Of the data set; invented ones get a panel."""
    known_people: int | None = None
    """If it is certain how many people take part."""
    beat: float = 0.5
    """Seconds between two looks of either service: epochs go on at once."""
    proxy: Mapping[tuple[str, str], object] = field(default_factory=dict)
    """Further settings of the proxy."""

    def make(self, folder: Path) -> None:
        """What `server init` and `proxy init` do, made aside and put in place when it is whole."""
        unfinished = folder / "unfinished"
        try:
            held = {path.name for path in folder.iterdir()} if folder.exists() else set()
            if held and ABOUT not in held:  # else it is what an interrupted first start left
                raise SettingsError(f"{folder}: {min(held)} is in there; name an empty folder")
            about = {"data": self.data, "min_interactions": self.min_interactions}
            write_atomically(folder / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            self._make_both(unfinished)
            # The proxy last: without its settings nothing counts as made.
            for name in ("server", "proxy"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (unfinished / name).rename(folder / name)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be set up: {reason(error)}") from error
        shutil.rmtree(unfinished, ignore_errors=True)

    def _make_both(self, folder: Path) -> None:
        server = free_port(self.port + 1)
        watch_server = free_port(server + 1)
        watch_proxy = free_port(watch_server + 1)
        keys = make_server(
            folder / "server",
            self.catalogue,
            self.training,
            epoch_seconds=self.epoch_seconds,
            least_clients=self.least_clients,
            port=server,
            watch_port=watch_server,
        )
        set_values(server_toml(folder), {("", "heartbeat"): self.beat})
        make_proxy(
            folder / "proxy",
            secret_file=folder / "server" / "proxy.secret",
            server=f"http://{HOST}:{server}",
            verification_key=keys.verification_key.hex(),
            least_clients=self.least_clients,
            port=self.port,
            watch_port=watch_proxy,
        )
        panel = None
        if self.data is not None and self.people is not None:
            panel = invented_panel(self.data, self.catalogue, self.people)
        if panel is not None:
            (folder / "proxy" / PANEL).write_bytes(panel.encode())
        values: dict[tuple[str, str], object] = {
            ("", "poll_seconds"): self.beat,
            ("", "keep_models"): KEEP_MODELS,
            ("rate", "batches_per_minute"): 0,
            ("rate", "per_epoch"): 0,
            ("listen", "connections_per_address"): 0,
            ("page", "serve"): True,
            ("page", "jitter"): 0.0,  # a trial: the page says that it sends at once
            ("page", "panel"): panel and PANEL,
        }
        set_values(proxy_toml(folder), {**values, **self.proxy})
        write_statement(folder, self.known_people)


def write_statement(folder: Path, people: int | None = None) -> None:
    """What the page says about privacy; a central figure only for a crowd of known size."""
    server = ServerSettings.read(server_toml(folder))
    items = len(read_catalogue(server.catalogue).items)
    promised = account(
        Terms.of(bytes(TRAINING), server.training, server.terms, items).event, people
    )
    statement = f"{promised.statement()} {ONE_OPERATOR}."
    set_values(proxy_toml(folder), {("page", "statement"): statement})


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
