"""`sottovoce server`: set up the server of a training, run it, see and change what it does."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.characters import escape_control_characters
from sottovoce.cli import output
from sottovoce.cli.options import (
    AccountsOption,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    HostOption,
    JsonFile,
    PresetOption,
    YesOption,
    add_settings_options,
    add_training_options,
    check_writable,
    make_config_option,
    make_group,
    make_option,
    make_people_option,
)
from sottovoce.errors import DataError, MissingExtraError, ProtocolError, SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT
from sottovoce.protocol.terms import TRIAL_SENTENCE
from sottovoce.server import Keys, OpenerPool, Server, ServerSettings, ServerStore, build_app
from sottovoce.server.administration import (
    begin_training,
    cancel_training,
    close_epoch,
    find_newest_seen,
    go_beyond,
    update_catalogue,
)
from sottovoce.server.agreement import read_catalogue
from sottovoce.server.catalogue import Difference
from sottovoce.server.key_chain import rotate_keys
from sottovoce.server.problems import DROP_REASONS
from sottovoce.server.settings import check_proxy_name
from sottovoce.server.setup import SETTINGS_FILE, list_catalogue_items, make_server
from sottovoce.server.status import ServerStatus
from sottovoce.server.store import back_up
from sottovoce.server.transaction import OPEN, Epoch, ProxyContact
from sottovoce.server.waiting import EpochWait
from sottovoce.service.listen import Listen
from sottovoce.service.logs import OwnCommands, start_logging
from sottovoce.service.run import run_service
from sottovoce.service.watch import ProcessState, build_watch
from sottovoce.settings import get_settings
from sottovoce.storage.files import write_atomically
from sottovoce.training import DEFAULT_PRESET, Budget, Participation, plan_open_ended, plan_training

app = make_group(
    "server",
    "Open reports, update the model, publish the next epoch.",
    "server run --config my-server/server.toml",
)
catalogue_app = make_group(
    "catalogue",
    "Change the catalogue while the service runs.",
    "server catalogue update --config my-server/server.toml films.csv",
)
epoch_app = make_group(
    "epoch",
    "End an epoch that waits for its crowd.",
    "server epoch close --config my-server/server.toml",
)
training_app = make_group(
    "training",
    "Begin another training under the same service.",
    "server training begin --config my-server/server.toml",
)
keys_app = make_group(
    "keys",
    "Change the signing key; devices follow by themselves.",
    "server keys rotate --config my-server/server.toml",
)

LISTED = 10
"""Items of one kind of change that are named."""
CATALOGUE_HELP = "Catalogue (.json), or a table of items (.csv, .tsv, .parquet)."
EXAMPLE = "item=NAME,title=NAME,genre=NAME"
ADVICE = f". Name one of them so, or say which it is: --columns {EXAMPLE}"
SERVICE_SETTINGS = get_settings(ServerSettings) | get_settings(Participation)
"""Settings of a service that are options of `init` and of `up`."""

ConfigOption = Annotated[Path, make_config_option("server")]
CatalogueColumns = Annotated[
    str | None,
    make_option(
        "Names of the table's columns, such as item=sku,title=name,genre=category. Only those "
        "named are read.",
        "item, title, and all others as tags",
        "--columns",
    ),
]


def port_option(what: str) -> Any:
    """`--port` and `--watch-port`."""
    return make_option(what, "as in the settings", min=0, max=65_535)


@add_training_options(only=["epochs"], planned=["epochs"])
@add_settings_options(
    "service", {name: SERVICE_SETTINGS[name] for name in ("epoch_seconds", "least_clients")}
)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for all files; created if missing.")],
    *,
    catalogue: Annotated[Path | None, typer.Option(help=CATALOGUE_HELP)] = None,
    columns: CatalogueColumns = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data set whose items become the catalogue: a name or a path."),
    ] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    people: Annotated[int | None, make_people_option("--least-clients")] = None,
    service: dict[str, Any],
    proxy: Annotated[
        list[str] | None, make_option("Name of a proxy. May be repeated.", "proxy", metavar="NAME")
    ] = None,
    accounts: AccountsOption = False,
    preset: PresetOption = DEFAULT_PRESET,
    history: HistoryOption = None,
    training: dict[str, Any],
    ends: Annotated[
        bool,
        typer.Option(
            "--ends",
            help="End the training after these epochs; without it learning never ends.",
            hidden=True,
        ),
    ] = False,
    database: Annotated[
        str,
        typer.Option(
            help="URL of the database, SQLite or PostgreSQL, in SQLAlchemy's form.", hidden=True
        ),
    ] = ServerSettings.database,
    host: HostOption = Listen.host,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on.", hidden=True)
    ] = 8090,
    watch_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port for health and metrics.", hidden=True)
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
    found = (
        _catalogue_of(data or "") if catalogue is None else read_catalogue_file(catalogue, columns)
    )
    chosen = (plan_training if ends else plan_open_ended)(
        people or service.get("least_clients", Participation.least_clients),
        len(found.items),
        history=history,
        preset=preset,
        budget=Budget.from_options(budget, central_budget),
        **training,
    )
    if chosen.dummies:  # which hide people by themselves: no crowd is waited for
        service.setdefault("least_clients", 1)
    service |= {
        "accounts": accounts,
        "database": database,
        "host": host,
        "port": port,
        "watch_port": watch_port,
    }
    keys = make_server(folder, found, chosen, proxy or ["proxy"], **service)
    tags = found.tags.format_kinds()
    typer.echo(
        f"{output.pluralize(len(found.items), 'item')}; tags that devices recommend with: {tags}.",
        err=True,
    )
    typer.echo(f"Planned: {output.describe_settings(chosen)}.", err=True)
    typer.echo(f"{folder / SETTINGS_FILE} holds the settings, each explained.", err=True)
    for name in proxy or ["proxy"]:
        whose = f"is for the operator of the proxy {name!r} alone."
        typer.echo(f"{folder / name}.secret {whose}", err=True)
    typer.echo("Devices need this verification key:", err=True)
    typer.echo(keys.verification_key.hex())


app.command()(init)


@app.command()
def run(
    config: ConfigOption,
    *,
    port: Annotated[int | None, port_option("Port to listen on.")] = None,
    watch_port: Annotated[int | None, port_option("Port for health and metrics.")] = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C. Requests under way are finished first.

    Several workers share one settings file, each at ports of its own.

    \b
    Examples:
      sottovoce server run --config my-server/server.toml
      sottovoce server run --config my-server/server.toml --port 8092 --watch-port 8093
    """
    settings = ServerSettings.read(config).replace_ports(port, watch_port)
    commands = OwnCommands("server", config)
    last = start_logging(commands, as_json=settings.log_json)
    keys = Keys.read(settings.keys)
    with (
        closing(ServerStore(settings.database)) as store,
        closing(OpenerPool(settings.openers)) as pool,
    ):
        server = Server(store, keys, settings, opener=pool)
        server.prepare()
        app = build_app(server, settings)
        watch = build_watch(
            server.check_ready, server.render_metrics, commands, server.troubles, last
        )
        turned_away = server.metrics.turned_away
        run_service(app, settings.listen, watch, settings.watch, on_rejection=turned_away)


