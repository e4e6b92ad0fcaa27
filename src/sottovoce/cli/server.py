"""`sottovoce server`: set up the server of a training, run it, list its epochs."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
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
from sottovoce.errors import MissingExtraError, SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT
from sottovoce.server import InProcess, Keys, Pool, Server, ServerSettings, ServerStore, build_app
from sottovoce.server.choice import read_catalogue
from sottovoce.server.keys import write_secret
from sottovoce.server.template import server_toml
from sottovoce.service import build_watch
from sottovoce.service import run as serve
from sottovoce.training import DEFAULT, Budget, planned

if TYPE_CHECKING:
    from typing import Any

    from sottovoce.data import Interactions
    from sottovoce.server.store import Epoch

app = group("server", "Open the reports of proxies, update the model and publish the next epoch.")

SETTINGS = "server.toml"
ConfigOption = Annotated[
    Path, typer.Option("--config", help="Settings file, from `sottovoce server init`.")
]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for all files; created if missing.")],
    *,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Catalogue file (JSON, see docs/protocol.md), or a table of items (.csv, .tsv, "
            ".parquet) with the columns item, title and tags."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Make the catalogue from this data set: a name or a path.")
    ] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    preset: Annotated[str, typer.Option(help=PRESETS)] = DEFAULT,
    people: Annotated[int | None, people_option("--least-clients")] = None,
    history: HistoryOption = None,
    proxy: Annotated[
        list[str] | None, optional("Name of a proxy. May be repeated.", "proxy")
    ] = None,
    database: Annotated[
        str, typer.Option(help="SQLAlchemy URL of a SQLite or PostgreSQL database.")
    ] = "sqlite:///server.sqlite",
    epoch_seconds: Annotated[
        int, typer.Option(min=1, help="Least length of an epoch in seconds.")
    ] = 86_400,
    least_clients: Annotated[
        int, typer.Option(min=1, help="An epoch waits until so many people have reported.")
    ] = 100,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at.")] = 8090,
) -> None:
    """Set up a server: keys, a secret for each proxy, settings, a database. Overwrites nothing.

    \b
    Examples:
      sottovoce server init my-server --catalogue films.json --proxy east --proxy west
      sottovoce server init my-server --catalogue films.csv
      sottovoce server init my-server --data ml-latest-small --budget 50 --people 20000
    """  # noqa: D301 - typer reads \b
    if (catalogue is None) == (data is None):
        raise SettingsError("give either --catalogue FILE or --data NAME")
    found = _catalogue_of(data or "") if catalogue is None else _catalogue_in(catalogue)
    training = planned(
        people or least_clients,
        len(found.items),
        history=history,
        preset=preset,
        budget=Budget.of(budget, central_budget),
    )
    given = {name: secrets.token_urlsafe(32) for name in proxy or ["proxy"]}
    text = server_toml(
        proxies={name: hashlib.sha256(s.encode()).hexdigest() for name, s in given.items()},
        training=training,
        database=database,
        epoch_seconds=epoch_seconds,
        least_clients=least_clients,
        port=port,
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
def run(config: ConfigOption) -> None:
    """Run a server until SIGTERM or Ctrl-C. Requests under way are finished first.

    Example: sottovoce server run --config my-server/server.toml
    """
    settings = ServerSettings.read(config)
    keys = Keys.read(settings.keys)
    with closing(ServerStore(settings.database)) as store, closing(Pool(settings.openers)) as pool:
        server = Server(store, keys, settings, opener=pool)
        server.prepare()
        app, watch = build_app(server, settings), build_watch(server.check, server.measured)
        serve(app, settings.listen, watch, settings.watch)


@app.command()
def epoch(
    config: ConfigOption,
    *,
    json_file: JsonFile = None,
) -> None:
    """List the epochs.

    Example: sottovoce server epoch --config my-server/server.toml --json epochs.json
    """
    settings = ServerSettings.read(config)
    with closing(ServerStore(settings.database)) as store:
        server = Server(store, Keys.read(settings.keys), settings, opener=InProcess())
        server.prepare()
        epochs = server.epochs()
    _print(epochs)
    if json_file is not None:
        output.write_json(json_file, {"epochs": [_as_json(found) for found in epochs]})


def _write(folder: Path, catalogue: Catalogue, text: str, given: dict[str, str]) -> Keys:
    """All files and the database, or, if one of them is there or something fails, nothing."""
    keys = Keys.generate()
    with ExitStack() as undo:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _add(undo, folder / SETTINGS, text.encode())
            _add(undo, folder / "catalogue.json", catalogue.raw)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be written: {error}") from error
        settings = ServerSettings.read(folder / SETTINGS)
        for name, secret in given.items():
            write_secret(folder / f"{name}.secret", secret + "\n")
            undo.callback((folder / f"{name}.secret").unlink)
        keys.write(settings.keys)
        undo.callback(settings.keys.unlink)
        _begin(settings, keys)
        undo.pop_all()
    return keys


def _add(undo: ExitStack, path: Path, content: bytes) -> None:
    if path.exists():
        raise SettingsError(f"{path}: exists already; nothing is overwritten")
    undo.callback(path.unlink, missing_ok=True)
    path.write_bytes(content)


def _begin(settings: ServerSettings, keys: Keys) -> None:
    """The database, which must not hold another training."""
    with closing(ServerStore(settings.database)) as store:
        Server(store, keys, settings, opener=InProcess()).prepare()


def _catalogue_in(path: Path) -> Catalogue:
    """As the protocol has it, or a table of items."""
    if path.suffix == ".json":
        return read_catalogue(path)
    known = _loaders().items.read_items(path)
    return Catalogue.of(
        Item(item, (title or item)[:MAX_TEXT], tags) for item, (title, tags) in known.items()
    )


def _catalogue_of(source: str) -> Catalogue:
    return Catalogue.of(items_of(_loaders().load(source)))


def _loaders() -> Any:
    """Here and not above: a server that brings its own catalogue needs no data loaders."""
    try:
        import sottovoce.data
    except ImportError as error:
        raise MissingExtraError(
            f"--data, or a table of items, needs {error.name}: pip install 'sottovoce[sim]', or "
            "give --catalogue FILE.json"
        ) from error
    return sottovoce.data


def items_of(data: Interactions) -> list[Item]:
    return [Item(number, title[:MAX_TEXT], tags) for number, title, tags in data.described()]


def _print(epochs: list[Epoch]) -> None:
    counted = ("chunks", "reports", "duplicates", "undecodable", "crowdless", "capped")
    table = Table(*output.right("epoch", "state", "opens", "closes", *counted))
    for found in epochs:
        counts = (getattr(found, name) for name in counted)
        times = (_when(found.opens), _when(found.closed_at or found.closes))
        table.add_row(str(found.epoch), found.state, *times, *(f"{count:,}" for count in counts))
    output.results.print(
        table if epochs else "No epoch yet: `sottovoce server run` opens the first."
    )


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _as_json(found: Epoch) -> dict[str, Any]:
    row = {**asdict(found), "hash": found.hash.hex(), "model": found.model.hex()}
    del row["manifest"]
    return row
