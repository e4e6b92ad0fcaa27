"""A whole system on one machine, as `up` and `demo` have it: made, started, stopped."""

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import IO, Self
from urllib.parse import urlsplit

import httpx
import tomlkit
from tomlkit.container import Container

from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic
from sottovoce.errors import SettingsError, UnavailableError, get_reason
from sottovoce.protocol import Catalogue, Terms
from sottovoce.protocol.panel import Panel
from sottovoce.protocol.terms import TRAINING_ID_BYTES, TRIAL_SENTENCE
from sottovoce.proxy import ProxySettings
from sottovoce.proxy.settings import make_proxy
from sottovoce.sandbox.devices import on_catalogue
from sottovoce.server import ServerSettings
from sottovoce.server.administration import read_catalogue
from sottovoce.server.setup import make_server
from sottovoce.service.attest import PATH as ATTEST_PATH
from sottovoce.service.attest import Attester
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.toml import read_settings
from sottovoce.service.watch import READY_PATH
from sottovoce.simulation.evaluation.panel import make_panel
from sottovoce.storage.files import write_atomically
from sottovoce.training import Participation, Settings

ABOUT = "up.json"
"""What the catalogue was made from."""


def server_toml(folder: Path) -> Path:
    return folder / "server" / "server.toml"


def proxy_toml(folder: Path) -> Path:
    return folder / "proxy" / "proxy.toml"


def is_made(folder: Path) -> bool:
    """Whether there has been a first start: the proxy's settings are put in place last."""
    return proxy_toml(folder).exists()


@dataclass(frozen=True)
class LiveSystem:
    """A live system, as far as a client's side knows it; the rest is known of our own folder."""

    proxy: str
    """The proxy's address."""
    key: bytes
    """The server's verification key."""
    data: str | None = None
    """What the catalogue was made from."""
    training: Settings | None = None
    least_clients: int = 1
    """For so many an epoch waits."""
    server: str = ""
    """The server's address."""
    server_watch: str = ""
    """Where it is watched, and"""
    proxy_watch: str = ""
    """where the proxy is."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use it."""
    trial: bool = False
    """Whether most people are invented."""
    shop: str = ""
    """A toy shop, in which any name has an account; empty: nobody needs one."""

    @property
    def attest(self) -> str:
        """Where its backend attests accounts; empty: nobody needs one."""
        return self.shop and self.shop + ATTEST_PATH

    @property
    def limit(self) -> float:
        """What a device spends in a training."""
        assert self.training is not None, "a folder's training is known"
        return self.training.epsilon * self.training.reports * self.training.max_turns

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Of a folder made by `sottovoce up`."""
        if not is_made(folder):
            raise SettingsError(f"{folder}: nothing is there yet; run: sottovoce up {folder}")
        server = ServerSettings.read(server_toml(folder))
        proxy = read_settings(proxy_toml(folder), ProxySettings)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return cls(
            _url(proxy.listen),
            proxy.key,
            about["data"],
            server.training,
            max(server.terms.least_clients, proxy.least_clients),
            proxy.server,
            _url(server.watch),
            _url(proxy.watch),
            proxy.origins,
            server.terms.trial,
            about["shop"],
        )


def _url(at: Listen | Watch) -> str:
    return f"http://{at.host}:{at.port}"


def set_values(path: Path, values: Mapping[tuple[str, str], object]) -> None:
    """Set what is not None, by table and name, all of it or nothing; comments and order stay."""
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    for (table, name), value in values.items():
        if value is not None:
            _set(document.setdefault(table, {}).value if table else document, name, value)
    write_atomically(path, tomlkit.dumps(document).encode(), private=True)


def _set(table: Container, name: str, value: object) -> None:
    """Where it is; if a comment alone shows it (`# name = 1  # why`), that line comes to count."""
    lines = [line for _, line in table.body if line.as_string().startswith(f"# {name} = ")]
    if name in table or not lines:
        table[name] = value
        return
    _, mark, why = lines[0].as_string().rstrip().partition("  # ")
    lines[0].trivia.comment = f"{name} = {tomlkit.item(value).as_string()}{mark}{why}"


READY_SECONDS = 60.0
STOP_SECONDS = 40.0
"""Services give requests under way thirty seconds."""
_LOOK_SECONDS = 0.3
_LAST_LINES = 20


class Child:
    """One `sottovoce ...` process. Its output goes to our stderr, each line under its name.

    A quiet one's goes nowhere, but for the last lines if it ends by itself.
    """

    def __init__(self, name: str, arguments: Sequence[str], *, quiet: bool = False):
        self.name = name
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        # A group of its own: Ctrl-C in a terminal is for us, and we tell it to stop.
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "sottovoce", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        assert self.process.stdout is not None
        self._reader = threading.Thread(
            target=self._forward,
            args=(self.process.stdout, self._last_lines.append if quiet else _write_line),
            daemon=True,
        )
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self, url: str, stopping: Callable[[], bool]) -> None:
        """Until `/readyz` says yes, where it is watched; an error if it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not stopping() and not is_ready(url):
            self.check()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the {self.name} is not ready after {READY_SECONDS:g} seconds: "
                    f"{url}{READY_PATH}"
                )
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """An error if it has ended by itself."""
        if not self.is_running:
            self._reader.join(1.0)
            for line in self._last_lines:
                _write_line(line)
            raise UnavailableError(
                f"the {self.name} ended by itself with code {self.process.returncode}; what it "
                "said last is above. Everything else was stopped"
            )

    def terminate(self) -> None:
        if self.is_running:
            self.process.terminate()

    def stop(self) -> None:
        """Ask the process to end, and wait; one that does not end is killed."""
        self.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(1.0)

    def _forward(self, stream: IO[str], write: Callable[[str], None]) -> None:
        for line in stream:
            write(f"{self.name} | {line}")
        stream.close()


