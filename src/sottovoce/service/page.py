"""The page: its settings, and its routes `/`, `/page/NAME`, `/sw.js`, `/page/panel.json`."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from starlette.routing import Route

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol.panel import Panel
from sottovoce.service.files import (
    INDEX_FILE,
    SERVICE_WORKER_FILE,
    File,
    get_assets_folder,
    read_assets,
)
from sottovoce.service.widget import WIDGET_SCRIPT
from sottovoce.settings import check

PANEL_FILE = "panel.json"
# Characters of a statement or notice: several screens of a phone.
MAX_TEXT_LENGTH = 8_000
_PLACEHOLDER = re.compile(rb"\{\{(\w+)\}\}")

# The page may use nothing but its own files, from its own origin. Even if an attacker smuggled a
# script into a title, it would not run, and it could send nothing anywhere.
_CONTENT_POLICY = {
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
# Permissions that a page could ask for, and this one never does.
_PERMISSIONS_POLICY = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
    "fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), local-fonts=(), "
    "magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), "
    "publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"
)
# Headers of every file of the page, also of scripts: a worker obeys those that it came with.
PAGE_HEADERS = {
    "Content-Security-Policy": "; ".join(
        f"{key} {value}" for key, value in _CONTENT_POLICY.items()
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": _PERMISSIONS_POLICY,
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Page:
    """An operator's settings of the page."""

    serve: bool = False
    """Whether there is a page. Browsers need TLS for it, or localhost."""
    statement: str = ""
    """What the page says about privacy, in plain text; `sottovoce privacy` writes one."""
    notice: str = ""
    """What visitors should know about this service, such as that it is a demo; in plain text."""
    panel: Path | None = None
    """Public test people, on whom the page measures every epoch's model; None: no curve."""

    def __post_init__(self) -> None:
        check(self)
        for name, text in (("statement", self.statement), ("notice", self.notice)):
            if len(text) > MAX_TEXT_LENGTH:
                raise SettingsError(
                    f"{name} has {len(text)} characters, at most {MAX_TEXT_LENGTH} are shown",
                    setting=name,
                )


def build_page_routes(key: bytes, page: Page, assets: Traversable | None = None) -> list[Route]:
    """Build the page's routes; visitors pin `key`, the server's, at their first use.

    Everything is read and compressed now, so that a later change of a file changes nothing.
    """
    contents = read_assets(get_assets_folder() if assets is None else assets)
    # The widget is next to the page's files but does not belong to it.
    contents.pop(WIDGET_SCRIPT, None)
    values = {"key": key.hex(), "statement": page.statement, "notice": page.notice}
    contents[INDEX_FILE] = fill_template(contents[INDEX_FILE], values)
    if page.panel is not None:
        contents[PANEL_FILE] = read_panel(page.panel)[1]
    paths = {INDEX_FILE: "/", SERVICE_WORKER_FILE: f"/{SERVICE_WORKER_FILE}"}
    return [
        File.from_asset(name, content).as_route(paths.get(name, f"/page/{name}"), PAGE_HEADERS)
        for name, content in contents.items()
    ]


def fill_template(template: bytes, values: Mapping[str, str]) -> bytes:
    """Replace every `{{name}}` by its value, in one pass and as text that is never markup.

    >>> fill_template(b'<meta content="{{a}}">', {"a": '"><script>'})
    b'<meta content="&quot;&gt;&lt;script&gt;">'
    """
    names = sorted(name.decode() for name in _PLACEHOLDER.findall(template))
    if names != sorted(values):
        raise SettingsError(
            f"{INDEX_FILE} must have exactly the places {sorted(values)}, but has {names}"
        )
    return _PLACEHOLDER.sub(lambda match: html.escape(values[match[1].decode()]).encode(), template)


def read_panel(path: Path) -> tuple[Panel, bytes]:
    """Read the panel now, because an invalid one would fail in every browser."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"page.panel: {error}") from error
    try:
        return Panel.decode(content), content
    except ProtocolError as error:
        raise SettingsError(f"page.panel: {path}: {error}") from error
