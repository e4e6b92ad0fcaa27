"""Set up a server and a proxy in one folder of this machine, and read what was set up."""

import json
import re
import shutil
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Self

import tomlkit
from tomlkit.container import Container

from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic
from sottovoce.errors import SettingsError, get_reason
from sottovoce.protocol import Catalogue, Terms
from sottovoce.protocol.panel import Panel
from sottovoce.protocol.terms import TRAINING_ID_BYTES, TRIAL_SENTENCE
from sottovoce.proxy import ProxySettings
from sottovoce.proxy.setup import make_proxy
from sottovoce.sandbox.shop import ATTEST_PATH, KEYS_FILE, PAGE_FILE, Backend
from sottovoce.server import ServerSettings
from sottovoce.server.agreement import read_catalogue
from sottovoce.server.setup import make_server
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.toml import read_settings
from sottovoce.simulation.evaluation.panel import make_panel
from sottovoce.storage.files import write_atomically, write_new
from sottovoce.training import Participation, Settings

LOCAL_HOST = "127.0.0.1"
# Port of the proxy.
DEFAULT_PORT = 8080
# Pause between two ticks of either service, so that epochs follow each other at once.
TICK_SECONDS = 0.5
# Models that the proxy keeps: the page's curve looks back over sixty epochs.
MODELS_ON_PROXY = 61
# Items of the catalogue on the page of the toy shop.
MAX_SHOP_ARTICLES = 12
# Invented people on the panel.
PANEL_PEOPLE = 200
# Seeds of panels and seeds of people who report differ in this bit.
PANEL_SEED_BIT = 1 << 63
# In the folder of the system: the data set of the catalogue, and the address of the shop.
ABOUT_FILE = "up.json"
# In the proxy's folder.
PANEL_FILE = "panel.json"
# What devices and readers must know about a system on one machine.
ONE_OPERATOR_NOTICE = "Proxy and server are at one operator here, so only the local guarantee holds"


def get_server_config(folder: Path) -> Path:
    return folder / "server" / "server.toml"


def get_proxy_config(folder: Path) -> Path:
    return folder / "proxy" / "proxy.toml"


def is_set_up(folder: Path) -> bool:
    """Return whether a system was set up here."""
    # The proxy's settings are put in place last.
    return get_proxy_config(folder).exists()


