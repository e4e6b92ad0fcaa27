"""The npm package: what is in it, and its types and example compile elsewhere."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.nightly.release.building import ROOT, packed_npm
from tests.nightly.release.fresh import run

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


def test_its_example_compiles_elsewhere(tarball: Path, tmp_path: Path) -> None:
    """That it runs in a browser: `tests/web`."""
    (tmp_path / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    run("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", str(tarball), cwd=tmp_path)
    example = tmp_path / "node_modules" / "sottovoce-client" / "example" / "shelf.ts"
    (tmp_path / "shelf.ts").write_text(example.read_text())
    (tmp_path / "tsconfig.json").write_text(json.dumps(TYPES))
    run("node", str(MODULES / "typescript" / "bin" / "tsc"), cwd=tmp_path)
