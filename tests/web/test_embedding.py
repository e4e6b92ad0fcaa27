"""A shop on another origin: `examples/shop.html` as it is, in a real browser, with a real proxy."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from tests.lacking import leave_out
from tests.server.world import KEYS
from tests.web import chromium
from tests.web.front import HURRY, Heard, served
from tests.web.system import System, running
from tests.web.visitor_scripts import DUMP

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from starlette.requests import Request

    from tests.web.chromium import Trap

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "shop.html"
BUNDLE = "sottovoce-client.js"
WORKER = "sottovoce-worker.js"
PEOPLE = 6
TOLD = {"cookie", "referer", "authorization", "if-none-match", "from", "x-requested-with"}


class Shop:
    """The example and the bundle at an address of its own; the two values in it are filled in."""

    def __init__(self, bundle: dict[str, bytes]):
        self._bundle = bundle
        self.prelude = HURRY
        """Goes before the workers' script."""
        self.page = ""
        self.url = ""

    def fill_in(self, system: System) -> None:
        text = EXAMPLE.read_text(encoding="utf-8")
        assert text.count("https://proxy.example") == 1
        key = KEYS.verification_key.hex()
        text, keys = re.subn("0{63}1", key, text.replace("https://proxy.example", system.url))
        assert keys == 1
        self.page = text

    async def index(self, _: Request) -> Response:
        return Response(self.page, media_type="text/html")

    async def script(self, request: Request) -> Response:
        name = request.url.path[1:]
        prelude = self.prelude if name == WORKER else b""
        return Response(prelude + self._bundle[name], media_type="text/javascript")


@contextmanager
def open_shop(bundle: dict[str, bytes]) -> Iterator[Shop]:
    shop = Shop(bundle)
    scripts = [Route(f"/{name}", shop.script) for name in bundle]
    app = Starlette(routes=[Route("/", shop.index), *scripts])
    with served(app) as shop.url:
        yield shop


@pytest.fixture(scope="module")
def bundle(folder: Path) -> dict[str, bytes]:
    """As a shop gets it."""
    if shutil.which("node") is None or not (ROOT / "web" / "node_modules").exists():
        leave_out("the example of a shop in a real browser (needs Node)")
    script = ROOT / "web" / "client" / "bundle.mjs"
    subprocess.run(["node", script, folder / "shop"], check=True, timeout=120)
    return {name: (folder / "shop" / name).read_bytes() for name in (BUNDLE, WORKER)}


@pytest.fixture(scope="module")
def shops(bundle: dict[str, bytes]) -> Iterator[tuple[Shop, Shop]]:
    """One that the proxy's operator will name, and one that they do not know."""
    with open_shop(bundle) as known, open_shop(bundle) as unknown:
        yield known, unknown


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shops: tuple[Shop, Shop]) -> Iterator[System]:
    known, unknown = shops
    with running(folder, people=PEOPLE, origins=(known.url,)) as system:
        known.fill_in(system)
        unknown.fill_in(system)
        yield system


@pytest.fixture
def context(browser: Browser, trap: Trap) -> Iterator[BrowserContext]:
    """A fresh profile; whatever a test is about, nobody else is asked for anything."""
    with chromium.fresh_profile(browser, trap) as made:
        made.set_default_timeout(30_000)
        yield made
        assert made.cookies() == []
    assert trap.caught == []


def visit(
    context: BrowserContext, shop: Shop, *, agree: bool = True, prelude: bytes = HURRY
) -> tuple[Page, list[str]]:
    """Go there, and answer what is asked; the page, and all questions."""
    asked: list[str] = []
    page = context.new_page()
    shop.prelude = prelude

    def answer(dialog: Any) -> None:
        asked.append(dialog.message)
        (dialog.accept if agree else dialog.dismiss)()

    page.on("dialog", answer)
    page.goto(shop.url)
    return page, asked


def says(page: Page, words: str) -> None:
    page.wait_for_function("(words) => state.textContent.includes(words)", arg=words)


def listed(page: Page) -> list[str]:
    return page.inner_text("#list").splitlines()


def check_heard(system: System, shop: Shop) -> list[Heard]:
    """Every request names the shop and nothing else about who asks."""
    heard = list(system.front.heard)
    for each in heard:
        assert each.headers["origin"] == shop.url
        assert not TOLD & set(each.headers), each.path
        assert each.query == b""
        assert shop.url.encode() not in each.body
    return heard


def test_a_visitor_of_a_shop_takes_part_and_is_recommended_to(
    context: BrowserContext, system: System, shops: tuple[Shop, Shop]
) -> None:
    shop, _ = shops
    epoch = system.signed().manifest.epoch
    page, asked = visit(context, shop)
    says(page, f"The batch of epoch {epoch} was sent.")
    assert listed(page) == [each.title for each in system.recommended(["1"])[:5]]
    assert len(asked) == 1
    assert "Your history stays here" in asked[0]
    heard = check_heard(system, shop)
    calls = [(each.method, each.path.split("/")[2]) for each in heard]
    first = ["manifest", "models", "catalogues", "shelf"]
    assert calls[:4] == [("GET", name) for name in first]
    others = [each for each in heard[4:] if each.path not in ("/v2/manifest", "/v2/shelf")]
    assert [(each.method, each.status) for each in others] == [("OPTIONS", 204), ("POST", 202)]
    assert len(system.opened(others[-1].body)) == 20
    page.reload()
    says(page, "had been sent before")
    assert len(asked) == 1
    assert [each.method for each in check_heard(system, shop)].count("POST") == 1
    assert system.turn().reports == 20 * (PEOPLE + 1)


def test_a_site_that_is_not_named_is_refused_and_told_why(
    context: BrowserContext, system: System, shops: tuple[Shop, Shop]
) -> None:
    _, shop = shops
    page, asked = visit(context, shop)
    says(page, f"does not allow pages of {shop.url} (see `origins` in its proxy.toml)")
    assert (listed(page), asked) == ([], [])
    heard = {(each.path, each.status) for each in check_heard(system, shop)}
    assert heard == {("/v2/manifest", 200)}
    (stored,) = page.evaluate(DUMP, None).values()
    assert stored["charges"] == stored["batches"] == stored["files"] == []
