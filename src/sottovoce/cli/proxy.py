"""`sottovoce proxy`: take sealed reports, hold them, shuffle them, forward them."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.cli import output, proxy_status
from sottovoce.cli.options import group, optional
from sottovoce.cli.proxy_options import ConfigOption  # noqa: TC001 - typer reads the annotations
from sottovoce.errors import SettingsError, TlsError, UnavailableError, UnknownProxyError, reason
from sottovoce.protocol import fetch_manifest
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, build_app, connect
from sottovoce.proxy.template import PORT, WATCH_PORT, settings_file
from sottovoce.service import Listen, Watch, build_watch, read_settings
from sottovoce.service import run as serve

if TYPE_CHECKING:
    from collections.abc import Iterator

app = group(
    "proxy",
    "Take sealed reports, hold them, shuffle them and forward them.",
    "proxy run --config my-proxy/proxy.toml",
)

app.command()(proxy_status.status)

SETTINGS, SECRET, DATA = "proxy.toml", "server.secret", "data"
USUAL = ProxySettings.least_clients


@app.command()
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
        Path, typer.Option(help="File with this proxy's secret; copied into the folder.")
    ],
    least_clients: Annotated[
        int | None,
        optional(
            "People who must have reported before an epoch ends. The server's terms name a number "
            "too; the larger one counts.",
            f"{USUAL}, or more if the terms ask for more",
            min=1,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on.")] = PORT,
    watch_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port for health and metrics.")
    ] = WATCH_PORT,
) -> None:
    """Write the settings of a new proxy, with every field explained. Overwrites nothing.

    The operator of the server, who should be somebody else, gives you its address, key and secret.
    If the server answers, the crowd that its terms ask for is shown.

    \b
    Example:
      sottovoce proxy init my-proxy --server https://server.example --key 3b6a27bc...29 \\
        --secret-file first.secret
    """
    listen, watch = Listen(port=port), Watch(port=watch_port)
    wanted = ProxySettings(folder / DATA, server, secret_file, key, listen=listen, watch=watch)
    asked, problem = _asked(wanted)
    chosen = least_clients or max(USUAL, asked or 0)
    text = settings_file(
        folder=DATA,
        server=server,
        secret_file=SECRET,
        verification_key=key,
        least_clients=chosen,
        port=port,
        watch_port=watch_port,
    )
    _write(folder, text, secret_file)
    for line in _crowd_in_words(chosen, asked, problem):
        typer.echo(line)
    typer.echo(f"Settings written to {folder / SETTINGS}. Review them, then run:")
    typer.echo(f"sottovoce proxy run --config {folder / SETTINGS}")


@app.command()
def run(config: ConfigOption) -> None:
    """Run a proxy until SIGTERM or Ctrl-C. Every batch that it has acknowledged is on disk.

    \b
    Example:
      sottovoce proxy run --config ./proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    http, upstream = connect(settings)
    with http, ProxyStore.open(settings.folder) as store:
        proxy = Proxy(store, upstream, settings)
        app, watch = build_app(proxy, settings), build_watch(proxy.check, proxy.metrics.text)
        turned_away = proxy.metrics.turned_away
        serve(app, settings.listen, watch, settings.watch, turned_away=turned_away)


def make(folder: Path, *, server: str, key: str, secret_file: Path) -> None:
    """Write what `init` writes, without a word to the server, and refuse what cannot work."""
    ProxySettings(folder / DATA, server, secret_file, key)
    text = settings_file(folder=DATA, server=server, secret_file=SECRET, verification_key=key)
    _write(folder, text, secret_file)


def _write(folder: Path, text: str, secret_file: Path) -> None:
    for name in (SETTINGS, SECRET):
        if (folder / name).exists():
            raise SettingsError(f"{folder / name} exists already; nothing is overwritten")
    try:
        secret = secret_file.read_bytes()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(folder / SECRET, secret)
        _write_new(folder / SETTINGS, text.encode())
    except OSError as error:
        raise SettingsError(f"the proxy cannot be set up: {reason(error)}") from error


def _asked(settings: ProxySettings) -> tuple[int | None, str | None]:
    """The crowd that the server's terms name, None if it does not answer; and what is wrong."""
    http, upstream = connect(settings)
    crowd = None
    with http:
        try:
            crowd = fetch_manifest(upstream, settings.key, None).manifest.terms.least_clients
            upstream.check_secret()
        except (TlsError, UnknownProxyError) as error:
            return crowd, str(error)
        except UnavailableError:
            pass
    return crowd, None


def _crowd_in_words(chosen: int, asked: int | None, problem: str | None) -> Iterator[str]:
    if problem is not None:
        yield f"Needs attention: {problem}."
    if asked is None:
        why = "The server does not answer yet, so" if problem is None else "So"
        yield (
            f"{why} its terms are not known. An epoch waits for {output.people(chosen)} here, or "
            "for more if the terms ask for more."
        )
        return
    yield (
        f"The terms ask for a crowd of {asked:,}, these settings for {chosen:,}: an epoch waits "
        f"for {output.people(max(chosen, asked))}."
    )
    if chosen > asked:
        yield f"To wait for as few as the terms allow, set least_clients = {asked}."


def _write_new(path: Path, content: bytes) -> None:
    """Readable by its owner alone from the first moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