@contextlib.contextmanager
def running(name: str, arguments: Sequence[str], *, quiet: bool = False) -> Iterator[Child]:
    child = Child(name, arguments, quiet=quiet)
    try:
        yield child
    finally:
        child.stop()


def watch(children: Sequence[Child], stopping: Callable[[], bool]) -> None:
    """Returns when told to stop; an error as soon as one of them ends by itself."""
    while not stopping():
        for child in children:
            child.check()
        time.sleep(_LOOK_SECONDS)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}{READY_PATH}", timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


PEOPLE = 200
_APART = 1 << 63
"""Seeds of panels and seeds of people who report differ in their highest bit."""


def invented_panel(source: str, catalogue: Catalogue, reporting: Interactions) -> Panel | None:
    """For a system of synthetic people; None for any other: real people are on nobody's panel.

    It says how many of some who report have touched each item: they are invented as well.
    """
    if source.partition(":")[0] != SYNTHETIC:
        return None
    asked = parse_synthetic(source)
    seed = asked.get("seed", 0) ^ _APART
    people = synthetic_people(**{**asked, "n_users": PEOPLE, "seed": seed})
    panel = make_panel(on_catalogue(people, catalogue), catalogue.hash, seed)
    touched = on_catalogue(reporting, catalogue).histories.popularity()
    return replace(panel, touched=tuple(touched.tolist()))


