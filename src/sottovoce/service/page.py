"""The page's routes: `/`, `/page/NAME`, `/sw.js`, `/page/panel.json`."""

import hashlib
import html
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol.panel import Panel
from sottovoce.service.http import File, compress
from sottovoce.settings import check

# The built files: read once, filled in, compressed once.

INDEX, SERVICE_WORKER = "index.html", "sw.js"
WIDGET = "widget.js"
"""Lies next to the page and is no part of it: see `widget`."""
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
        raise SettingsError(f"{name}: the page's files must be {', '.join(_TYPES)}")
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


# What a browser is told about the page: nothing but its own files, from its own origin.
#
# Even if somebody smuggled a line of script into a title, it would not run, and it could tell
# nobody.

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "worker-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "sottovoce",
}

_UNUSED = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
    "fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), local-fonts=(), "
    "magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), "
    "publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"
)
"""What a page could ask for, and this one never does."""

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": _UNUSED,
    "Cache-Control": "no-cache",
}
"""With every file of the page; scripts too, since a worker obeys those that it came with."""


Handler = Callable[[Request], Coroutine[Any, Any, Response]]

PANEL = "panel.json"


MAX_STATEMENT = 8_000
"""Characters: several screens of a phone."""


@dataclass(frozen=True)
class Page:
    """What an operator decides about it."""

    serve: bool = False
    """Whether there is one. Browsers need TLS for it, or localhost."""
    statement: str = ""
    """What the page says about privacy, in plain text; `sottovoce privacy` writes one."""
    notice: str = ""
    """What visitors should know about this service, such as that it is a demo; in plain text."""
    panel: Path | None = None
    """Public test people, on whom the page measures every epoch's model; none: no curve."""

    def __post_init__(self) -> None:
        check(self)
        for name, text in (("statement", self.statement), ("notice", self.notice)):
            if len(text) > MAX_STATEMENT:
                raise SettingsError(
                    f"{name} has {len(text)} characters, at most {MAX_STATEMENT} are shown"
                )


def page_routes(key: bytes, page: Page, assets: Traversable | None = None) -> list[Route]:
    """The page pins `key`, the server's, at a visitor's first use.

    Everything is read and compressed now: a file that changes later changes nothing here.
    """
    found = read_assets(in_package() if assets is None else assets)
    found.pop(WIDGET, None)
    places = {
        "key": key.hex(),
        "statement": page.statement,
        "notice": page.notice,
    }
    found[INDEX] = filled(found[INDEX], places)
    if page.panel is not None:
        found[PANEL] = read_panel(page.panel)[1]
    paths = {INDEX: "/", SERVICE_WORKER: f"/{SERVICE_WORKER}"}
    return [
        Route(paths.get(name, f"/page/{name}"), _answers(as_file(name, content)))
        for name, content in found.items()
    ]


def _answers(file: File) -> Handler:
    async def answer(request: Request) -> Response:
        return file.respond(request, HEADERS)

    return answer


def read_panel(path: Path) -> tuple[Panel, bytes]:
    """A file that is no panel is the operator's mistake: better now than in every browser."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"page.panel: {error}") from error
    try:
        return Panel.decode(content), content
    except ProtocolError as error:
        raise SettingsError(f"page.panel: {path}: {error}") from error
