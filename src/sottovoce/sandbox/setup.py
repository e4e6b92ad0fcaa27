"""Set up a server and a proxy in a folder of this machine, and read their settings again."""

import json
import re
import shutil
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from importlib.resources import files
from math import ceil
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
# Seconds between two ticks of a service. Few, so that the next epoch begins at once.
TICK_SECONDS = 0.5
# Models that the proxy keeps, since the curve of the page covers the last sixty epochs.
MODELS_ON_PROXY = 61
# Items of the catalogue that the page of the toy shop shows.
MAX_SHOP_ARTICLES = 12
# Number of people on the panel: invented people, on whom the page measures how good each model is.
PANEL_PEOPLE = 200
# Bit of the seed that is flipped for the panel, so that its people differ from those who report.
PANEL_SEED_BIT = 1 << 63
# File in the folder of the system with the data set of the catalogue and the address of the shop.
ABOUT_FILE = "up.json"
# File of the panel in the proxy's folder.
PANEL_FILE = "panel.json"
# Warning about a system on one machine, which the page and the command line show.
ONE_OPERATOR_NOTICE = "Proxy and server have the same operator, so only the local guarantee holds"


def get_server_config(folder: Path) -> Path:
    return folder / "server" / "server.toml"


def get_proxy_config(folder: Path) -> Path:
    return folder / "proxy" / "proxy.toml"


def is_set_up(folder: Path) -> bool:
    """Return whether a system was set up in this folder."""
    # `Sandbox.set_up` creates the proxy's settings last.
    return get_proxy_config(folder).exists()


@dataclass(frozen=True)
class LiveSystem:
    """A running system. Only `proxy` and `key` are known if its folder is not on this machine."""

    proxy: str
    """Address of the proxy."""
    key: bytes
    """Verification key of the server."""
    data: str | None = None
    """Data set of the catalogue; None if there is none."""
    training: Settings | None = None
    min_clients: int = 1
    """Number of people for whom an epoch waits."""
    server: str = ""
    """Address of the server."""
    server_watch: str = ""
    """Address of the server's health and metrics."""
    proxy_watch: str = ""
    """Address of the proxy's health and metrics."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use the proxy."""
    trial: bool = False
    """Whether most people are invented."""
    shop: str = ""
    """Address of the toy shop, where any name has an account; empty without accounts."""
    collects_reports: bool = True
    """Whether devices are asked for reports."""

    @property
    def attest(self) -> str:
        """Address where the toy shop attests accounts; empty without accounts."""
        return self.shop and self.shop + ATTEST_PATH

    @property
    def limit(self) -> float:
        """Largest epsilon that a device can spend in a whole training."""
        assert self.training is not None, "a folder's training is known"
        if not self.collects_reports:
            return 0.0
        return self.training.epsilon * self.training.reports * self.training.max_turns

    @property
    def swarm_size(self) -> int:
        """A number of clients of which enough for a crowd take part in each of the first epochs."""
        assert self.training is not None, "a folder's training is known"
        # By their turns, about twice the crowd takes part at first.
        share = self.training.share
        return self.min_clients if share == 1 else ceil(2 * self.min_clients / share)

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
            max(server.terms.min_clients, proxy.min_clients),
            proxy.server,
            _get_url(server.watch),
            _get_url(proxy.watch),
            proxy.origins,
            server.terms.trial,
            about["shop"],
            server.collect_reports,
        )


def _get_url(address: Listen | Watch) -> str:
    return f"http://{address.host}:{address.port}"


