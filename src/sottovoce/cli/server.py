"""`sottovoce server`: set up a server, run it, show its state and change its training."""

import time
from collections.abc import Callable, Iterator
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
    NoReportsOption,
    PresetOption,
    StartFile,
    YesOption,
    add_mechanism,
    add_settings_options,
    add_training_options,
    check_writable,
    choose_command_budget,
    make_config_option,
    make_group,
    make_learn_option,
    make_option,
    make_people_option,
)
from sottovoce.cli.server_status import describe_contact, describe_status
from sottovoce.errors import NothingToLearnError, SettingsError
from sottovoce.protocol import Catalogue
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NEVER, CROWD_NONE, CROWD_SHORT
from sottovoce.server import Keys, OpenerPool, Server, ServerSettings, ServerStore, build_app
from sottovoce.server.administration import (
    begin_training,
    cancel_training,
    close_epoch,
    find_newest_seen,
    go_beyond,
    update_catalogue,
)
from sottovoce.server.agreement import read_start
from sottovoce.server.key_chain import rotate_keys
from sottovoce.server.pending import load_start
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
from sottovoce.training import (
    DEFAULT_PRESET,
    Participation,
    Settings,
    plan_open_ended,
    plan_training,
    plan_without_reports,
)
from sottovoce.training.start import Start

app = make_group(
    "server",
    "Run a server, which decrypts reports, updates the model and publishes epochs.",
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
    "Begin another training with the same server, devices and catalogue.",
    "server training begin --config my-server/server.toml",
)
keys_app = make_group(
    "keys",
    "Replace the signing key; devices learn the new key by themselves.",
    "server keys rotate --config my-server/server.toml",
)

# Settings of a service that can be options of `init` and of `up`.
SERVICE_SETTINGS = get_settings(ServerSettings) | get_settings(Participation)

