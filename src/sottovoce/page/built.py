"""The built files: read once, filled in, compressed once."""

from __future__ import annotations

import hashlib
import html
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.service.files import File, compress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

INDEX, SERVICE_WORKER = "index.html", "sw.js"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
_PLACE = re.compile(rb"\{\{(\w+)\}\}")


def in_package() -> Traversable:
    """Where the package has them."""
    return files(__package__) / "assets"


def read_assets(folder: Traversable) -> dict[str, bytes]:
    """Every file by its name; without the two that make it a page it is no page."""
    found = {}
    if folder.is_dir():
        found = {
            each.name: each.read_bytes()
            for each in folder.iterdir()
            if each.is_file() and not each.name.startswith(".")
        }
    if not {INDEX, SERVICE_WORKER} <= set(found):
        raise SettingsError(
            f"{folder}: the page is not built. In a checkout run: make web; "
            "or leave page.serve at false"
        )
    return found


def as_file(name: str, content: bytes) -> File:
    kind = name.rpartition(".")[2]
    if kind not in _TYPES:
        raise SettingsError(f"{name}: the page knows {', '.join(_TYPES)}; this is none of them")
    tag = hashlib.sha256(content).hexdigest()
    return File(content, tag, _TYPES[kind], compress(content))


def filled(text: bytes, values: Mapping[str, str]) -> bytes:
    """Every `{{name}}` replaced by its value, in one pass, as text that is never markup.

    >>> filled(b'<meta content="{{a}}">', {"a": '"><script>'})
    b'<meta content="&quot;&gt;&lt;script&gt;">'
    """
    places = sorted(name.decode() for name in _PLACE.findall(text))
    if places != sorted(values):
        raise SettingsError(
            f"{INDEX} must have exactly the places {sorted(values)}, but has {places}"
        )
    return _PLACE.sub(lambda found: html.escape(values[found[1].decode()]).encode(), text)
