"""A new proxy: its settings, and a copy of its secret."""

import os
from pathlib import Path
from typing import Any

from sottovoce.errors import SettingsError, reason
from sottovoce.proxy.settings import settings_file

SETTINGS, SECRET, DATA = "proxy.toml", "server.secret", "data"


def make_proxy(folder: Path, secret_file: Path, **settings: Any) -> None:
    """Write the settings and a copy of the secret, both of them or neither."""
    text = settings_file(folder=DATA, secret_file=SECRET, **settings)
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


def _write_new(path: Path, content: bytes) -> None:
    """Readable by its owner alone from the first moment."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