@dataclass(frozen=True, eq=False)
class Sandbox:
    """Settings of a server and a proxy on this machine, with a page.

    No IP address is limited, because on one machine all devices have the same one.
    """

    catalogue: Catalogue
    training: Settings
    min_clients: int
    epoch_seconds: int
    port: int
    data: str | None = None
    """Data set of the catalogue; None if there is none."""
    people: Interactions | None = None
    """People of the data set. If they are invented, the page gets a panel."""
    hold: int = Participation.hold
    """Seconds that an epoch waits for its crowd."""
    trial: bool = False
    """Whether devices tell their owners that most of the people are invented."""
    accounts: bool = False
    """Whether reports need an account, which the toy shop gives to any name."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use the proxy."""
    notice: str | None = None
    """Text at the top of the page."""
    demo: bool = False
    """Whether the page says that this is a demo, whose keys are new with every start."""
    start: bytes | None = None
    """Bytes of the public start, if there is one."""
    collect_reports: bool = True
    """Whether devices are asked for reports."""

    def set_up(self, folder: Path) -> None:
        """Set up a server and a proxy in a folder, as `server init` and `proxy init` do.

        After an error, the next call begins again.
        """
        unfinished = folder / "unfinished"
        try:
            names = {path.name for path in folder.iterdir()} if folder.exists() else set()
            # If this file exists, an earlier `set_up` was interrupted: overwrite its files.
            if names and ABOUT_FILE not in names:
                raise SettingsError(f"{folder}: {min(names)} is in there; name an empty folder")
            shop = f"http://{LOCAL_HOST}:{find_free_port(self.port + 4)}" if self.accounts else ""
            about = {"data": self.data, "shop": shop}
            write_atomically(folder / ABOUT_FILE, json.dumps(about).encode())
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700)
            self._set_up_services(unfinished, shop)
            # Move the proxy last: `is_set_up` looks for its settings.
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
            start=self.start,
            collect_reports=self.collect_reports,
            epoch_seconds=self.epoch_seconds,
            min_clients=self.min_clients,
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
            # The terms say how many people an epoch waits for.
            min_clients=1,
            relay=True,
            origins=[*self.origins, *([shop] if shop else [])],
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
            ("page", "serve"): True,
            ("page", "panel"): panel and PANEL_FILE,
            ("page", "notice"): TRIAL_SENTENCE if self.trial else self.notice,
            ("page", "demo"): self.demo or None,
        }
        set_values(get_proxy_config(folder), proxy_values)
        write_statement(folder)


def make_invented_panel(source: str, catalogue: Catalogue, reporting: Interactions) -> Panel | None:
    """Return a panel of synthetic people who do not report.

    Args:
        source: The data set of the system.
        catalogue: The catalogue of the system.
        reporting: The people who report.

    Returns:
        The panel, or None if the data set is not synthetic.
    """
    if source.partition(":")[0] != SYNTHETIC:
        return None
    parameters = parse_synthetic(source)
    seed = parameters.get("seed", 0) ^ PANEL_SEED_BIT
    people = synthetic_people(**{**parameters, "n_users": PANEL_PEOPLE, "seed": seed})
    panel = make_panel(people.match_items(catalogue.numbers), catalogue.hash, seed)
    # For each item, how many reporting people touched it. These counts may be public, because the
    # reporting people are invented too.
    touched = reporting.match_items(catalogue.numbers).histories.popularity()
    return replace(panel, touched=tuple(touched.tolist()))


def write_statement(folder: Path) -> None:
    """Write the privacy statement of the page: the promise that a device makes to its owner."""
    server = ServerSettings.read(get_server_config(folder))
    items = len(read_catalogue(server.catalogue).items)
    terms = Terms.from_settings(bytes(TRAINING_ID_BYTES), server.training, server.terms, items)
    statement = " ".join([*terms.summarize((), terms.epochs), f"{ONE_OPERATOR_NOTICE}."])
    set_values(get_proxy_config(folder), {("page", "statement"): statement})


def write_shop(folder: Path, system: LiveSystem) -> None:
    """Write the page of the toy shop, with a log-in by any name, some articles and the widget."""
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
    # Replace all placeholders in one pass, because a title may contain one of them.
    page = re.sub("|".join(values), lambda match: values[match[0]], template)
    write_atomically(folder / "server" / PAGE_FILE, page.encode())


def set_values(path: Path, values: Mapping[tuple[str, str], object]) -> None:
    """Set values in a TOML file, and keep its comments and order.

    Args:
        path: The file.
        values: Values by table and name. The table "" is the top level. With the value None, the
            setting stays as it is.
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
    # The setting is commented out, as in `# name = 1  # why`: replace the comment.
    _, mark, why = lines[0].as_string().rstrip().partition("  # ")
    lines[0].trivia.comment = f"{name} = {tomlkit.item(value).as_string()}{mark}{why}"


def find_free_port(first: int) -> int:
    """Return the lowest free port of this machine that is not below `first`."""
    for port in range(first, 65_536):
        if is_port_free(port):
            return port
    raise SettingsError(f"no port from {first} on is free: name a lower port")


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCAL_HOST, port))
        except OSError:
            return False
        return True
