"""`sottovoce server`: set up a server, run it, show its state and change its training."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.characters import escape_control_characters
from sottovoce.cli import output
from sottovoce.cli.catalogue_file import (
    CATALOGUE_HELP,
    CatalogueColumns,
    describe_difference,
    load_catalogue,
    read_catalogue_file,
)
from sottovoce.cli.options import (
    AccountsOption,
    BudgetOption,
    CentralBudgetOption,
    HistoryOption,
    HostOption,
    JsonFile,
    Learn,
    PresetOption,
    YesOption,
    add_mechanism,
    add_settings_options,
    add_training_options,
    check_writable,
    make_config_option,
    make_group,
    make_learn_option,
    make_option,
    make_people_option,
)
from sottovoce.cli.server_status import describe_contact, describe_status
from sottovoce.errors import SettingsError
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT
from sottovoce.server import Keys, OpenerPool, Server, ServerSettings, ServerStore, build_app
from sottovoce.server.administration import (
    begin_training,
    cancel_training,
    close_epoch,
    find_newest_seen,
    go_beyond,
    update_catalogue,
)
from sottovoce.server.key_chain import rotate_keys
from sottovoce.server.settings import check_proxy_name
from sottovoce.server.setup import SETTINGS_FILE, make_server
from sottovoce.server.status import ServerStatus
from sottovoce.server.store import back_up
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

# Settings of a service that can be options of `init` and of `up`.
SERVICE_SETTINGS = get_settings(ServerSettings) | get_settings(Participation)

# What happens to a proxy's reports when the epoch is closed, by the crowd that it reported last.
CLOSING_CONSEQUENCES: dict[str | None, str] = {
    CROWD_ENOUGH: "it has its crowd, and its reports are counted.",
    CROWD_SHORT: (
        "its crowd is too small; it gives its reports up in {grace}, unless its crowd comes."
    ),
    CROWD_NONE: "it has no reports.",
    None: "it has said nothing; what it hands in within {grace} is counted, if it has its crowd.",
}

ConfigOption = Annotated[Path, make_config_option("server")]


def _make_port_option(help_text: str) -> Any:
    return make_option(help_text, "as in the settings", min=0, max=65_535)


@app.command()
@add_training_options(only=["epochs"], planned=["epochs"])
@add_settings_options(
    "service", {name: SERVICE_SETTINGS[name] for name in ("epoch_seconds", "min_clients")}
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
    people: Annotated[int | None, make_people_option("--min-clients")] = None,
    service: dict[str, Any],
    proxy: Annotated[
        list[str] | None, make_option("Name of a proxy. May be repeated.", "proxy", metavar="NAME")
    ] = None,
    accounts: AccountsOption = False,
    preset: PresetOption = DEFAULT_PRESET,
    history: HistoryOption = None,
    learn: Annotated[Learn | None, make_learn_option("names up to a local budget of 50")] = None,
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
      sottovoce server init my-server --catalogue shop.csv --columns item=sku,title=name
      sottovoce server init my-server --data ml-latest-small --budget 50
    """
    if (catalogue is None) == (data is None):
        raise SettingsError("give either --catalogue FILE or --data DATA")
    for name in proxy or ():
        check_proxy_name(name)
    # Secrets and counts are stored by the name of the proxy.
    if proxy and len(set(proxy)) < len(proxy):
        raise SettingsError("--proxy: every proxy needs a name of its own")
    if catalogue is None:
        items = load_catalogue(data or "")
    else:
        items = read_catalogue_file(catalogue, columns)
    settings = (plan_training if ends else plan_open_ended)(
        people or service.get("min_clients", Participation.min_clients),
        len(items.items),
        history=history,
        preset=preset,
        budget=Budget.from_options(budget, central_budget),
        **add_mechanism(training, learn),
    )
    # Dummies hide people without a crowd.
    if settings.dummies:
        service.setdefault("min_clients", 1)
    service |= {
        "accounts": accounts,
        "database": database,
        "host": host,
        "port": port,
        "watch_port": watch_port,
    }
    proxies = proxy or ["proxy"]
    keys = make_server(folder, items, settings, proxies, **service)
    count = output.pluralize(len(items.items), "item")
    tags = items.tags.format_kinds()
    typer.echo(f"{count}; tags that devices recommend with: {tags}.", err=True)
    typer.echo(f"Planned: {output.describe_settings(settings)}.", err=True)
    typer.echo(f"{folder / SETTINGS_FILE} holds the settings, each explained.", err=True)
    for name in proxies:
        secret = folder / f"{name}.secret"
        typer.echo(f"{secret} is for the operator of the proxy {name!r} alone.", err=True)
    typer.echo("Devices need this verification key:", err=True)
    typer.echo(keys.verification_key.hex())