# What happens to a proxy's reports when the epoch is closed. The key is the state of the proxy's
# crowd in its last contact, or None without a contact in this epoch.
CLOSING_CONSEQUENCES: dict[str | None, str] = {
    CROWD_ENOUGH: "enough people have reported; their reports are counted.",
    CROWD_SHORT: (
        "too few people have reported; their reports are discarded unless more people report "
        "within {grace}."
    ),
    CROWD_NEVER: "its crowd cannot become large enough; its reports are discarded.",
    CROWD_NONE: "it has no reports.",
    None: (
        "it has not contacted the server in this epoch; its reports are counted if enough people "
        "have reported and it sends them within {grace}."
    ),
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
        list[str] | None,
        make_option(
            "Name of a proxy that may send reports. May be repeated.", "proxy", metavar="NAME"
        ),
    ] = None,
    accounts: AccountsOption = False,
    preset: PresetOption = DEFAULT_PRESET,
    history: HistoryOption = None,
    learn: Annotated[Learn | None, make_learn_option("names with a local budget")] = None,
    start: StartFile = None,
    no_reports: NoReportsOption = False,
    training: dict[str, Any],
    ends: Annotated[
        bool,
        typer.Option(
            "--ends",
            help="End the training after --epochs; by default it never ends.",
            hidden=True,
        ),
    ] = False,
    database: Annotated[
        str,
        typer.Option(
            help="URL of the database (SQLite or PostgreSQL) as SQLAlchemy writes it.", hidden=True
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
    """Set up a server: keys, secrets of the proxies, settings and database. Overwrites nothing.

    With --start, the first lists come from public data, which costs no budget. If people's reports
    would teach nothing that the start does not know, the server asks for none and says so.

    \b
    Examples:
      sottovoce server init my-server --catalogue films.json --proxy east --proxy west
      sottovoce server init my-server --catalogue shop.csv --columns item=sku,title=name
      sottovoce server init my-server --catalogue google_feed.xml
      sottovoce server init my-server --catalogue films.json --budget 10 --start start.safetensors
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
    raw, public = (None, None) if start is None else read_start(start)
    settings, collects = plan_service(
        plan_training if ends else plan_open_ended,
        items,
        public,
        default_people=service.get("min_clients", Participation.min_clients),
        people=people,
        budget=budget,
        central_budget=central_budget,
        learn=learn,
        training=training,
        no_reports=no_reports,
        history=history,
        preset=preset,
    )
    # Dummies hide even a single person, so an epoch need not wait for a crowd.
    if settings.dummies:
        service.setdefault("min_clients", 1)
    service |= {
        "accounts": accounts,
        "collect_reports": collects,
        "database": database,
        "host": host,
        "port": port,
        "watch_port": watch_port,
    }
    proxies = proxy or ["proxy"]
    keys = make_server(folder, items, settings, proxies, start=raw, **service)
    count = output.pluralize(len(items.items), "item")
    tags = items.tags.format_kinds()
    typer.echo(f"The catalogue has {count}; tags for recommendations: {tags}.", err=True)
    if collects:
        typer.echo(f"Planned: {settings.reporting}.", err=True)
    typer.echo(f"The settings are in {folder / SETTINGS_FILE}, with explanations.", err=True)
    for name in proxies:
        secret = folder / f"{name}.secret"
        typer.echo(f"Give {secret} only to the operator of the proxy {name!r}.", err=True)
    typer.echo("Proxies and devices need this verification key:", err=True)
    typer.echo(keys.verification_key.hex())


def plan_service(
    plan: Callable[..., Settings],
    catalogue: Catalogue,
    start: Start | None,
    *,
    default_people: int,
    people: int | None,
    budget: float | None,
    central_budget: float | None,
    learn: Learn | None,
    training: dict[str, Any],
    no_reports: bool,
    preset: str,
    history: float | None,
) -> tuple[Settings, bool]:
    """Plan the training of a service, and say which items its public start has.

    Args:
        plan: The planner.
        catalogue: The catalogue.
        start: The public start, if there is one.
        default_people: Number of people to plan for if the user names none.
        people: The option `--people`; the following ones are options, too.
        budget: The option `--budget`.
        central_budget: The option `--central-budget`.
        learn: The option `--learn`.
        training: The settings of a training that the user gave.
        no_reports: Whether nobody is to be asked for reports.
        preset: The training preset.
        history: Number of items that a typical person has touched, if it is known.

    Returns:
        The settings, and whether devices are asked for reports.

    Raises:
        SettingsError: The options contradict each other, or no plan is possible.
    """
    n_items = len(catalogue.items)
    options: dict[str, Any] = {"preset": preset, "history": history}
    if no_reports:
        planned: dict[str, Any] = {"budget": budget, "central_budget": central_budget}
        planned |= {"people": people, "learn": learn, **training}
        conflicts = [f"--{name.replace('_', '-')}" for name, value in planned.items() if value]
        if conflicts:
            raise SettingsError(f"--no-reports plans no reports: leave out {', '.join(conflicts)}")
        if start is None:
            raise SettingsError("--no-reports needs a model for the lists: name one with --start")
    else:
        options["budget"] = choose_command_budget(budget, central_budget, preset, training)
        options |= add_mechanism(training, learn)
    people = people or default_people
    if start is None:
        return plan(people, n_items, **options), True
    V = start.select_matching_items(item.id for item in catalogue.items)
    matches = f"{int(V.any(axis=1).sum()):,} of {n_items:,} items of the catalogue have a row in it"
    output.print_note(f"{output.describe_start(start.provenance)} {matches}.")
    problem = "as --no-reports asks"
    if not no_reports:
        try:
            return plan(people, n_items, start_factors=V.shape[1], **options), True
        except NothingToLearnError as error:
            problem = error.reason
    output.print_note(f"Nobody is asked for reports, and no budget is spent: {problem}.")
    return plan_without_reports(n_items, V.shape[1]), False


@app.command()
def run(
    config: ConfigOption,
    *,
    port: Annotated[int | None, _make_port_option("Port to listen on.")] = None,
    watch_port: Annotated[int | None, _make_port_option("Port for health and metrics.")] = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C; running requests are completed first.

    Several servers (workers) may share a settings file; each needs its own --port and --watch-port.

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
    """Show the state of the server: epoch, counted reports, training, catalogue, keys, proxies.

    Reads the database and asks the running server at the address in [watch]. The exit code is 0 if
    all is well, 1 if something needs attention, and 2 if the state cannot be read.

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
            help="Also copy the encrypted key of the open epoch, so that its reports are not lost "
            "if the copy is restored in time. With the copy and the keys file, anyone can decrypt "
            "these reports for ever.",
        ),
    ] = False,
) -> None:
    """Copy an SQLite database while the server runs. For PostgreSQL use pg_dump.

    The keys file is not included. Keep a copy of it, in another place than the copy of the
    database.

    \b
    Example:
      sottovoce server backup --config my-server/server.toml monday.sqlite
    """
    back_up(ServerSettings.read(config).database, file, with_key=with_epoch_key)
    output.print_line(
        f"The database was copied to {file}. Keep the keys file in another place than the copy."
    )


