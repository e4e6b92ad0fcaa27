"""The npm package, installed elsewhere: its types compile, and its example runs against a proxy."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tests.lacking import leave_out
from tests.release.building import ROOT, packed_npm
from tests.release.fresh import run
from tests.server.world import KEYS
from tests.web import chromium
from tests.web.front import served
from tests.web.system import running

pytestmark = pytest.mark.slow
MODULES = ROOT / "web" / "node_modules"
TYPES = {
    "compilerOptions": {
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "skipLibCheck": False,
        "target": "es2022",
        "module": "nodenext",
        "lib": ["es2022", "dom"],
        "types": [],
    },
    "files": ["shelf.ts"],
}
PAGE = """<!doctype html>
<script type="importmap">
{"imports": {"sottovoce-client": "/node_modules/sottovoce-client/dist/sottovoce-client.js"}}
</script>
<script type="module">
import { shelf } from "/shelf.js";
window.asked = [];
const ask = async (offer) => window.asked.push(...offer.promise) > 0;
const show = (places) => { window.places = places; };
await shelf({ proxy: "PROXY", key: "KEY", ask, show }, ["ITEM"]);
</script>
"""


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed_npm(tmp_path_factory.mktemp("packed"))


def test_it_has_code_types_an_example_and_a_licence(tarball: Path) -> None:
    with tarfile.open(tarball) as packed:
        files = {name.removeprefix("package/") for name in packed.getnames()}
    sources = {
        str(path.relative_to(ROOT / "web" / "client" / "src").with_suffix(""))
        for path in (ROOT / "web" / "client" / "src").rglob("*.ts")
    }
    compiled = {f"dist/{name}{end}" for name in sources for end in (".js", ".d.ts")}
    beside = {"package.json", "README.md", "LICENSE", "example/shelf.ts"}
    assert files == compiled | beside | {"dist/sottovoce-client.js"}
    assert "dist/sottovoce-worker.js" in files


def test_its_example_compiles_and_runs_elsewhere(tarball: Path, tmp_path: Path) -> None:
    lacking = chromium.missing()
    if lacking is not None:
        leave_out(f"the npm package in a real browser ({lacking})")
    from playwright.sync_api import sync_playwright

    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    run("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", str(tarball), cwd=shop)
    installed = shop / "node_modules" / "sottovoce-client"
    (shop / "shelf.ts").write_text((installed / "example" / "shelf.ts").read_text())
    (shop / "tsconfig.json").write_text(json.dumps(TYPES))
    run("node", str(MODULES / "typescript" / "bin" / "tsc"), cwd=shop)
    with (
        served(Starlette(routes=[Mount("/", StaticFiles(directory=shop, html=True))])) as url,
        running(tmp_path, origins=(url,)) as system,
    ):
        item, key = system.people[0][0], KEYS.verification_key.hex()
        filled = PAGE.replace("PROXY", system.url).replace("KEY", key).replace("ITEM", item)
        (shop / "index.html").write_text(filled)
        with sync_playwright() as started:
            page = chromium.launch(started.chromium).new_page()
            page.goto(url)
            page.wait_for_function("window.places?.length > 0")
            found, asked = page.evaluate("window.places"), page.evaluate("window.asked")
        expected = system.recommended([item])[:5]
    assert asked
    assert [place["title"] for place in found] == [each.title for each in expected]
    assert all(place["why"] for place in found)