@app.command()
def run(
    config: ConfigOption,
    *,
    port: Annotated[int | None, _make_port_option("Port to listen on.")] = None,
    watch_port: Annotated[int | None, _make_port_option("Port for health and metrics.")] = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C. Requests under way are finished first.

    Several workers share one settings file, each at ports of its own.

    \b
    Examples:
      sottovoce server run --config my-server/server.toml
      sottovoce server run --config my-server/server.toml --port 8092 --watch-port 8093
    """
    # Workers share a settings file, and only their ports differ.
    settings = ServerSettings.read(config).replace_ports(port, watch_port)
    commands = OwnCommands("server", config)
    last_warning = start_logging(commands, as_json=settings.log_json)
    keys = Keys.read(settings.keys)
    with (
        closing(ServerStore(settings.database)) as store,
        closing(OpenerPool(settings.openers)) as pool,
    ):
        server = Server(store, keys, settings, opener=pool)
        # Find missing keys or files now, not at the first tick.
        server.prepare()
        app = build_app(server, settings)
        watch = build_watch(
            server.check_ready,
            server.render_metrics,
            commands,
            server.troubles,
            last_warning,
        )
        run_service(
            app, settings.listen, watch, settings.watch, on_rejection=server.metrics.turned_away
        )


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
        state = ServerStatus.read(store, settings, time.time(), running)
    if catalogue is not None:
        write_atomically(catalogue, state.pending.catalogue.raw)
    lines, commands = describe_status(state, settings), OwnCommands("server", config)
    output.print_status(lines, state.to_dict(), json_file, commands)


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
    """Continue after restoring a backup, with an epoch later than any that devices have seen.

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
        # If no proxy has seen a later epoch, the command may be a mistake: ask the operator.
        if epoch is not None and not yes and not find_newest_seen(store, settings.proxies, now):
            question = (
                "No proxy needs this, and the open epoch will be lost, and stay paid for. Go on?"
            )
            typer.confirm(question, abort=True)
        number, contacts = go_beyond(store, epoch, now, settings.proxies)
    output.print_line(f"The next epoch has the number {number}.")
    for name in settings.proxies:
        output.print_line(describe_contact(name, contacts.get(name), now))


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

    A retired item leaves the lists of a device at its next look, in any epoch. Until people report
    on a new item, it is recommended by its tags. Devices keep retired items in their histories; the
    model forgets them. A file that lacks more than half of the items may be an export that broke
    off: it is refused without --retire-many. To get the present catalogue:
    sottovoce server status --catalogue FILE

    \b
    Examples:
      sottovoce server catalogue update --config my-server/server.toml films.csv --dry-run
      sottovoce server catalogue update --config my-server/server.toml films.csv
    """
    wanted = read_catalogue_file(file, columns)
    with open_store(config) as (_, store):
        version, difference, items_left = update_catalogue(
            store, wanted, retire_many=retire_many, dry_run=dry_run
        )
    if not difference:
        output.print_line("The catalogue is the same; nothing changes.")
    for line in describe_difference(difference):
        typer.echo(escape_control_characters(line))
    if difference and not dry_run:
        output.print_line(
            f"Version {version} holds for lists within a minute, and for reports from the next "
            "epoch on."
        )
    output.print_line(f"{output.pluralize(items_left, 'more item')} may come in this training.")


@epoch_app.command("close")
def close_now(config: ConfigOption, *, yes: YesOption = False) -> None:
    """Close the present epoch now, if its time is over and it only waits for its crowd.

    Reports are counted from proxies that have their crowd. Reports at other proxies are discarded
    and stay charged, because a proxy never mixes fewer than a crowd.

    \b
    Example:
      sottovoce server epoch close --config my-server/server.toml
    """
    with open_store(config) as (settings, store):
        # Check first whether the epoch can be closed, before asking the operator.
        close_epoch(store, time.time(), dry_run=True)
        if not yes:
            question = "Reports without a crowd will be lost, and stay paid for. Close?"
            typer.confirm(question, abort=True)
        number, crowds = close_epoch(store, time.time())
    output.print_line(f"Epoch {number} is closed. Workers and proxies go on with their next beats.")
    grace = output.format_duration(settings.grace_seconds)
    for name in settings.proxies:
        consequence = CLOSING_CONSEQUENCES[crowds.get(name)].format(grace=grace)
        output.print_line(f"Proxy {name}: {consequence}")
    if CROWD_ENOUGH not in crowds.values():
        output.print_line(f"If no proxy gets its crowd within {grace}, the model stays as it is.")


@training_app.command()
def begin(
    config: ConfigOption,
    *,
    random_start: Annotated[
        bool, typer.Option("--random-start", help="Begin with a random model, not the last one.")
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
        training = begin_training(store, settings, random_start=random_start)
    output.print_line(
        f"Training {training.number}, {training.terms.training.hex()}, follows the present epoch. "
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
        keys = rotate_keys(store, settings.keys, newest_is_lost=newest_is_lost)
    output.print_line(
        f"{settings.keys} holds the new key: copy it to all workers and restart them."
    )
    output.print_line("New devices may pin this verification key:")
    typer.echo(keys.verification_key.hex())


for group in (catalogue_app, epoch_app, training_app, keys_app):
    app.add_typer(group)


@contextmanager
def open_store(config: Path) -> Iterator[tuple[ServerSettings, ServerStore]]:
    """Yield the settings of a server and its open database."""
    settings = ServerSettings.read(config)
    with closing(ServerStore(settings.database)) as store:
        store.check_tables()
        yield settings, store
