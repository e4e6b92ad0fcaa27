"""`sottovoce up` and `sottovoce demo`: a whole system on one machine."""

import os
import sys
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from sottovoce.cli import output
from sottovoce.cli.catalogue_file import CATALOGUE_HELP, CatalogueColumns, read_catalogue_file
from sottovoce.cli.options import (
    BudgetOption,
    CentralBudgetOption,
    Learn,
    NoReportsOption,
    OriginOption,
    PresetOption,
    StartFile,
    add_settings_options,
    add_training_options,
    make_learn_option,
    make_option,
    make_people_option,
)
from sottovoce.cli.server import SERVICE_SETTINGS, plan_service
from sottovoce.client import HttpProxy
from sottovoce.data import load
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import SettingsError
from sottovoce.privacy import format_epsilon
from sottovoce.protocol import Catalogue, Terms
from sottovoce.protocol.panel import Panel
from sottovoce.protocol.terms import TRAINING_ID_BYTES, TRIAL_SENTENCE
from sottovoce.proxy.origins import check_origin
from sottovoce.sandbox.demo import (
    DEFAULT_FILMS,
    EPOCH_SECONDS,
    PEOPLE_PER_EPOCH,
    CurvePoint,
    DemoPlan,
    Reporters,
    follow_curve,
)
from sottovoce.sandbox.people import (
    COMPANIONS_PER_EPOCH,
    TRIAL_COST,
    TRIAL_DEFAULTS,
    PublicReader,
    start_companions,
)
from sottovoce.sandbox.processes import StopSignal, run_system, temporary_folder, watch_children
from sottovoce.sandbox.setup import (
    DEFAULT_PORT,
    LOCAL_HOST,
    ONE_OPERATOR_NOTICE,
    PANEL_FILE,
    LiveSystem,
    Sandbox,
    find_free_port,
    is_port_free,
    is_set_up,
    write_shop,
    write_statement,
)
from sottovoce.sandbox.shop import PAGE_FILE
from sottovoce.server.agreement import read_start
from sottovoce.server.setup import list_catalogue_items
from sottovoce.service.listen import Listen
from sottovoce.service.widget import format_script_tag
from sottovoce.storage.database import exclusive_lock
from sottovoce.training import DEFAULT_PRESET, Participation, plan_open_ended, plan_training

# Lock that `up` holds while it runs in its folder.
LOCK_FILE = "up.lock"
# Defaults of `up` that differ from those of `server init`.
UP_DEFAULTS = {"epoch_seconds": 60, "min_clients": 100}


