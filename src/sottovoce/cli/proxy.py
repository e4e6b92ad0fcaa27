"""`sottovoce proxy`: take sealed reports, hold them, shuffle them, forward them."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import Annotated

import typer

from sottovoce.cli.options import group
from sottovoce.errors import SettingsError
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, build_app, connect
from sottovoce.proxy.template import settings_file
from sottovoce.service import build_watch, read_settings
from sottovoce.service import run as serve

app = group("proxy", "Take sealed reports, hold them, shuffle them and forward them.")

SETTINGS, SECRET, DATA = "proxy.toml", "server.secret", "data"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the settings; created if missing.")],
    *,
    server: Annotated[str, typer.Option(help="Address of the server.")],
    key: Annotated[
        str, typer.Option(help="Verification key of the server: 64 hexadecimal digits.")
    ],
    secret_file: Annotated[
        Path, typer.Option(help="File with this proxy's secret; copied into the folder.")
    ],
) -> None:
    """Write the settings of a new proxy, with every field explained. Overwrites nothing.

    The server's operator gives you its address, key and secret, and should be somebody else.

    Example: sottovoce proxy init ./proxy --server https://server.example --key 3b6a...
    --secret-file first.secret
    """
    ProxySettings(folder / DATA, server, secret_file, key)  # refuses what cannot work
    text = settings_file(folder=DATA, server=server, secret_file=SECRET, verification_key=key)
    for name in (SETTINGS, SECRET):
        if (folder / name).exists():
            raise SettingsError(f"{folder / name} exists already; nothing is overwritten")
    try:
        secret = secret_file.read_bytes()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(folder / SECRET, secret)
        _write_new(folder / SETTINGS, text.encode())
    except OSError as error:
        raise SettingsError(f"the proxy cannot be set up: {error}") from error
    typer.echo(f"Settings written to {folder / SETTINGS}. Review them, then run:")
    typer.echo(f"sottovoce proxy run --config {folder / SETTINGS}")


@app.command()
def run(
    config: Annotated[Path, typer.Option(help="Settings file, from `sottovoce proxy init`.")],
) -> None:
    """Run a proxy until SIGTERM or Ctrl-C. Every batch that it has acknowledged is on disk.

    Example: sottovoce proxy run --config ./proxy/proxy.toml
    """
    settings = read_settings(config, ProxySettings)
    http, upstream = connect(settings)
    with http, ProxyStore.open(settings.folder) as store:
        proxy = Proxy(store, upstream, settings)
        app, watch = build_app(proxy, settings), build_watch(proxy.check, proxy.metrics.text)
        serve(app, settings.listen, watch, settings.watch)


def _write_new(path: Path, content: bytes) -> None:
    """Readable by its owner alone from the first moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