@dataclass(frozen=True)
class LiveSystem:
    """A running system as clients know it, and, if it is in a folder of ours, all the rest."""

    proxy: str
    """Address of the proxy."""
    key: bytes
    """Verification key of the server."""
    data: str | None = None
    """Data set of the catalogue."""
    training: Settings | None = None
    least_clients: int = 1
    """Crowd that an epoch waits for."""
    server: str = ""
    """Address of the server."""
    server_watch: str = ""
    """Address where the server's health is asked for."""
    proxy_watch: str = ""
    """Address where the proxy's health is asked for."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use the proxy."""
    trial: bool = False
    """Whether most people are invented."""
    shop: str = ""
    """Address of a toy shop, in which any name has an account; empty if none is needed."""

    @property
    def attest(self) -> str:
        """Address where the shop attests accounts; empty if none is needed."""
        return self.shop and self.shop + ATTEST_PATH

    @property
    def limit(self) -> float:
        """Epsilon that a device spends in a whole training."""
        assert self.training is not None, "a folder's training is known"
        return self.training.epsilon * self.training.reports * self.training.max_turns

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the system that `sottovoce up` set up in a folder."""
        if not is_set_up(folder):
            raise SettingsError(f"{folder}: nothing is there yet; run: sottovoce up {folder}")
        server = ServerSettings.read(get_server_config(folder))
        proxy = read_settings(get_proxy_config(folder), ProxySettings)
        about = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
        return cls(
            _get_url(proxy.listen),
            proxy.key,
            about["data"],
            server.training,
            max(server.terms.least_clients, proxy.least_clients),
            proxy.server,
            _get_url(server.watch),
            _get_url(proxy.watch),
            proxy.origins,
            server.terms.trial,
            about["shop"],
        )


def _get_url(address: Listen | Watch) -> str:
    return f"http://{address.host}:{address.port}"


@dataclass(frozen=True, eq=False)
class Sandbox:
    """A server and a proxy for this machine, with a page and without limits for one address."""

    catalogue: Catalogue
    training: Settings
    least_clients: int
    epoch_seconds: int
    port: int
    data: str | None = None
    """Data set of the catalogue."""
    people: Interactions | None = None
    """People of the data set; the page gets a panel if they are invented."""
    hold: int = Participation.hold
    """Seconds that an epoch waits for its crowd."""
    trial: bool = False
    """Whether devices tell their owners that most people are invented."""
    accounts: bool = False
    """Whether reports need an account, which a toy shop gives to anybody."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use the proxy."""
    notice: str | None = None
    """Text above everything else on the page."""

    def set_up(self, folder: Path) -> None:
        """Do what `server init` and `proxy init` do: all of it or nothing."""
        unfinished = folder / "unfinished"
        try:
            names = {path.name for path in folder.iterdir()} if folder.exists() else set()
            # With this file, the others were left by an interrupted first start.
            if names and ABOUT_FILE not in names:
                raise SettingsError(f"{folder}: {min(names)} is in there; name an empty folder")
            shop = f"http://{LOCAL_HOST}:{find_free_port(self.port + 4)}" if self.accounts else ""
            about = {"data": self.data, "shop": shop}
            write_atomically(folder / ABOUT_FILE, json.dumps(about).encode())
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            self._set_up_services(unfinished, shop)
            # The proxy is last: with its settings the system counts as set up.
            for name in ("server", "proxy"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (unfinished / name).rename(folder / name)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be set up: {get_reason(error)}") from error
        shutil.rmtree(unfinished, ignore_errors=True)

    def _set_up_services(self, folder: Path, shop: str) -> None:
        server_port = find_free_port(self.port + 1)
        server_watch_port = find_free_port(server_port + 1)
        proxy_watch_port = find_free_port(server_watch_port + 1)
        keys = make_server(
            folder / "server",
            self.catalogue,
            self.training,
            epoch_seconds=self.epoch_seconds,
            least_clients=self.least_clients,
            hold=self.hold,
            port=server_port,
            watch_port=server_watch_port,
        )
        server_values: dict[tuple[str, str], object] = {
            ("", "heartbeat"): TICK_SECONDS,
            ("terms", "trial"): self.trial or None,
            ("terms", "accounts"): self.accounts or None,
        }
        set_values(get_server_config(folder), server_values)
        backend = Backend.create(keys.verification_key.hex()) if self.accounts else None
        if backend is not None:
            write_new(folder / "server" / KEYS_FILE, json.dumps(asdict(backend)).encode())
        make_proxy(
            folder / "proxy",
            secret_file=folder / "server" / "proxy.secret",
            server=f"http://{LOCAL_HOST}:{server_port}",
            verification_key=keys.verification_key.hex(),
            least_clients=self.least_clients,
            relay=True,
            port=self.port,
            watch_port=proxy_watch_port,
        )
        panel = None
        if self.data is not None and self.people is not None:
            panel = make_invented_panel(self.data, self.catalogue, self.people)
        if panel is not None:
            (folder / "proxy" / PANEL_FILE).write_bytes(panel.encode())
        proxy_values: dict[tuple[str, str], object] = {
            ("", "poll_seconds"): TICK_SECONDS,
            ("", "keep_models"): MODELS_ON_PROXY,
            ("", "accounts_key"): backend and backend.verification_key,
            ("", "origins"): [*self.origins, *([shop] if shop else [])] or None,
            ("page", "serve"): True,
            ("page", "panel"): panel and PANEL_FILE,
            ("page", "notice"): TRIAL_SENTENCE if self.trial else self.notice,
        }
        set_values(get_proxy_config(folder), proxy_values)
        write_statement(folder)


def make_invented_panel(source: str, catalogue: Catalogue, reporting: Interactions) -> Panel | None:
    """Return a panel for a system of synthetic people, and None for real ones.

    Its people are others than those who report.
    """
    if source.partition(":")[0] != SYNTHETIC:
        return None
    parameters = parse_synthetic(source)
    seed = parameters.get("seed", 0) ^ PANEL_SEED_BIT
    people = synthetic_people(**{**parameters, "n_users": PANEL_PEOPLE, "seed": seed})
    panel = make_panel(people.match_items(catalogue.numbers), catalogue.hash, seed)
    # How many of those who report touched each item. It may be public: they are invented as well.
    touched = reporting.match_items(catalogue.numbers).histories.popularity()
    return replace(panel, touched=tuple(touched.tolist()))


def write_statement(folder: Path) -> None:
    """Set what the page says about privacy: the promise that a device makes to its owner."""
    server = ServerSettings.read(get_server_config(folder))
    items = len(read_catalogue(server.catalogue).items)
    terms = Terms.from_settings(bytes(TRAINING_ID_BYTES), server.training, server.terms, items)
    statement = " ".join([*terms.summarize((), terms.epochs), f"{ONE_OPERATOR_NOTICE}."])
    set_values(get_proxy_config(folder), {("page", "statement"): statement})


def write_shop(folder: Path, system: LiveSystem) -> None:
    """Write the page of the toy shop: a log-in by any name, some articles and the widget."""
    server = ServerSettings.read(get_server_config(folder))
    articles = (
        f'<button value="{escape(item.id)}">{escape(item.title)}</button>'
        for item in read_catalogue(server.catalogue).items[:MAX_SHOP_ARTICLES]
    )
    values = {
        "ARTICLES": "\n".join(articles),
        "PROXY": system.proxy,
        "KEY": system.key.hex(),
        "LIMIT": f"{system.limit:g}",
        "EPOCH": f"{server.epoch_seconds}",
    }
    template = (files(__package__) / PAGE_FILE).read_text(encoding="utf-8")
    # All words at once, because a title may contain one of them.
    page = re.sub("|".join(values), lambda match: values[match[0]], template)
    write_atomically(folder / "server" / PAGE_FILE, page.encode())


def set_values(path: Path, values: Mapping[tuple[str, str], object]) -> None:
    """Set values in a TOML file, by table and name; comments and order stay.

    A value of None is left as it is.
    """
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    for (table, name), value in values.items():
        if value is not None:
            _set_value(document.setdefault(table, {}).value if table else document, name, value)
    write_atomically(path, tomlkit.dumps(document).encode(), private=True)


def _set_value(table: Container, name: str, value: object) -> None:
    lines = [line for _, line in table.body if line.as_string().startswith(f"# {name} = ")]
    if name in table or not lines:
        table[name] = value
        return
    # Only a comment has the setting (`# name = 1  # why`): it becomes the setting.
    _, mark, why = lines[0].as_string().rstrip().partition("  # ")
    lines[0].trivia.comment = f"{name} = {tomlkit.item(value).as_string()}{mark}{why}"


def find_free_port(first: int) -> int:
    """Return the first free port of this machine from this number on."""
    for port in range(first, 65_536):
        if is_port_free(port):
            return port
    raise SettingsError(f"no port from {first} on is free: name a lower one")


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCAL_HOST, port))
        except OSError:
            return False
        return True
