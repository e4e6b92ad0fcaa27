"""`sottovoce up`: server and proxy on one machine, for trying everything out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import output
from sottovoce.cli.catalogue_files import FILE, ColumnsOption
from sottovoce.cli.options import (
    PRESETS,
    BudgetOption,
    CentralBudgetOption,
    optional,
    people_option,
)
from sottovoce.cli.system import (
    HOST,
    ONE_OPERATOR,
    PORT,
    CatalogueSource,
    StopSignal,
    free_port,
    make_system,
    running_system,
    write_ports,
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
from sottovoce.proxy.origins import check_origin
from sottovoce.server import ServerSettings
from sottovoce.service import Listen
from sottovoce.storage import exclusive_lock
from sottovoce.training import DEFAULT

EPOCH_SECONDS, LEAST_CLIENTS = 60, 100
LOCK = "up.lock"


def up(
    folder: Annotated[
        Path, typer.Argument(help="Folder for everything; created at the first start.")
    ] = Path("sottovoce-up"),
    *,
    data: Annotated[
        str | None,
        optional(
            "First start only. Data set whose items become the catalogue: a name or a path.",
            SYNTHETIC,
        ),
    ] = None,
    catalogue: Annotated[
        Path | None, typer.Option(help=f"First start only, instead of --data. {FILE}")
    ] = None,
    columns: ColumnsOption = None,
    min_interactions: Annotated[
        int | None,
        optional(
            "First start only. Leave out people and items with fewer interactions than this.",
            "0",
            min=0,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        optional(f"First start only. {PRESETS}", DEFAULT),
    ] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    people: Annotated[
        int | None, people_option("those of the data set, or --least-clients")
    ] = None,
    port: Annotated[
        int | None,
        optional("Port of the proxy, for clients and browsers.", f"{PORT}", min=1, max=65_535),
    ] = None,
    server_port: Annotated[
        int | None,
        optional("Port of the server, for the proxy.", "the next free one", min=1, max=65_535),
    ] = None,
    epoch_seconds: Annotated[
        int | None, optional("Shortest length of an epoch, in seconds.", f"{EPOCH_SECONDS}", min=1)
    ] = None,
    least_clients: Annotated[
        int | None,
        optional("People who must have reported before an epoch ends.", f"{LEAST_CLIENTS}", min=1),
    ] = None,
    epochs: Annotated[
        int | None,
        optional("Number of epochs, after which the training ends.", "it never ends", min=1),
    ] = None,
    origin: Annotated[
        list[str] | None,
        optional("Address of a site whose own pages may use the proxy. May be repeated.", "none"),
    ] = None,
) -> None:
    """Run a server and a proxy on this machine until Ctrl-C. The first start makes their settings.

    The settings are in FOLDER/server/server.toml and FOLDER/proxy/proxy.toml. The catalogue comes
    from --data or from --catalogue. Catalogue, preset, budgets and --people are for the first start
    only. All other options are written to the settings, so that later starts need not repeat them.

    \b
    Examples:
      sottovoce up
      sottovoce up here --data ml-latest-small --budget 50 --least-clients 600
      sottovoce up here --catalogue shop.csv --columns item=sku,title=name,kind=category
      sottovoce up here --epoch-seconds 3600
      sottovoce up here --origin http://localhost:8000
    """
    stop = StopSignal()
    given = StartOptions(port, server_port, epoch_seconds, least_clients, epochs, origin)
    first_only = (
        *(data, catalogue, columns, min_interactions),
        *(preset, budget, central_budget, people),
    )
    is_first = not is_made(folder)
    if is_first:
        if catalogue is not None:
            people = people or least_clients or LEAST_CLIENTS
        source = CatalogueSource(
            *_source(data, catalogue, columns),
            min_interactions or 0,
            preset or DEFAULT,
            budget,
            central_budget,
            people,
        )
        given.check_free()
        make_system(folder, source, given.write_first)
    with exclusive_lock(folder / LOCK, "is running already, by another `sottovoce up`"):
        if not is_first:
            _check_again(folder, first_only)
            given.write_again(folder)
        _run(folder, LiveSystem.read(folder), stop)


def _check_again(folder: Path, first_only: tuple[object, ...]) -> None:
    if any(each is not None for each in first_only):
        raise SettingsError(
            f"{folder} is set up already. Run it again without --data, --catalogue, --columns, "
            "--min-interactions, --preset, --people and budgets, or name a new folder. To change "
            "items: sottovoce server catalogue --help"
        )


def _source(
    data: str | None, catalogue: Path | None, columns: str | None
) -> tuple[str | None, Path | None, str | None]:
    if data is not None and catalogue is not None:
        raise SettingsError("give --data or --catalogue, not both")
    if catalogue is None and columns is not None:
        raise SettingsError("--columns names the columns of --catalogue FILE; give that too")
    return (data or SYNTHETIC if catalogue is None else None), catalogue, columns


@dataclass(frozen=True)
class StartOptions:
    """What may be chosen at any start; None leaves the settings as they are."""

    port: int | None
    server_port: int | None
    epoch_seconds: int | None
    least_clients: int | None
    epochs: int | None
    origins: list[str] | None

    def __post_init__(self) -> None:
        """Before anything is written."""
        for origin in self.origins or []:
            check_origin(origin)
        if self.server_port == (self.port or PORT):
            raise SettingsError("--port and --server-port must differ")

    def check_free(self) -> None:
        """Before anything is written: a first start that fails can be typed again as it was."""
        for port in (self.port or PORT, self.server_port):
            if port is not None:
                Listen(HOST, port).check_free()

    def write_first(self, folder: Path) -> None:
        """What was not chosen gets its default."""
        port = self.port or PORT
        write_ports(folder, port, self.server_port or free_port(port + 1))
        self._write(
            folder, self.epoch_seconds or EPOCH_SECONDS, self.least_clients or LEAST_CLIENTS
        )

    def write_again(self, folder: Path) -> None:
        """More epochs are for new devices: those that agreed to fewer take part in as many."""
        if self.epochs is not None:
            known = ServerSettings.read(server_toml(folder))
            lifetime = known.training.lifetime or known.training.epochs
            set_values(server_toml(folder), {("training", "lifetime"): lifetime})
        server = self.server_port
        set_values(server_toml(folder), {("listen", "port"): server})
        set_values(
            proxy_toml(folder),
            {("", "server"): server and f"http://{HOST}:{server}", ("listen", "port"): self.port},
        )
        self._write(folder, self.epoch_seconds, self.least_clients)

    def _write(self, folder: Path, epoch_seconds: int | None, least_clients: int | None) -> None:
        set_values(
            server_toml(folder),
            {
                ("", "epoch_seconds"): epoch_seconds,
                ("terms", "least_clients"): least_clients,
                ("training", "epochs"): self.epochs,
                ("training", "half_life"): None if self.epochs is None else 0.0,
            },
        )
        set_values(
            proxy_toml(folder),
            {("", "least_clients"): least_clients, ("", "origins"): self.origins or None},
        )
        write_statement(folder)


def _run(folder: Path, system: LiveSystem, stop: StopSignal) -> None:
    for address in (system.server, system.proxy):
        Listen(HOST, int(address.rpartition(":")[2])).check_free()
    with running_system(folder, system, stop) as children:
        if not stop():
            _print_start(folder, system)
        watch(children, stop)
    output.messages.print("Stopped.")


def _histories(system: LiveSystem) -> str:
    """A catalogue of one's own has no people."""
    return "" if system.data else " --data HISTORIES.csv"


def _print_start(folder: Path, system: LiveSystem) -> None:
    training = system.training
    assert training is not None, "a folder's training is known"
    limit = training.epsilon * training.reports * (training.lifetime or training.epochs)
    key = system.key.hex()
    for line in (
        f"Proxy, for clients and browsers: {system.proxy}",
        f"Server, for the proxy: {system.server}",
        f"Verification key: {key}",
        f"{ONE_OPERATOR} (docs/operations.md).",
        "Try next, in another terminal:",
        f"  sottovoce client init --proxy {system.proxy} --key {key} --limit {limit:g}",
        f"  sottovoce swarm --up {folder} --clients {system.least_clients}{_histories(system)}",
        f"An epoch waits for reports of {output.people(system.least_clients)}.",
        "Ctrl-C stops both.",
    ):
        typer.echo(line)
