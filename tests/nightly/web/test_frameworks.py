"""The packed npm packages in pages that Vite builds, with React and with Vue, and on a server."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.nightly.release.building import get_packed_npm
from tests.nightly.release.fresh import run
from tests.web import chromium
from tests.web.front import HURRY
from tests.web.shop import ROOT, Customer, Shop, running_shop
from tests.web.system import System, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.chromium import Trap

Enter = Callable[[Path], Customer]
pytestmark = pytest.mark.slow
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--prefer-offline")
# The plugin of React for each version of Vite.
REACT_PLUGINS = {6: 4, 7: 5, 8: 6}
# Both elements as a server sends them, without anything inside.
SERVED = re.compile("<sottovoce-consent .*></sottovoce-consent>.*<sottovoce-list n=.5. ")
RENDERERS = {
    "react": """
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { Article } from "./served/Article.js";
console.log(renderToString(createElement(Article, { id: "1" })));
""",
    "vue": """
import { createSSRApp } from "vue";
import { renderToString } from "vue/server-renderer";
import Article from "./served/Article.js";
console.log(await renderToString(createSSRApp(Article, { id: "1" })));
""",
}
# A page without elements, over the client.
CLIENT_PAGE = """
import { Client } from "sottovoce-client";

const client = await Client.open({
  proxy: "https://proxy.example",
  key: "0000000000000000000000000000000000000000000000000000000000000001",
  limit: 5000,
  news: async ({ manifest }) => {
    if (manifest) document.title = (await client.recommend(1))[0]?.title ?? "";
  },
});
await client.record(["1"]);
"""


@pytest.fixture(scope="module")
def tarballs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return get_packed_npm(tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shop: Shop) -> Iterator[System]:
    with running(folder, people=6, origins=(shop.url,)) as system:
        yield system


@pytest.fixture
def enter(
    browser: Browser, system: System, shop: Shop, trap: Trap
) -> Iterator[Callable[..., Customer]]:
    with ExitStack() as opened:

        def make(built: Path) -> Customer:
            """Enter a shop with the page that Vite has built in this folder."""
            (script,) = built.glob("assets/index-*.js")
            shop.page = '<div id="shop"></div><script type="module" src="/index.js"></script>'
            shop.scripts = {"index": script.read_bytes()}
            for worker in built.glob("assets/sottovoce-worker-*.js"):
                shop.scripts[f"assets/{worker.stem}"] = HURRY + worker.read_bytes()
            shop.policy = (
                f"default-src 'none'; script-src 'self'; connect-src {system.url}; "
                "worker-src 'self' blob:"
            )
            context = opened.enter_context(chromium.fresh_profile(browser, trap))
            customer = Customer(context, shop, system, trap).enter()
            customers.append(customer)
            return customer

        customers: list[Customer] = []
        yield make
        for customer in customers:
            customer.check()


def install(framework: str, vite: int, folder: Path, tarballs: tuple[Path, ...]) -> None:
    """Install an example with this version of Vite, and the packages as they are packed."""
    shutil.copytree(ROOT / "examples" / framework, folder, dirs_exist_ok=True)
    plugin = REACT_PLUGINS[vite] if framework == "react" else 6
    packages = (f"vite@{vite}", f"@vitejs/plugin-{framework}@{plugin}")
    run(*INSTALL, *map(str, tarballs), *packages, cwd=folder)


def fill_in(path: Path, system: System) -> None:
    """Name the proxy and the key of the system in a page."""
    text = path.read_text(encoding="utf-8")
    for place, value in (
        ("https://proxy.example", system.url),
        (f"{1:064}", system.keys.verification_key.hex()),
    ):
        assert text.count(place) == 1, place
        text = text.replace(place, value)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("vite", REACT_PLUGINS)
@pytest.mark.parametrize("framework", ["react", "vue"])
def test_a_page_that_is_built_and_rendered_on_a_server(
    framework: str,
    vite: int,
    tarballs: tuple[Path, ...],
    tmp_path: Path,
    system: System,
    enter: Enter,
) -> None:
    """Check the types, build it, run it in a browser, and render it where there is no browser."""
    install(framework, vite, tmp_path, tarballs)
    (article,) = tmp_path.glob("src/Article.*")
    fill_in(article, system)
    run("npm", "run", "build", cwd=tmp_path)
    customer = enter(tmp_path / "dist")
    wanted = [item.title for item in system.recommended(["1"])[:5]]
    customer.until(
        lambda: customer.at("sottovoce-list > p > a").all_inner_texts() == wanted, str(wanted)
    )
    customer.expect("sottovoce-similar [part=link]").to_have_count(3)
    customer.question()
    customer.press("yes")
    customer.says("#shop", "Thank you.")
    customer.sent(1)
    run("npx", "vite", "build", "--ssr", str(article), "--outDir", "served", cwd=tmp_path)
    (tmp_path / "serve.mjs").write_text(RENDERERS[framework])
    assert SERVED.search(run("node", "serve.mjs", cwd=tmp_path))


@pytest.mark.parametrize("vite", REACT_PLUGINS)
def test_the_client_without_elements_is_built_by_default(
    vite: int,
    tarballs: tuple[Path, ...],
    tmp_path: Path,
    system: System,
    enter: Enter,
) -> None:
    """Use no configuration: the worker is built as Vite builds workers by default."""
    (tmp_path / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    run(*INSTALL, *map(str, tarballs), f"vite@{vite}", cwd=tmp_path)
    (tmp_path / "index.html").write_text('<script type="module" src="/index.ts"></script>')
    page = tmp_path / "index.ts"
    page.write_text(CLIENT_PAGE)
    fill_in(page, system)
    run("npx", "vite", "build", "--target", "es2022", cwd=tmp_path)
    customer = enter(tmp_path / "dist")
    (best, *_) = system.recommended(["1"])
    customer.until(lambda: customer.page.title() == best.title, best.title)
