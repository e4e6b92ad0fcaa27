"""The npm package, installed elsewhere: its types compile, and its example runs against a proxy."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.release.building import ROOT, packed_npm
from tests.release.fresh import run
from tests.server.world import KEYS
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
VISIT = """
import { shelf } from "./shelf.js";
const [proxy, key, item] = process.argv.slice(2);
const asked = [];
const ask = async (sentences) => asked.push(...sentences) > 0;
const places = await shelf({ proxy, key, ask, jitter: 0 }, [item]);
console.log(JSON.stringify({ asked, places }));
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


def test_its_example_compiles_and_runs_elsewhere(tarball: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    run("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", str(tarball), cwd=shop)
    installed = shop / "node_modules" / "sottovoce-client"
    (shop / "shelf.ts").write_text((installed / "example" / "shelf.ts").read_text())
    (shop / "tsconfig.json").write_text(json.dumps(TYPES))
    run("node", str(MODULES / "typescript" / "bin" / "tsc"), cwd=shop)
    (shop / "visit.js").write_text(VISIT)
    database = (MODULES / "fake-indexeddb" / "auto" / "index.mjs").as_uri()
    with running(tmp_path) as system:
        item = system.people[0][0]
        key = KEYS.verification_key.hex()
        told = run("node", "--import", database, "visit.js", system.url, key, item, cwd=shop)
        expected = system.recommended([item])[:5]
    found = json.loads(told.splitlines()[-1])
    assert found["asked"]
    assert [place["title"] for place in found["places"]] == [each.title for each in expected]
    assert all(place["why"] for place in found["places"])
