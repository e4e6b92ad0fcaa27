"""The page: its headers, escaping, missing files, and the page in the package."""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.applications import Starlette

from sottovoce.errors import SettingsError
from sottovoce.protocol.panel import Panel, Panellist
from sottovoce.service.files import get_assets_folder, read_assets
from sottovoce.service.page import Page, build_page_routes
from tests.asgi import Answer, ask


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.html", None),
        ("sw.js", None),
        ("tracker.wasm", b""),
        ("index.html", b"{{key}}"),
        ("index.html", b"{{key}}{{key}}{{statement}}"),
        ("index.html", b"{{key}}{{other}}"),
    ],
)
def test_missing_or_changed_page_files_are_refused(
    assets: Path, name: str, content: bytes | None
) -> None:
    if content is None:
        (assets / name).unlink()
    else:
        (assets / name).write_bytes(content)
    for folder in (assets, assets / "nowhere"):
        with pytest.raises(SettingsError):
            build_page_routes(KEY, Page(), folder)


# The page in the package.


@pytest.fixture(scope="module")
def app() -> Starlette:
    return Starlette(routes=build_page_routes(KEY, Page()))


def fetch_packed(app: Starlette, path: str, encoding: bytes = b"identity") -> Answer:
    answer = asyncio.run(ask(app, "GET", path, headers=[(b"accept-encoding", encoding)]))
    assert answer.status == 200, path
    return answer


def test_index_names_existing_files_only(app: Starlette) -> None:
    # It has no inline script, style or handler, which the policy would stop.
    text = fetch_packed(app, "/").body.decode()
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', text))
    assert {"/page/page.js", "/page/style.css"} <= named
    for path in named:
        assert path.startswith("/page/"), path
        assert fetch_packed(app, path).body
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


KEY = bytes(range(32))

INDEX = (
    b'<meta name="k" content="{{key}}"><meta name="s" content="{{statement}}">'
    b'<meta name="n" content="{{notice}}"><meta name="d" content="{{demo}}">' + b" " * 999
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types sottovoce"
)

ASSETS = {
    "index.html": (INDEX, "text/html; charset=utf-8"),
    "page.js": (b"let a = 1;" * 50, "text/javascript; charset=utf-8"),
    "worker.js": (b"let b = 2;" * 50, "text/javascript; charset=utf-8"),
    "sw.js": (b"let c = 3;" * 50, "text/javascript; charset=utf-8"),
    "style.css": (b"p { margin: 0 }" * 50, "text/css; charset=utf-8"),
    "icon.svg": (b"<svg/>" * 50, "image/svg+xml"),
    "LICENSES.txt": (b"free " * 50, "text/plain; charset=utf-8"),
}

PATHS = {"index.html": "/", "sw.js": "/sw.js"}


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for name, (content, _) in ASSETS.items():
        (folder / name).write_bytes(content)
    (folder / ".hidden.js").write_bytes(b"left over")
    return folder


def get(
    assets: Path | None, path: str, method: str = "GET", *, content: Page | None = None,
    headers: Iterable[tuple[str, str]] = (),
) -> Answer:  # fmt: skip
    app = Starlette(routes=build_page_routes(KEY, content or Page(), assets))
    app.router.redirect_slashes = False
    return asyncio.run(ask(app, method, path, headers=headers))


def fill_expected_page(name: str) -> bytes:
    filled = ASSETS[name][0].replace(b"{{key}}", KEY.hex().encode())
    for place in (b"statement", b"notice", b"demo"):
        filled = filled.replace(b"{{" + place + b"}}", b"")
    return filled


@pytest.mark.parametrize("name", ASSETS)
def test_every_file_with_every_header(assets: Path, name: str) -> None:
    path = PATHS.get(name, f"/page/{name}")
    answer = get(assets, path)
    assert (answer.status, answer.body) == (200, fill_expected_page(name))
    permissions = answer.headers.pop("permissions-policy")
    assert answer.headers == {
        "content-security-policy": POLICY,
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
        "etag": f'"{hashlib.sha256(answer.body).hexdigest()}"',
        "content-length": str(len(answer.body)),
        "content-type": ASSETS[name][1],
        "vary": "Accept-Encoding",
    }
    assert {"camera=()", "geolocation=()", "microphone=()"} <= set(permissions.split(", "))
    assert all(closed.endswith("=()") for closed in permissions.split(", "))
    head = get(assets, path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers == {**answer.headers, "permissions-policy": permissions}


def test_values_in_the_page_are_escaped(assets: Path) -> None:
    # A text that looks like the place of the key is left as it is.
    hostile = '"><script>alert("&\')</script> {{key}} \N{EURO SIGN}'
    content = Page(statement=hostile)
    body = get(assets, "/", content=content).body.decode()
    assert "<script>" not in body
    escaped = (
        "&quot;&gt;&lt;script&gt;alert(&quot;&amp;&#x27;)&lt;/script&gt; {{key}} \N{EURO SIGN}"
    )
    assert f'content="{escaped}"' in body
    assert body.count(KEY.hex()) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/page", "/page/", "/page/index.html", "/page/sw.js", "/page/panel.json",
        "/page/.hidden.js", "/page/other.js", "/page/../proxy.toml", "/page/a/page.js",
        "/index.html", "/sw.js/",
    ],
)  # fmt: skip
def test_404(assets: Path, path: str) -> None:
    assert get(assets, path).status == 404


PANEL = Panel(bytes(32), (Panellist((0,), 1, (2,)),)).encode()


def test_panel_is_read_at_the_start(assets: Path, tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(PANEL)
    routes = build_page_routes(KEY, Page(panel=path), assets)
    path.write_bytes(b"changed")
    answer = asyncio.run(ask(Starlette(routes=routes), "GET", "/page/panel.json"))
    assert (answer.status, answer.body) == (200, PANEL)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("panel", [None, b"[]", b'{"version": 1}', PANEL.replace(b":1", b":2", 1)])
def test_invalid_panel_is_refused(assets: Path, tmp_path: Path, panel: bytes | None) -> None:
    path = tmp_path / "given.json"
    if panel is not None:
        path.write_bytes(panel)
    with pytest.raises(SettingsError, match=r"page\.panel: .*given\.json"):
        build_page_routes(KEY, Page(panel=path), assets)


FIRST_LOAD = ("/", "/page/page.js", "/page/worker.js", "/page/style.css", "/page/icon.svg")

MOST = 150_000
"""Bytes of the first load, compressed, without the model."""


def test_page_names_other_origins_in_licences_only() -> None:
    for name, content in read_assets(get_assets_folder()).items():
        if name == "LICENSES.txt":
            continue
        origins = set(re.findall(rb"https?://[\w-]+\.[\w.-]+", content))
        assert origins <= {b"http://www.w3.org"}, (name, origins)


def test_the_first_load_is_small(app: Starlette) -> None:
    answers = [fetch_packed(app, path, b"gzip") for path in FIRST_LOAD]
    assert sum(len(answer.body) for answer in answers) < MOST
    for answer in answers:
        gzip.decompress(answer.body)
