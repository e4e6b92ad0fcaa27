"""`sottovoce proxy`: set up a proxy, run it and show its state."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.characters import ensure_full_stop
from sottovoce.cli import output
from sottovoce.cli.options import (
    HostOption,
    JsonFile,
    OriginOption,
    add_settings_options,
    make_config_option,
    make_group,
)
from sottovoce.protocol import SignedManifest
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Rate, build_app, connect
from sottovoce.proxy.setup import (
    DATA_FOLDER,
    DEFAULT_PORT,
    DEFAULT_WATCH_PORT,
    SETTINGS_FILE,
    make_proxy,
)
from sottovoce.proxy.status import ProxyStatus, probe_server
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.logs import OwnCommands, start_logging
from sottovoce.service.run import run_service
from sottovoce.service.toml import read_settings
from sottovoce.service.watch import ProcessState, build_watch
from sottovoce.service.widget import ACCOUNTS_SCRIPT, format_script_tag
from sottovoce.settings import get_settings

app = make_group(
    "proxy",
    "Run a proxy, which collects sealed reports, shuffles them and forwards them.",
    "proxy run --config my-proxy/proxy.toml",
)

ConfigOption = Annotated[Path, make_config_option("proxy")]


@app.command()
@add_settings_options("crowd", {"min_clients": get_settings(ProxySettings)["min_clients"]})
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the settings; created if missing.")],
    *,
    server: Annotated[
        str, typer.Option(help="Address of the server, such as https://server.example.")
    ],
    key: Annotated[
        str, typer.Option(help="Verification key of the server: 64 hexadecimal digits.")
    ],
    secret_file: Annotated[
        Path,
        typer.Option(
            help="File with this proxy's secret, from the server's operator; it is copied into the "
            "folder."
        ),
    ],
    crowd: dict[str, Any],
    origin: OriginOption = None,
    relay: Annotated[
        bool,
        typer.Option(
            "--relay",
            help="Do not limit requests by address, because all come from one: that of a relay or "
            "of a program that provides TLS.",
        ),
    ] = False,
    host: HostOption = Listen.host,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on.")] = DEFAULT_PORT,
    watch_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port for health and metrics.")
    ] = DEFAULT_WATCH_PORT,
) -> None:
    """Write the settings file of a new proxy, which explains every setting. Overwrites nothing.

    The operator of the server, who should be somebody else, gives you its address, its key and your
    secret. An epoch waits until --min-clients people have reported, or more if the terms ask for
    more. The command then checks whether the server answers; the settings are written in any case.

    \b
    Example:
      sottovoce proxy init my-proxy --server https://server.example --key 3b6a27bc...29 \\
        --secret-file first.secret --origin https://shop.example
    """
    min_clients = crowd.get("min_clients", ProxySettings.min_clients)
    settings = ProxySettings(
        *(folder / DATA_FOLDER, server, secret_file, key, min_clients),
        origins=tuple(origin or ()),
        rate=Rate.for_crowd(min_clients),
        listen=Listen(host, port),
        watch=Watch(port=watch_port),
    )
    http, upstream = connect(settings)
    with http:
        make_proxy(
            folder,
            secret_file,
            server=server,
            verification_key=key,
            min_clients=min_clients,
            host=host,
            relay=relay,
            origins=origin or (),
            port=port,
            watch_port=watch_port,
        )
        # Ask after the settings are written: the server need not run yet.
        probe = probe_server(upstream, settings.key, None, time.time())
    config = f"--config {folder / SETTINGS_FILE}"
    typer.echo(f"Settings written to {folder / SETTINGS_FILE}. Check them, then run:")
    typer.echo(f"sottovoce proxy run {config}")
    for problem in probe.problems:
        typer.echo(f"Not ready: {problem}")
    if not probe.problems:
        typer.echo("The server answers, signs with this key and accepts the secret.")
    else:
        typer.echo(f"When the proxy runs, check again with `sottovoce proxy status {config}`.")


@app.command()
def create_database(config: ConfigOption) -> None:
    """Create an empty database for a proxy that has lost its own; a new proxy gets one by `init`.

    Overwrites nothing. Reports in the lost database are lost: if you still have its files, move
    them back instead.

    \b
    Example:
      sottovoce proxy create-database --config my-proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    ProxyStore.create(settings.folder)
    typer.echo(f"Empty database created in {settings.folder}.")