@app.command()
def status(
    config: ConfigOption,
    *,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            callback=check_writable,
            help="Also write the catalogue of the next epoch to this JSON file.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Show the state of the service: epoch, what it waits for, counted reports, keys, catalogue.

    Reads the database and asks the worker at [watch]. Exit code 0: all is well; 1: something needs
    attention, and the output says what; 2: the state cannot be read.

    \b
    Examples:
      sottovoce server status --config my-server/server.toml
      sottovoce server status --config my-server/server.toml --catalogue films.json
    """
    settings = ServerSettings.read(config)
    with closing(ServerStore(settings.database)) as store:
        running = ProcessState.fetch(settings.watch, config)
        found = ServerStatus.read(store, settings, time.time(), running)
    if catalogue is not None:
        write_atomically(catalogue, found.pending.catalogue.raw)
    lines, commands = describe_status(found, settings), OwnCommands("server", config)
    output.print_status(lines, found.to_dict(), json_file, commands)


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
    output.print_line(f"{file} is the database of this moment. Keep the keys file elsewhere.")


@app.command("go-beyond")
def beyond(
    config: ConfigOption,
    epoch: Annotated[
        int | None,
        typer.Argument(
            min=1, help="Last epoch that proxies or devices have seen; the last that a proxy named."
        ),
    ] = None,
    *,
    yes: YesOption = False,
) -> None:
    """After restoring a backup: continue with an epoch later than any that devices have seen.

    Proxies and devices never go back to an earlier epoch; without this they would wait for ever.
    The model is the one in the backup; reports since then are lost. Run the server for a minute
    first: proxies then say which epoch they have seen, and a smaller number is refused.

    \b
    Examples:
      sottovoce server go-beyond --config my-server/server.toml
      sottovoce server go-beyond --config my-server/server.toml 57
    """
    now = time.time()
    with open_store(config) as (settings, store):
        if epoch is not None and not yes and not find_newest_seen(store, settings.proxies, now):
            said = "No proxy needs this, and the open epoch will be lost, and stay paid for. Go on?"
            typer.confirm(said, abort=True)
        number, heard = go_beyond(store, epoch, now, settings.proxies)
    output.print_line(f"The next epoch has the number {number}.")
    for name in settings.proxies:
        output.print_line(_heard(name, heard.get(name), now))


@catalogue_app.command()
def update(
    config: ConfigOption,
    file: Annotated[Path, typer.Argument(help=CATALOGUE_HELP)],
    *,
    columns: CatalogueColumns = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    retire_many: Annotated[
        bool,
        typer.Option("--retire-many", help="Allow that more than half of the items are retired."),
    ] = False,
) -> None:
    """Make the catalogue equal to a file: add, rename, change tags and retire.

    What is retired is on no list as soon as a device looks, whatever the epoch. Until people report
    on a new item, it is recommended by its tags. Devices keep retired items in their histories; the
    model forgets them. A file that lacks more than half of the items may be an
    export that broke off: it is refused without --retire-many. To get the present catalogue:
    sottovoce server status --catalogue FILE

    \b
    Examples:
      sottovoce server catalogue update --config my-server/server.toml films.csv --dry-run
      sottovoce server catalogue update --config my-server/server.toml films.csv
    """
    wanted = read_catalogue_file(file, columns)
    with open_store(config) as (_, store):
        version, found = update_catalogue(store, wanted, retire_many=retire_many, dry_run=dry_run)
    _print(found)
    if found and not dry_run:
        output.print_line(
            f"Version {version} holds for lists within a minute, and for reports from the next "
            "epoch on."
        )


@epoch_app.command("close")
def close_now(config: ConfigOption, *, yes: YesOption = False) -> None:
    """Close the present epoch now, if its time is over and it only waits for its crowd.

    Reports are counted where a proxy has its crowd. What other proxies hold is given up and stays
    paid for: nothing is ever mixed below the crowd.

    \b
    Example:
      sottovoce server epoch close --config my-server/server.toml
    """
    with open_store(config) as (settings, store):
        close_epoch(store, time.time(), dry_run=True)  # what cannot be done is not asked about
        if not yes:
            said = "Reports without a crowd will be lost, and stay paid for. Close?"
            typer.confirm(said, abort=True)
        number, told = close_epoch(store, time.time())
    output.print_line(f"Epoch {number} is closed. Workers and proxies go on with their next beats.")
    grace = output.format_duration(settings.grace_seconds)
    for name in settings.proxies:
        output.print_line(f"Proxy {name}: {FOLLOWS[told.get(name)].format(grace=grace)}")
    if CROWD_ENOUGH not in told.values():
        output.print_line(f"If no proxy gets its crowd within {grace}, the model stays as it is.")


FOLLOWS: dict[str | None, str] = {
    CROWD_ENOUGH: "it has its crowd, and its reports are counted.",
    CROWD_SHORT: (
        "its crowd is too small; it gives its reports up in {grace}, unless its crowd comes."
    ),
    CROWD_NONE: "it has no reports.",
    None: "it has said nothing; what it hands in within {grace} is counted, if it has its crowd.",
}
"""What a proxy said last, and what follows when the epoch is closed."""


@training_app.command()
def begin(
    config: ConfigOption,
    *,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin with a random model, not the last one.")
    ] = False,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Take back a training that was begun and had no epoch yet."),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Begin another training after the present epoch, as [training] and [terms] now say.

    The new training has its own id and terms. Devices keep recommending from the last model, ask
    their owners, and report again only if they agree. After --cancel, also restore the previous
    settings in the file.

    \b
    Examples:
      sottovoce server training begin --config my-server/server.toml
      sottovoce server training begin --config my-server/server.toml --cancel
    """
    if cancel:
        with open_store(config) as (_, store):
            output.print_line(f"Training {cancel_training(store)} goes on.")
        return
    if not yes:
        typer.confirm("Every device will ask its owner again. Begin another training?", abort=True)
    with open_store(config) as (settings, store):
        begun = begin_training(store, settings, random_start=anew)
    output.print_line(
        f"Training {begun.number}, {begun.terms.training.hex()}, follows the present epoch. "
        "Workers need no restart."
    )


@keys_app.command()
def rotate(
    config: ConfigOption,
    *,
    newest_is_lost: Annotated[
        bool,
        typer.Option(
            "--newest-is-lost",
            help="The newest key was never used and is lost: go on with the one in the keys file.",
        ),
    ] = False,
) -> None:
    """Change the signing key. The old key signs the new one and is then deleted.

    Copy the keys file to all workers and restart them. Devices and proxies follow by themselves.
    Back up the new file before the next epoch is published: if it is lost, devices trust nothing
    more. A keys file without the newest key is refused: copy the newest file first.

    \b
    Example:
      sottovoce server keys rotate --config my-server/server.toml
    """
    with open_store(config) as (settings, store):
        rotated = rotate_keys(store, settings.keys, newest_is_lost=newest_is_lost)
    output.print_line(
        f"{settings.keys} holds the new key: copy it to all workers and restart them."
    )
    output.print_line("New devices may pin this verification key:")
    typer.echo(rotated.verification_key.hex())


for below in (catalogue_app, epoch_app, training_app, keys_app):
    app.add_typer(below)


@contextmanager
def open_store(config: Path) -> Iterator[tuple[ServerSettings, ServerStore]]:
    """Return the settings and their database."""
    settings = ServerSettings.read(config)
    with closing(ServerStore(settings.database)) as store:
        store.check_tables()
        yield settings, store


def read_catalogue_file(path: Path, columns: str | None = None) -> Catalogue:
    """As the protocol has it, or a table of items."""
    if path.suffix == ".json":
        if columns:
            raise SettingsError(f"--columns is for tables, and {path} is JSON: leave it out")
        return read_catalogue(path)
    data = _loaders()
    known = data.items.read_items(path, data.parse_columns(columns, EXAMPLE), advice=ADVICE)
    items = (
        Item(item, (title or item)[:MAX_TEXT_LENGTH], tags) for item, (title, tags) in known.items()
    )
    try:
        return Catalogue.from_items(items)
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error


def _catalogue_of(source: str) -> Catalogue:
    return Catalogue.from_items(list_catalogue_items(_loaders().load(source)))


def _loaders() -> Any:
    """Imported here: a server that brings its own catalogue needs no data loaders."""
    try:
        import sottovoce.data
    except ImportError as error:
        raise MissingExtraError(
            f"--data, or a table of items, needs {error.name}: pip install 'sottovoce[sim]', or "
            "give --catalogue FILE.json"
        ) from error
    return sottovoce.data


def _print(found: Difference) -> None:
    if not found:
        output.print_line("The catalogue is the same; nothing changes.")
    changed = [
        f"{after.id}: {before.title} -> {after.title}"
        if before.title != after.title
        else f"{after.id}: {after.title}, other tags"
        for before, after in found.changed
    ]
    for what, shown in (
        ("added", [f"{item.id}: {item.title}" for item in found.added]),
        ("changed", changed),
        ("retired", [f"{item.id}: {item.title}" for item in found.retired]),
    ):
        if shown:
            typer.echo(f"{len(shown):,} {what}")
        for line in shown[:LISTED]:
            typer.echo(f"  {escape_control_characters(line)}")
        if len(shown) > LISTED:
            typer.echo(f"  and {len(shown) - LISTED:,} more")


def _dropped(found: Epoch) -> dict[str, int]:
    """Reports that did not count, by the reason."""
    return {why: getattr(found, name) for name, why in DROP_REASONS.items() if getattr(found, name)}


def describe_status(found: ServerStatus, settings: ServerSettings) -> Iterator[str]:
    """How a service stands, in words: all but what needs attention."""
    yield from _epoch(found)
    for epoch in reversed(found.last_epochs):
        dropped = [f"{count:,} {why}" for why, count in _dropped(epoch).items()]
        tail = f"dropped: {', '.join(dropped)}" if dropped else "none were dropped"
        yield f"Epoch {epoch.epoch} counted {output.pluralize(epoch.reports, 'report')}; {tail}."
    yield _learning(found)
    yield from _people(found)
    yield from _catalogue(found)
    yield from _keys(found)
    yield from (_heard(name, said, found.now) for name, said in found.contacts.items())
    if isinstance(found.running, ProcessState):
        yield output.describe_process(
            "This server", found.running.since, found.running.last, found.now
        )
    if found.disk.free is not None:
        yield f"{found.disk.free / 1e9:,.1f} GB are free where the database lies."
    if found.epoch is not None and found.pending.training.number != found.epoch.training:
        yield f"Training {found.pending.training.number} begins after this epoch."
    how = (
        "`sottovoce server backup FILE`"
        if settings.database.startswith("sqlite")
        else "`pg_dump --exclude-table-data=epoch_keys`"
    )
    yield f"Back up the database ({how}) and {settings.keys.name} (once for each key) apart."


def _epoch(found: ServerStatus) -> Iterator[str]:
    epoch, now = found.epoch, found.now
    if epoch is None or found.manifest is None:
        yield "No epoch yet: `sottovoce server run` opens the first."
        return
    name = f"Epoch {epoch.epoch} of training {epoch.training}"
    if found.waiting is None:
        over = "asks for no reports" if epoch.closed_at is None else "is over"
        yield f"{name} {over}, since {output.format_moment(epoch.closed_at or epoch.opens, now)}."
    elif epoch.state == OPEN and now < epoch.closes:
        since, until = (
            output.format_moment(epoch.opens, now),
            output.format_moment(epoch.closes, now),
        )
        yield f"{name} is open since {since}; it closes at {until} at the earliest."
    elif epoch.state == OPEN:
        yield f"{name} is open; its time was over at {output.format_moment(epoch.closes, now)}."
        yield from _open(found.waiting, found.manifest.terms.least_clients, now)
    else:
        yield f"{name} is closed since {output.format_moment(epoch.closed_at or 0.0, now)}."
        yield from _closed(found.waiting, epoch, now)


def _open(waiting: EpochWait, least: int, now: float) -> Iterator[str]:
    if waiting.short:
        yield f"It waits for a crowd of {output.count_people(least)} at {', '.join(waiting.short)}."
    elif not waiting.has_crowd:
        yield f"It waits for a crowd of {output.count_people(least)}: no proxy has one."
    if waiting.silent:
        yield f"It has heard nothing of this epoch from {', '.join(waiting.silent)}."
    if waiting.is_over:
        yield "It waits for nothing: a worker closes it with its next beat."
    else:
        yield f"It is closed at {output.format_moment(waiting.until, now)} in any case."
        yield "To close it now: `sottovoce server epoch close`"


def _closed(waiting: EpochWait, epoch: Epoch, now: float) -> Iterator[str]:
    chunks = output.pluralize(epoch.chunks, "chunk")
    yield f"Counted so far: {output.pluralize(epoch.reports, 'report')} in {chunks}."
    if waiting.is_over:
        yield "It waits for nothing: a worker applies it with its next beat."
    else:
        until = output.format_moment(waiting.until, now)
        yield f"It waits for {', '.join(waiting.silent)} to hand in, until {until} at the latest."


def _heard(name: str, said: ProxyContact | None, now: float) -> str:
    if said is None:
        return f"Nothing was heard from proxy {name} yet."
    at = f"epoch {said.epoch}" if said.epoch else "no epoch"
    return (
        f"Proxy {name} was heard last at {output.format_moment(said.last_contact, now)}, with {at}."
    )


def _people(found: ServerStatus) -> Iterator[str]:
    """Who takes part, where that changes what is promised."""
    terms = found.pending.training.terms
    if terms.accounts:
        yield "A batch needs an account: what devices promise is for one account, not one device."
    if terms.trial:
        yield TRIAL_SENTENCE


def _learning(found: ServerStatus) -> str:
    if found.epoch is None or found.manifest is None or found.training is None:
        return "Nothing was learnt yet."
    done = output.pluralize(found.epoch.epochs_done, "epoch")
    learnt = f"Training {found.epoch.training} has learnt from {done}"
    if found.is_endless:
        half = found.training.settings.half_life
        return f"{learnt}; learning has no end (half-life {output.pluralize(half, 'epoch')})."
    if not found.manifest.epochs_left:
        return f"{learnt}; the training is finished."
    left = found.manifest.epochs_left
    return f"{learnt}; {left:,} {'is' if left == 1 else 'are'} left."


def _catalogue(found: ServerStatus) -> Iterator[str]:
    chosen, manifest = found.pending, found.manifest
    most = f"at most {chosen.training.terms.most_items:,} in this training"
    yield f"Catalogue version {chosen.version}: {output.pluralize(chosen.items, 'item')}, {most}."
    if manifest is not None and manifest.catalogue != chosen.catalogue.hash:
        lists = (
            "Lists have it already" if found.is_listed else "Lists have it once a worker signs it"
        )
        yield f"{lists}; reports are made for it from the next epoch on."
    yield f"Tags: {chosen.catalogue.tags.format_kinds()}."


def _keys(found: ServerStatus) -> Iterator[str]:
    times = found.keys.replaced
    replaced = "never replaced" if not times else f"replaced {output.pluralize(times, 'time')}"
    made = f"; made {output.format_moment(found.keys.made, found.now)}" if found.keys.made else ""
    yield f"Verification key: {found.verification_key.hex()} ({replaced}{made})."
    if found.keys.problem is None:
        yield "Keys file and database belong together."
    if found.keys.is_newer:
        yield "The keys file has a newer key, which signs from the next epoch on."