HOST, PORT = "127.0.0.1", 8080
BEAT_SECONDS = 0.5
"""Between two looks of either service: epochs go on at once."""
KEEP_MODELS = 61
"""The page's curve looks back over sixty epochs."""
PANEL, ATTEST, SHOP = "panel.json", "attest.json", "shop.html"
ARTICLES = 12
"""Of the catalogue, on the page of the toy shop."""
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
    """The data set that the catalogue was made from."""
    people: Interactions | None = None
    """Of the data set; invented ones get a panel."""
    hold: int = Participation.hold
    """Seconds that an epoch waits for its crowd."""
    trial: bool = False
    """Whether devices tell their owners that most people are invented."""
    accounts: bool = False
    """Whether reports need an account; a toy backend gives anybody one."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use the proxy."""
    notice: str | None = None
    """What the page says above everything else."""

    def make(self, folder: Path) -> None:
        """What `server init` and `proxy init` do, made aside and put in place when it is whole."""
        unfinished = folder / "unfinished"
        try:
            held = {path.name for path in folder.iterdir()} if folder.exists() else set()
            if held and ABOUT not in held:  # else it is what an interrupted first start left
                raise SettingsError(f"{folder}: {min(held)} is in there; name an empty folder")
            shop = f"http://{HOST}:{free_port(self.port + 4)}" if self.accounts else ""
            about = {"data": self.data, "shop": shop}
            write_atomically(folder / ABOUT, json.dumps(about).encode())
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            self._make_both(unfinished, shop)
            # The proxy last: without its settings nothing counts as made.
            for name in ("server", "proxy"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (unfinished / name).rename(folder / name)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be set up: {get_reason(error)}") from error
        shutil.rmtree(unfinished, ignore_errors=True)

    def _make_both(self, folder: Path, shop: str) -> None:
        server = free_port(self.port + 1)
        watch_server = free_port(server + 1)
        watch_proxy = free_port(watch_server + 1)
        keys = make_server(
            folder / "server",
            self.catalogue,
            self.training,
            epoch_seconds=self.epoch_seconds,
            least_clients=self.least_clients,
            hold=self.hold,
            port=server,
            watch_port=watch_server,
        )
        chosen = {("terms", name): True for name in ("trial", "accounts") if getattr(self, name)}
        set_values(server_toml(folder), {("", "heartbeat"): BEAT_SECONDS, **chosen})
        attester = Attester.new(keys.verification_key.hex()) if self.accounts else None
        if attester is not None:
            attester.write(folder / "server" / ATTEST)
        make_proxy(
            folder / "proxy",
            secret_file=folder / "server" / "proxy.secret",
            server=f"http://{HOST}:{server}",
            verification_key=keys.verification_key.hex(),
            least_clients=self.least_clients,
            relay=True,
            port=self.port,
            watch_port=watch_proxy,
        )
        panel = None
        if self.data is not None and self.people is not None:
            panel = invented_panel(self.data, self.catalogue, self.people)
        if panel is not None:
            (folder / "proxy" / PANEL).write_bytes(panel.encode())
        values: dict[tuple[str, str], object] = {
            ("", "poll_seconds"): BEAT_SECONDS,
            ("", "keep_models"): KEEP_MODELS,
            ("", "accounts_key"): attester and attester.verification_key,
            ("", "origins"): [*self.origins, *([shop] if shop else [])] or None,
            ("page", "serve"): True,
            ("page", "panel"): panel and PANEL,
            ("page", "notice"): TRIAL_SENTENCE if self.trial else self.notice,
        }
        set_values(proxy_toml(folder), values)
        write_statement(folder)


def write_statement(folder: Path) -> None:
    """What the page says about privacy: what any device promises its owner."""
    server = ServerSettings.read(server_toml(folder))
    items = len(read_catalogue(server.catalogue).items)
    terms = Terms.from_settings(bytes(TRAINING_ID_BYTES), server.training, server.terms, items)
    statement = " ".join([*terms.summarize((), terms.epochs), f"{ONE_OPERATOR}."])
    set_values(proxy_toml(folder), {("page", "statement"): statement})


def write_shop(folder: Path, system: LiveSystem) -> None:
    """The page of a toy shop: a log-in by any name, some articles and the widget."""
    server = ServerSettings.read(server_toml(folder))
    articles = (
        f'<button value="{escape(item.id)}">{escape(item.title)}</button>'
        for item in read_catalogue(server.catalogue).items[:ARTICLES]
    )
    values = {
        "ARTICLES": "\n".join(articles),
        "PROXY": system.proxy,
        "KEY": system.key.hex(),
        "LIMIT": f"{system.limit:g}",
        "EPOCH": f"{server.epoch_seconds}",
    }
    text = (files(__package__) / SHOP).read_text(encoding="utf-8")
    # In one go: a title may have such a word.
    filled = re.sub("|".join(values), lambda found: values[found[0]], text)
    write_atomically(folder / "server" / SHOP, filled.encode())


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
    """Server and proxy, started at the same time: either begins with imports."""
    with ExitStack() as stack:
        commands = [
            (name, ["run", "--config", str(path)])
            for name, path in (("server", server_toml(folder)), ("proxy", proxy_toml(folder)))
        ]
        if system.shop:
            port = str(urlsplit(system.shop).port)
            pages = [f"--origin={each}" for each in (system.proxy, *system.origins)]
            file, shop = (str(folder / "server" / name) for name in (ATTEST, SHOP))
            commands.append(("attest", ["run", file, "--page", shop, "--port", port, *pages]))
        children = [
            stack.enter_context(running(name, [name, *more], quiet=quiet))
            for name, more in commands
        ]
        for child, url in zip(children, (system.server_watch, system.proxy_watch), strict=False):
            child.wait_until_ready(url, stop)
        # All are told before any is waited for, so that they end at the same time.
        for child in children:
            stack.callback(child.terminate)
        yield children


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """A temporary one for everything that an experiment makes."""
    try:
        made = tempfile.TemporaryDirectory(prefix=f"sottovoce-{name}-")
    except OSError as error:
        raise SettingsError(f"no temporary folder can be made: {get_reason(error)}") from error
    with made as temporary:
        yield Path(temporary)
