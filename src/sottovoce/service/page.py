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
# Characters of a statement or a notice. This many fill several screens of a phone.
MAX_TEXT_LENGTH = 8_000
_PLACEHOLDER = re.compile(rb"\{\{(\w+)\}\}")

# The page may use only files of its own origin. Even if an attacker smuggled a script into a title,
# the script would not run, and could send nothing to another origin.
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
# Permissions that the page never needs.
_PERMISSIONS_POLICY = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
    "fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), local-fonts=(), "
    "magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), "
    "publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"
)
# Headers of every file of the page, even of scripts: a worker obeys the headers of its script.
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
    """Settings of the page for browsers."""

    serve: bool = False
    """Whether the page is served. Browsers need TLS for it, except on localhost."""
    statement: str = ""
    """Plain text about privacy on the page; `sottovoce privacy` writes such a text."""
    notice: str = ""
    """Plain text that visitors should read first, such as that this is a demo."""
    demo: bool = False
    """Whether this is a demo on the visitor's own machine, whose keys are new with every start."""
    panel: Path | None = None
    """File of public test people, with which the page draws a learning curve; None: no curve."""

    def __post_init__(self) -> None:
        check(self)
        for name, text in (("statement", self.statement), ("notice", self.notice)):
            if len(text) > MAX_TEXT_LENGTH:
                raise SettingsError(
                    f"{name} must have at most {MAX_TEXT_LENGTH} characters, but has {len(text)}",
                    setting=name,
                )


def build_page_routes(key: bytes, page: Page, assets: Traversable | None = None) -> list[Route]:
    """Build the routes of the page.

    All files are read and compressed now, so a later change of a file has no effect.

    Args:
        key: The server's verification key, which browsers trust from their first visit on.
        page: The settings of the page.
        assets: The folder of the built files; the packaged one if None.
    """
    contents = read_assets(get_assets_folder() if assets is None else assets)
    # The widget is next to the page's files but does not belong to it.
    contents.pop(WIDGET_SCRIPT, None)
    texts = {"statement": page.statement, "notice": page.notice}
    values = {"key": key.hex(), **texts, "demo": "demo" if page.demo else ""}
    contents[INDEX_FILE] = fill_template(contents[INDEX_FILE], values)
    if page.panel is not None:
        contents[PANEL_FILE] = read_panel(page.panel)[1]
    paths = {INDEX_FILE: "/", SERVICE_WORKER_FILE: f"/{SERVICE_WORKER_FILE}"}
    return [
        File.from_asset(name, content).as_route(paths.get(name, f"/page/{name}"), PAGE_HEADERS)
        for name, content in contents.items()
    ]


def fill_template(template: bytes, values: Mapping[str, str]) -> bytes:
    """Replace every `{{name}}` by its value, which is escaped for HTML.

    >>> fill_template(b'<meta content="{{a}}">', {"a": '"><script>'})
    b'<meta content="&quot;&gt;&lt;script&gt;">'
    """
    names = sorted(name.decode() for name in _PLACEHOLDER.findall(template))
    if names != sorted(values):
        raise SettingsError(
            f"{INDEX_FILE} must have exactly the placeholders {sorted(values)}, but has {names}"
        )
    return _PLACEHOLDER.sub(lambda match: html.escape(values[match[1].decode()]).encode(), template)


def read_panel(path: Path) -> tuple[Panel, bytes]:
    """Read and check a panel; return it with the bytes of its file.

    An invalid panel would otherwise fail only in browsers.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"page.panel: {error}") from error
    try:
        return Panel.decode(content), content
    except ProtocolError as error:
        raise SettingsError(f"page.panel: {path}: {error}") from error
