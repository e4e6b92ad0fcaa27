"""A new server: keys, a secret for each proxy, settings, a catalogue, a database."""

import hashlib
import secrets
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from sottovoce.errors import SettingsError, get_reason
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH
from sottovoce.server.administration import begin_service
from sottovoce.server.keys import Keys
from sottovoce.server.settings import ServerSettings, render_server_toml
from sottovoce.server.store import ServerStore
from sottovoce.storage.files import write_new
from sottovoce.training import Settings

SETTINGS = "server.toml"


def list_catalogue_items(data: Any) -> list[Item]:
    """Of a data set (`sottovoce.data.Interactions`), as a catalogue has them."""
    return [
        Item(number, title[:MAX_TEXT_LENGTH], tags) for number, title, tags in data.list_items()
    ]


def make_server(
    folder: Path,
    catalogue: Catalogue,
    training: Settings,
    proxies: Iterable[str] = ("proxy",),
    **service: Any,
) -> Keys:
    """All files and the database, or, if one of them is there or something fails, nothing."""
    keys, given = Keys.generate(), {name: secrets.token_urlsafe(32) for name in proxies}
    digests = {name: hashlib.sha256(s.encode()).hexdigest() for name, s in given.items()}
    text = render_server_toml(proxies=digests, training=training, **service)
    contents = {SETTINGS: text.encode(), "catalogue.json": catalogue.raw}
    contents |= {f"{name}.secret": f"{secret}\n".encode() for name, secret in given.items()}
    with ExitStack() as undo:
        try:
            _make_folder(undo, folder)
            for name, content in contents.items():
                write_new(folder / name, content)
                undo.callback((folder / name).unlink, missing_ok=True)
            settings = ServerSettings.read(folder / SETTINGS)
            keys.write(settings.keys)
            undo.callback(settings.keys.unlink)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be written: {get_reason(error)}") from error
        with closing(ServerStore(settings.database)) as store:
            begin_service(store, settings, keys)
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