@add_training_options(only=["epochs"], visible=[])
@add_settings_options(
    "service",
    {name: SERVICE_SETTINGS[name] for name in UP_DEFAULTS},
    defaults={name: str(value) for name, value in UP_DEFAULTS.items()},
)
def up(
    folder: Annotated[
        Path, typer.Argument(help="Folder for all files; created at the first start.")
    ] = Path("sottovoce-up"),
    *,
    data: Annotated[
        str | None,
        make_option("Data set whose items become the catalogue: a name or a path.", SYNTHETIC),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(help=f"{CATALOGUE_HELP} Instead of --data."),
    ] = None,
    columns: CatalogueColumns = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    people: Annotated[
        int | None, make_people_option("number of people of the data set, or --min-clients")
    ] = None,
    trial: Annotated[
        bool,
        typer.Option(
            "--trial",
            help=f"Make a trial for one person: {COMPANIONS_PER_EPOCH} invented people report with "
            f"you in every epoch of {TRIAL_DEFAULTS['epoch_seconds']} seconds. Devices tell people "
            "that this is a trial.",
        ),
    ] = False,
    accounts: Annotated[
        bool,
        typer.Option(
            "--accounts",
            help="Only people with an account can report, with one batch for each account in an "
            "epoch. Also run a toy shop in which any name can log in; its address is printed.",
        ),
    ] = False,
    service: dict[str, Any],
    port: Annotated[
        int | None,
        make_option(
            "Port of the proxy, for clients and browsers.", f"{DEFAULT_PORT}", min=1, max=65_535
        ),
    ] = None,
    origin: OriginOption = None,
    learn: Annotated[Learn | None, make_learn_option("names with a local budget")] = None,
    start: StartFile = None,
    no_reports: NoReportsOption = False,
    preset: PresetOption = DEFAULT_PRESET,
    training: dict[str, Any],
) -> None:
    """Run a server and a proxy on this machine until Ctrl-C.

    The first start writes two settings files from the options: FOLDER/server/server.toml and
    FOLDER/proxy/proxy.toml. Later starts take no options and read these files, which you may edit.

    \b
    Examples:
      sottovoce up
      sottovoce up here --data ml-latest-small --budget 50 --min-clients 600
      sottovoce up here --catalogue shop.csv --columns item=sku,title=name,kind=category
      sottovoce up try --trial --catalogue shop.csv --columns item=sku,title=name,kind=category
      sottovoce up try --trial --catalogue products_export.csv --origin https://shop.example
      sottovoce up here --catalogue catalogue.json --budget 10 --start start.safetensors
    """
    stop = StopSignal()
    sources = (data, catalogue, columns, budget, central_budget, people, trial, accounts, learn)
    has_options = (
        any((training, service, *sources, start, no_reports, port, origin))
        or preset != DEFAULT_PRESET
    )
    # Options apply only to the first start. Later starts read the settings files.
    is_first = not is_set_up(folder)
    if is_first:
        if data is not None and catalogue is not None:
            raise SettingsError("give --data or --catalogue, not both")
        if catalogue is None and columns is not None:
            raise SettingsError("--columns needs --catalogue FILE, whose columns it names")
        if trial and accounts:
            raise SettingsError(
                "invented companions have no accounts: leave --accounts or --trial out"
            )
        if trial and (budget or central_budget or people or no_reports):
            raise SettingsError(
                "--trial makes its own plan, in which you take part in every epoch: leave out "
                "--budget, --central-budget, --people and --no-reports, or --trial"
            )
        for address in origin or []:
            check_origin(address)
        Listen(LOCAL_HOST, port or DEFAULT_PORT).check_free("with --port")
        with output.messages.status("making keys, catalogue and settings"):
            if catalogue is not None:
                source, interactions = None, None
                items = read_catalogue_file(catalogue, columns)
            else:
                source = data or SYNTHETIC
                interactions = load(source)
                items = Catalogue.from_items(list_catalogue_items(interactions))
            defaults = TRIAL_DEFAULTS if trial else UP_DEFAULTS
            default_people = {**defaults, **service}["min_clients"]
            if trial:
                # The companions, and the person who tries the service.
                default_people = COMPANIONS_PER_EPOCH + 1
            elif interactions is not None:
                default_people = interactions.n_users
            plan = plan_training if training else plan_open_ended
            if trial:
                # One person takes part in every epoch, to see what reports do.
                training = {**TRIAL_COST, **training}
            raw, public = (None, None) if start is None else read_start(start)
            settings, collects = plan_service(
                plan,
                items,
                public,
                default_people=default_people,
                people=people,
                budget=budget,
                central_budget=central_budget,
                learn=learn,
                training=training,
                no_reports=no_reports,
                preset=preset,
                history=None if interactions is None else interactions.typical_length,
            )
            if settings.dummies:  # dummies hide people without a crowd
                defaults = {**defaults, "min_clients": 1}
            Sandbox(
                items,
                settings,
                **{**defaults, **service},
                trial=trial,
                accounts=accounts,
                port=port or DEFAULT_PORT,
                data=source,
                people=interactions,
                origins=tuple(origin or ()),
                start=raw,
                collect_reports=collects,
            ).set_up(folder)
        if collects:
            output.print_note(f"Planned: {settings.reporting}.")
    with exclusive_lock(folder / LOCK_FILE, "is running already; stop that `sottovoce up` first"):
        if has_options and not is_first:
            raise SettingsError(
                f"{folder} is set up already: run it again without options, edit its settings, or "
                "name a new folder"
            )
        system = LiveSystem.read(folder)
        # The settings may have been edited since the last start: update the page's promise.
        write_statement(folder)
        if system.shop:
            write_shop(folder, system)
        _run_up(folder, system, stop)