@app.command()
def run(config: ConfigOption) -> None:
    """Run a proxy until SIGTERM or Ctrl-C. Batches that it has acknowledged are kept on disk.

    \b
    Example:
      sottovoce proxy run --config ./proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    commands = OwnCommands("proxy", config)
    last_warning = start_logging(commands, as_json=settings.log_json)
    http, upstream = connect(settings)
    # Opening the store takes its lock, so a second process in this folder fails here.
    with http, ProxyStore.open(settings.folder) as store:
        proxy = Proxy(store, upstream, settings)
        app = build_app(proxy, settings)
        metrics = proxy.metrics
        watch = build_watch(
            proxy.check_ready,
            metrics.render,
            commands,
            proxy.troubles,
            last_warning,
            metrics.list_notes,
        )
        run_service(app, settings.listen, watch, settings.watch, on_rejection=metrics.turned_away)


@app.command()
def status(config: ConfigOption, *, json_file: JsonFile = None) -> None:
    """Show the state of the proxy: epoch, crowd, reports still to be sent, server, disk.

    Reads the proxy's folder, and asks the server and, at the address in [watch], the running proxy.
    Show the output to nobody else: the number of waiting batches would help an attacker. The exit
    code is 0 if all is well, 1 if something needs attention, and 2 if the state cannot be read.

    \b
    Example:
      sottovoce proxy status --config my-proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    http, upstream = connect(settings)
    with http:
        running = ProcessState.fetch(settings.watch, config)
        state = ProxyStatus.read(settings, upstream, time.time(), running)
    lines, commands = describe_status(state, settings), OwnCommands("proxy", config)
    output.print_status(lines, state.to_dict(), json_file, commands)


def describe_status(status: ProxyStatus, settings: ProxySettings) -> Iterator[str]:
    """Yield lines about the state of the proxy, without `status.problems`."""
    if status.signed is None:
        yield "No epoch yet: the proxy waits for the first epoch of the server."
    else:
        yield from _describe_epoch(status, status.signed)
    for epoch in status.unsettled:
        yield (
            f"Not sent yet: {output.pluralize(epoch.reports, 'report')} of epoch "
            f"{epoch.epoch}; the server has {epoch.delivered:,} of "
            f"{output.pluralize(epoch.chunks, 'chunk')}."
        )
    if status.server.epoch is not None:
        yield f"The server answers at {settings.server}, with epoch {status.server.epoch}."
    if isinstance(status.running, ProcessState):
        yield output.describe_process(
            "This proxy", status.running.since, status.running.last, status.now
        )
        yield from map(ensure_full_stop, status.running.notes)
    if settings.origins:
        pages = ", ".join(settings.origins)
        tag = format_script_tag()
        yield f"Tag of the widget for pages of {pages} (PROXY is your public address): {tag}"
        if settings.attester is not None:
            tag = format_script_tag(name=ACCOUNTS_SCRIPT)
            yield f"Tag of the script that fetches tokens for their accounts: {tag}"
    if not status.panel_fits:
        yield (
            "The panel of the page was made for another catalogue than that of this epoch, so "
            "visitors see no learning curve. Make a panel for this catalogue (docs/operators.md)."
        )
    yield (
        f"{status.free_bytes / 1e9:,.1f} GB are free in {settings.folder}; this epoch needs up to "
        f"{status.needed_bytes / 1e6:,.3g} MB more for its crowd."
    )
    yield (
        "Do not back up the proxy: a copy would keep which reports are of the same person, which "
        "mixing is meant to destroy."
    )


def _describe_epoch(status: ProxyStatus, signed: SignedManifest) -> Iterator[str]:
    manifest, now = signed.manifest, status.now
    name = f"Epoch {manifest.epoch} of training {manifest.terms.training.hex()}"
    since = output.format_moment(manifest.opens, now)
    until = output.format_moment(manifest.closes, now)
    if manifest.public_key is None:
        # In the first epoch of a service with accounts, devices only fetch tokens for the second.
        tokens = "nobody has a token for it, " * manifest.terms.accounts
        end = "the training is finished, or the server wants no reports"
        yield f"{name} asks for no reports, since {since}: {tokens}{end}."
        return
    if status.is_over:
        yield f"{name} is over on this proxy, which waits for the server's next epoch."
        return
    if now < manifest.closes:
        yield f"{name} is open since {since}; it closes at {until} at the earliest."
    else:
        ends = output.format_moment(manifest.ends, now)
        yield (
            f"{name} should have closed at {until}, and is open until its crowd is complete. If "
            f"the crowd is too small, it is discarded at {ends}."
        )
    yield (
        f"Waiting batches: {status.n_batches:,}; a crowd is {status.min_crowd:,}"
        f"{', so these are too few yet' * (status.n_batches < status.min_crowd)}. "
        f"Dummies to be mixed in: {manifest.terms.dummies:,}."
    )
    if signed.statements:
        times = output.pluralize(len(signed.statements), "time")
        yield f"The server's signing key has been replaced {times}."
