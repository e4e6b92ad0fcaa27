"""`sottovoce server`: set up the server of a training, run it, list its epochs."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from sqlalchemy import make_url

from sottovoce.cli import output, server_catalogue, server_status, server_training
from sottovoce.cli.catalogue_files import FILE, ColumnsOption, catalogue_in, catalogue_of
from sottovoce.cli.options import (
    PRESETS,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    JsonFile,
    group,
    optional,
    people_option,
)
from sottovoce.cli.server_options import ConfigOption, PortOption, WatchPortOption, opened
from sottovoce.errors import SettingsError, reason
from sottovoce.server import InProcess, Keys, Pool, Server, ServerSettings, ServerStore, build_app
from sottovoce.server.administration import go_beyond
from sottovoce.server.keys import write_secret
from sottovoce.server.settings import check_proxy_name
from sottovoce.server.status import DROPPED
from sottovoce.server.store import back_up
from sottovoce.server.template import server_toml
from sottovoce.service import build_watch
from sottovoce.service import run as serve
from sottovoce.training import DEFAULT, Budget, planned, planned_without_end

if TYPE_CHECKING:
    from typing import Any

    from sottovoce.protocol import Catalogue
    from sottovoce.server.store import Epoch

app = group(
    "server",
    "Open the reports of proxies, update the model and publish the next epoch.",
    "server run --config my-server/server.toml",
)

app.add_typer(server_catalogue.app)
app.add_typer(server_training.training)
app.add_typer(server_training.keys)
app.command()(server_status.status)

SETTINGS = "server.toml"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for all files; created if missing.")],
    *,
    catalogue: Annotated[
        Path | None,
        typer.Option(help=FILE),
    ] = None,
    columns: ColumnsOption = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data set whose items become the catalogue: a name or a path."),
    ] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    preset: Annotated[str, typer.Option(help=PRESETS)] = DEFAULT,
    people: Annotated[int | None, people_option("--least-clients")] = None,
    history: HistoryOption = None,
    proxy: Annotated[
        list[str] | None, optional("Name of a proxy. May be repeated.", "proxy", metavar="NAME")
    ] = None,
    database: Annotated[
        str, typer.Option(help="URL of the database, SQLite or PostgreSQL, as SQLAlchemy has it.")
    ] = "sqlite:///server.sqlite",
    epoch_seconds: Annotated[
        int, typer.Option(min=1, help="Shortest length of an epoch, in seconds.")
    ] = 86_400,
    least_clients: Annotated[
        int, typer.Option(min=1, help="People who must have reported before an epoch ends.")
    ] = 100,
    epochs: Annotated[
        int | None,
        optional("Number of epochs over which a device spreads its reports.", "planned", min=1),
    ] = None,
    ends: Annotated[
        bool,
        typer.Option(
            "--ends", help="End the training after these epochs; without it learning never ends."
        ),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on.")] = 8090,
    watch_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port for health and metrics.")
    ] = 8091,
) -> None:
    """Set up a server: keys, a secret for each proxy, settings, a database. Overwrites nothing.

    \b
    Examples:
      sottovoce server init my-server --catalogue films.json --proxy east --proxy west
      sottovoce server init my-server --catalogue shop.csv --columns item=sku,title=name,genre=kind
      sottovoce server init my-server --data ml-latest-small --budget 50 --people 20000
    """
    if (catalogue is None) == (data is None):
        raise SettingsError("give either --catalogue FILE or --data DATA")
    for name in proxy or ():
        check_proxy_name(name)
    if proxy and len(set(proxy)) < len(proxy):
        raise SettingsError("--proxy: every proxy needs a name of its own")
    found = catalogue_of(data or "") if catalogue is None else catalogue_in(catalogue, columns)
    plan = planned if ends else planned_without_end
    training = plan(
        people or least_clients,
        len(found.items),
        history=history,
        preset=preset,
        budget=Budget.of(budget, central_budget),
        epochs=epochs,
    )
    given = {name: secrets.token_urlsafe(32) for name in proxy or ["proxy"]}
    text = server_toml(
        proxies={name: hashlib.sha256(s.encode()).hexdigest() for name, s in given.items()},
        training=training,
        database=database,
        epoch_seconds=epoch_seconds,
        least_clients=least_clients,
        port=port,
        watch_port=watch_port,
    )
    keys = _write(folder, found, text, given)
    typer.echo(
        f"{len(found.items):,} items; tags that devices recommend with: {found.tags.by_kind()}.",
        err=True,
    )
    typer.echo(f"{folder / SETTINGS} holds the settings, each explained.", err=True)
    for name in given:
        whose = f"is for the operator of the proxy {name!r} alone."
        typer.echo(f"{folder / name}.secret {whose}", err=True)
    typer.echo("Devices need this verification key:", err=True)
    typer.echo(keys.verification_key.hex())


@app.command()
def run(
    config: ConfigOption,
    *,
    port: PortOption = None,
    watch_port: WatchPortOption = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C. Requests under way are finished first.

    Several workers share one settings file, each at ports of its own.

    \b
    Examples:
      sottovoce server run --config my-server/server.toml
      sottovoce server run --config my-server/server.toml --port 8092 --watch-port 8093
    """
    settings = ServerSettings.read(config).at_ports(port, watch_port)
    keys = Keys.read(settings.keys)
    with closing(ServerStore(settings.database)) as store, closing(Pool(settings.openers)) as pool:
        server = Server(store, keys, settings, opener=pool)
        server.prepare()
        app, watch = build_app(server, settings), build_watch(server.check, server.measured)
        turned_away = server.metrics.turned_away
        serve(app, settings.listen, watch, settings.watch, turned_away=turned_away)