def _run_up(folder: Path, system: LiveSystem, stop: StopSignal) -> None:
    for address in (system.server, system.proxy):
        Listen(LOCAL_HOST, int(address.rpartition(":")[2])).check_free()
    with run_system(folder, system, stop) as children:
        if not stop():
            _print_addresses(folder, system)
            if system.trial:
                start_companions(system.proxy, system.key)
        watch_children(children, stop)
    output.print_note("Stopped.")


def _print_addresses(folder: Path, system: LiveSystem) -> None:
    key, limit = system.key.hex(), f"{system.limit:g}"
    # A catalogue from a file has no histories of people.
    histories = "" if system.data else " --data HISTORIES.csv"
    for line in (
        f"Address of the proxy, for clients and browsers: {system.proxy}",
        f"Address of the server, for the proxy: {system.server}",
        f"Verification key: {key}",
        f"{ONE_OPERATOR_NOTICE} (docs/parties.md).",
        "Try next, in another terminal:",
        f"  sottovoce client init --proxy {system.proxy} --key {key} --limit {limit}",
        f"  sottovoce swarm --up {folder} --clients {system.swarm_size}{histories}"
        if system.collects_reports
        else "Nobody is asked for reports: lists come from the model as it is.",
        *_describe_embedding(folder, system, limit),
    ):
        typer.echo(line)
    if system.collects_reports:
        have = "has" if system.min_clients == 1 else "have"
        crowd = output.count_people(system.min_clients)
        typer.echo(f"An epoch waits until {crowd} {have} reported.")
    if system.shop:
        typer.echo(f"A toy shop, in which any name can log in: {system.shop}")
    if system.trial:
        typer.echo(f"{TRIAL_SENTENCE} {COMPANIONS_PER_EPOCH} of them report in every epoch.")
    typer.echo("Ctrl-C stops everything.")


def _describe_embedding(folder: Path, system: LiveSystem, limit: str) -> Iterator[str]:
    """Yield the markup that pages of the sites in `--origin` need; nothing without sites."""
    # Leave out the toy shop, which has its own page.
    sites = " or ".join(origin for origin in system.origins if origin != system.shop)
    if sites and system.shop:
        yield f"Copy the tags of {folder / 'server' / PAGE_FILE} into a page of {sites}."
    elif sites:
        yield f"Put these tags into a page of {sites} (examples/shop.html shows a whole page):"
        yield f"  {format_script_tag(system.proxy)}"
        key = system.key.hex()
        yield (
            f'  <sottovoce-consent proxy="{system.proxy}" service-key="{key}" '
            f'limit="{limit}"></sottovoce-consent>'
        )
        yield "  <sottovoce-list></sottovoce-list>"


def demo(
    *,
    people: Annotated[
        int, typer.Option(min=20, help="Number of new invented people who report in each epoch.")
    ] = PEOPLE_PER_EPOCH,
    films: Annotated[
        int, typer.Option(min=30, help="Number of real films in the catalogue.", hidden=True)
    ] = DEFAULT_FILMS,
    epoch_seconds: Annotated[
        int, typer.Option(min=1, help="Length of an epoch in seconds.", hidden=True)
    ] = EPOCH_SECONDS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the invented people.", hidden=True)] = 0,
    port: Annotated[
        int | None,
        make_option(
            "Port of the page.", f"{DEFAULT_PORT}, or the next free one", min=1, max=65_535
        ),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open the page in a browser if there is a screen."
        ),
    ] = True,
) -> None:
    """Run a complete system on this machine, with invented people and a page for you.

    Runs a server, a proxy and invented people who report to it, until Ctrl-C. Thousands of new
    people come in every epoch, and each of them sends one report and no more. On the page you can
    take part yourself: your browser recommends films and shows everything that it sends. On a busy
    machine, fewer people report in time.

    \b
    Examples:
      sottovoce demo
      sottovoce demo --people 2000 --no-browser
    """
    stop = StopSignal()
    if port is not None and not is_port_free(port):
        raise SettingsError(f"port {port} is taken: name another one, or leave --port out")
    with temporary_folder("demo") as folder:
        plan = DemoPlan(people, films, epoch_seconds, seed)
        plan.set_up(folder, port or find_free_port(DEFAULT_PORT))
        if not stop():
            _run_demo(folder, plan, stop, browser=browser and can_open(os.environ, sys.platform))
    output.print_note("Stopped.")