@app.command("go-beyond")
def beyond(
    config: ConfigOption,
    epoch: Annotated[
        int | None,
        typer.Argument(
            min=1,
            help="Newest epoch that proxies or devices have seen. By default, the newest epoch of "
            "which a proxy has told the server.",
        ),
    ] = None,
    *,
    yes: YesOption = False,
) -> None:
    """Continue after restoring a backup, with an epoch number that no device has seen.

    Proxies and devices ignore epochs that are not newer than the newest they have seen. Without
    this command they would ignore the restored server. The model is that of the backup; later
    reports are lost. Run the server for a minute first, so that the proxies tell it which epochs
    they have seen. A number below these is refused.

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
                "No proxy has seen a later epoch, so this may not be necessary. The reports of the "
                "open epoch will be lost, and people have spent epsilon for them. Go on?"
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
        typer.Option("--retire-many", help="Allow the file to retire more than half of the items."),
    ] = False,
) -> None:
    """Replace the catalogue by that of a file. Items that the file lacks are retired.

    A device drops retired items from its lists when it next fetches the catalogue, at any time in
    an epoch; it keeps them in its history. New items are recommended by their tags until people
    have reported on them. A file that lacks more than half of the items may be a broken export, so
    it is refused without --retire-many. Of an export of a shop or a Google Merchant feed, the
    command also prints what was understood. To get the present catalogue: sottovoce server status
    --catalogue FILE

    \b
    Examples:
      sottovoce server catalogue update --config my-server/server.toml films.csv --dry-run
      sottovoce server catalogue update --config my-server/server.toml films.csv
      sottovoce server catalogue update --config my-server/server.toml products_export.csv
    """
    wanted = read_catalogue_file(file, columns)
    with open_store(config) as (_, store):
        version, difference, items_left = update_catalogue(
            store, wanted, retire_many=retire_many, dry_run=dry_run
        )
    if not difference:
        output.print_line("The file is equal to the present catalogue; nothing was changed.")
    for line in describe_difference(difference):
        typer.echo(escape_control_characters(line))
    if difference and not dry_run:
        output.print_line(
            f"This is version {version} of the catalogue. Devices use it for lists within a "
            "minute, and for reports from the next epoch on."
        )
    output.print_line(f"{output.pluralize(items_left, 'more item')} may come in this training.")


@epoch_app.command("close")
def close_now(config: ConfigOption, *, yes: YesOption = False) -> None:
    """Close the present epoch if its time is over and it only waits for more people.

    Reports are counted from proxies to which enough people have reported. Other proxies discard
    their reports, because a proxy never mixes reports of too few people. The epsilon of discarded
    reports stays spent.

    \b
    Example:
      sottovoce server epoch close --config my-server/server.toml
    """
    with open_store(config) as (settings, store):
        # Check first whether the epoch can be closed, before asking the operator.
        close_epoch(store, time.time(), dry_run=True)
        if not yes:
            question = (
                "Proxies with too few people will discard their reports, whose epsilon stays "
                "spent. Close?"
            )
            typer.confirm(question, abort=True)
        number, crowds = close_epoch(store, time.time())
    output.print_line(f"Epoch {number} is closed. Servers and proxies continue within seconds.")
    grace = output.format_duration(settings.grace_seconds)
    for name in settings.proxies:
        consequence = CLOSING_CONSEQUENCES[crowds.get(name)].format(grace=grace)
        output.print_line(f"Proxy {name}: {consequence}")
    if CROWD_ENOUGH not in crowds.values():
        output.print_line(
            f"If no proxy has reports of enough people within {grace}, the model does not change."
        )


@training_app.command()
def begin(
    config: ConfigOption,
    *,
    random_start: Annotated[
        bool,
        typer.Option(
            "--random-start",
            help="Begin with a new model, not with the present one: that of `start` in the "
            "settings, or a random one.",
        ),
    ] = False,
    cancel: Annotated[
        bool,
        typer.Option(
            "--cancel", help="Cancel a training that was begun and has not had an epoch yet."
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Begin another training after the present epoch, with [training] and [terms] as they are now.

    The new training has its own id and terms. Devices go on recommending with the last model, ask
    people to accept the new terms, and report again only if they accept. After --cancel, also
    restore the previous settings in the file.

    \b
    Examples:
      sottovoce server training begin --config my-server/server.toml
      sottovoce server training begin --config my-server/server.toml --cancel
    """
    if cancel:
        with open_store(config) as (_, store):
            output.print_line(f"Canceled. Training {cancel_training(store)} continues.")
        return
    if not yes:
        typer.confirm(
            "Every device will ask for consent to the new terms. Begin another training?",
            abort=True,
        )
    with open_store(config) as (settings, store):
        training = begin_training(store, settings, random_start=random_start)
        with store.read() as transaction:
            public = load_start(transaction, training)
    output.print_line(
        f"Training {training.number} ({training.terms.training.hex()}) begins after the present "
        "epoch. Servers need no restart."
    )
    if public is not None:
        output.print_line(output.describe_start(public.provenance))


@keys_app.command()
def rotate(
    config: ConfigOption,
    *,
    newest_is_lost: Annotated[
        bool,
        typer.Option(
            "--newest-is-lost",
            help="Replace the key in the keys file although the database knows a newer one. Only "
            "if the newer one is lost and has signed nothing.",
        ),
    ] = False,
) -> None:
    """Replace the signing key. The old key signs the new one and is then deleted.

    Copy the new keys file to all workers and restart them. Devices and proxies learn the new key by
    themselves. Back up the new file before the next epoch is published: if the new key is lost, all
    devices must be set up again. A keys file without the newest key is refused; copy the newest
    file first.

    \b
    Example:
      sottovoce server keys rotate --config my-server/server.toml
    """
    with open_store(config) as (settings, store):
        keys = rotate_keys(store, settings.keys, newest_is_lost=newest_is_lost)
    output.print_line(
        f"The new key is in {settings.keys}. Copy this file to all workers and restart them."
    )
    output.print_line("Set up new devices with this verification key:")
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