@app.command()
def epoch(
    config: ConfigOption,
    *,
    json_file: JsonFile = None,
) -> None:
    """List the epochs.

    \b
    Example:
      sottovoce server epoch --config my-server/server.toml --json epochs.json
    """
    with opened(config) as (_, store), store.read() as transaction:
        epochs = transaction.all_epochs()
    _print(epochs)
    if json_file is not None:
        output.write_json(json_file, {"epochs": [_as_json(found) for found in epochs]})


@app.command()
def backup(
    config: ConfigOption,
    file: Annotated[Path, typer.Argument(help="New file for the copy of the database.")],
    *,
    with_epoch_key: Annotated[
        bool,
        typer.Option(
            "--with-epoch-key",
            help="Also copy the encrypted key of the open epoch. Restored in time, no report is "
            "lost. Together with the keys file, the copy can open that epoch's reports for ever.",
        ),
    ] = False,
) -> None:
    """Copy a SQLite database while the server runs. For PostgreSQL use pg_dump.

    The keys file is not included: keep a copy of it in another place than this one.

    \b
    Example:
      sottovoce server backup --config my-server/server.toml monday.sqlite
    """
    back_up(ServerSettings.read(config).database, file, with_key=with_epoch_key)
    output.say(f"{file} is the database of this moment. Keep the keys file elsewhere.")


@app.command("go-beyond")
def beyond(
    config: ConfigOption,
    epoch: Annotated[int, typer.Argument(min=1, help="Last epoch that proxies have seen.")],
) -> None:
    """After restoring a backup: continue with an epoch later than any that devices have seen.

    Proxies and devices never go back to an earlier epoch; without this they would wait for ever.
    The model is the one in the backup; reports since then are lost. The log names the last epoch
    that a proxy has seen.

    \b
    Example:
      sottovoce server go-beyond --config my-server/server.toml 57
    """
    with opened(config) as (_, store):
        number = go_beyond(store, epoch, time.time())
    output.results.print(f"The next epoch has the number {number}.")


def _write(folder: Path, catalogue: Catalogue, text: str, given: dict[str, str]) -> Keys:
    """All files and the database, or, if one of them is there or something fails, nothing."""
    keys = Keys.generate()
    with ExitStack() as undo:
        try:
            _make_folder(undo, folder)
            _add(undo, folder / SETTINGS, text.encode())
            _add(undo, folder / "catalogue.json", catalogue.raw)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be written: {reason(error)}") from error
        settings = ServerSettings.read(folder / SETTINGS)
        for name, secret in given.items():
            write_secret(folder / f"{name}.secret", secret + "\n")
            undo.callback((folder / f"{name}.secret").unlink)
        keys.write(settings.keys)
        undo.callback(settings.keys.unlink)
        _begin(settings, keys)
        undo.pop_all()
    return keys


def _make_folder(undo: ExitStack, folder: Path) -> None:
    """With those above it; what was not there goes again, unless something lies in it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed(missing):
        undo.callback(_remove_if_empty, each)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _add(undo: ExitStack, path: Path, content: bytes) -> None:
    """Readable by its owner alone from the first moment."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: exists already; nothing is overwritten") from error
    undo.callback(path.unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _begin(settings: ServerSettings, keys: Keys) -> None:
    """The database, which must not be another server's."""
    with closing(ServerStore(settings.database)) as store:
        store.migrate()
        with store.read() as transaction:
            service = transaction.service()
        if service is not None:
            raise SettingsError(
                f"{make_url(settings.database).render_as_string()} belongs to another server, "
                f"whose verification key is {service.verification_key.hex()}: name another "
                "database (--database)"
            )
        Server(store, keys, settings, opener=InProcess()).prepare()


def _print(epochs: list[Epoch]) -> None:
    """In 80 columns; `--json` has the rest."""
    if not epochs:
        output.say("No epoch yet: `sottovoce server run` opens the first.")
        return
    table = Table(*output.right("epoch", "state", "opens", "length", "reports", "dropped"))
    for found in epochs:
        length = (found.closed_at or found.closes) - found.opens
        counts = (found.reports, sum(_dropped(found).values()))
        times = (output.when(found.opens), output.duration(length))
        table.add_row(str(found.epoch), found.state, *times, *(f"{count:,}" for count in counts))
    output.results.print(table)
    for found in epochs:
        if why := ", ".join(
            f"{count:,} {DROPPED[name]}" for name, count in _dropped(found).items()
        ):
            output.say(f"Epoch {found.epoch}, dropped: {why}.")


def _dropped(found: Epoch) -> dict[str, int]:
    """Reports that did not count, by the reason."""
    return {name: getattr(found, name) for name in DROPPED if getattr(found, name)}


def _as_json(found: Epoch) -> dict[str, Any]:
    row = {name: value for name, value in asdict(found).items() if name != "manifest"}
    return {name: v.hex() if isinstance(v, bytes) else v for name, v in row.items()}