def can_open(environment: Mapping[str, str], platform: str) -> bool:
    """Return whether the user can see a browser window.

    >>> can_open({"DISPLAY": ":0", "SSH_CONNECTION": "here there"}, "linux")
    False
    """
    if not sys.stdout.isatty() or "SSH_CONNECTION" in environment:
        return False
    return platform in ("darwin", "win32") or bool(
        environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    )


def _run_demo(folder: Path, plan: DemoPlan, stop: StopSignal, *, browser: bool) -> None:
    typer.echo("Starting a server and a proxy ...")
    system = LiveSystem.read(folder)
    panel = Panel.decode((folder / "proxy" / PANEL_FILE).read_bytes())
    with ExitStack() as stack:
        # Start the people's processes first: they also take a while, and then wait for the proxy.
        reporters = stack.enter_context(Reporters(system.proxy, system.key, plan))
        children = stack.enter_context(run_system(folder, system, stop, quiet=True))
        # Stop the people before the services: otherwise their processes would print errors.
        stack.callback(reporters.terminate)
        if stop():
            return
        _print_demo(system.proxy, plan)
        if browser:
            webbrowser.open(system.proxy)
        http = stack.enter_context(httpx.Client(trust_env=False))
        reader = PublicReader(HttpProxy(http, system.proxy), system.key)
        # Call these at every poll, so that a failed process is noticed at once.
        checks = [*(child.check for child in children), reporters.check]
        for point in follow_curve(reader, panel, checks, stop):
            _print_epoch(point)


def _print_demo(address: str, plan: DemoPlan) -> None:
    training = plan.training
    terms = Terms.from_settings(
        bytes(TRAINING_ID_BYTES), training, Participation(min_clients=1), plan.films
    )
    central = format_epsilon(terms.promise().dummies_only, 2)
    typer.echo(f"The page: {address}")
    typer.echo(
        f"In each epoch of {plan.epoch_seconds} seconds, up to {plan.people:,} new invented people "
        f"report: {20 * plan.people:,} in 20 epochs. The films are real."
    )
    typer.echo(
        f"Privacy: you send at most {training.turns} reports of epsilon {training.epsilon:g}, each "
        f"invented person one. The proxy adds {training.dummies:,} random reports in every epoch. "
        "A server that does not work together with the proxy learns at most epsilon "
        f"{central}. {ONE_OPERATOR_NOTICE}."
    )
    typer.echo(
        f"{output.describe_start(plan.start.provenance)} The invented people have tastes like "
        "those in this data."
    )
    typer.echo(
        "Below, HR@10 is the share of invented test people whose left-out film is among the ten "
        "best of a hundred: with the model (in the first epoch, the public data alone), with "
        "genres alone, and with popularity and genres."
    )
    typer.echo("Ctrl-C stops everything.")


def _print_epoch(point: CurvePoint) -> None:
    popularity = "" if point.popularity is None else f", {point.popularity:.3f} popularity"
    typer.echo(
        f"epoch {point.epoch:>2}  HR@10 {point.quality:.3f} with the model, "
        f"{point.tags_only:.3f} genres alone{popularity};  "
        f"{point.people:,} people reported in the previous epoch"
    )
