"""The npm packages: what is in them, and that their types and what READMEs show compile."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from sottovoce.service.files import get_assets_folder
from sottovoce.service.widget import WIDGET_SCRIPT
from tests.nightly.release.building import ROOT, get_packed_npm
from tests.nightly.release.fresh import run
from tests.web.shop import client_scripts

pytestmark = pytest.mark.slow
NODE_MODULES = ROOT / "web" / "node_modules"
COMPILER_SETTINGS = {
    "compilerOptions": {
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "skipLibCheck": False,
        "target": "es2022",
        "module": "nodenext",
        "lib": ["es2022", "dom"],
        "types": [],
    },
    "files": ["client.ts", "widget.ts"],
}


OTHER_FILES = {"package.json", "README.md", "LICENSE", "dist/sottovoce-worker.js"}


@pytest.fixture(scope="module")
def tarballs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Return the tarballs of the client and of the widget."""
    return get_packed_npm(tmp_path_factory.mktemp("packed"))


def list_files(tarball: Path) -> set[str]:
    with tarfile.open(tarball) as packed:
        return {name.removeprefix("package/") for name in packed.getnames()}


def list_compiled(package: str, *ends: str) -> set[str]:
    sources = ROOT / "web" / package / "src"
    names = {str(path.relative_to(sources).with_suffix("")) for path in sources.rglob("*.ts")}
    return {f"dist/{name}{end}" for name in names for end in ends}


def test_they_have_code_types_and_a_licence(tarballs: tuple[Path, ...]) -> None:
    client, widget = map(list_files, tarballs)
    bundles = {"dist/sottovoce-client.js", "dist/sottovoce-accounts.js"}
    assert client == list_compiled("client", ".js", ".d.ts") | OTHER_FILES | bundles
    own = {"dist/widget.js", "react.d.ts", "vue.d.ts"}
    assert widget == list_compiled("widget", ".d.ts") | OTHER_FILES | own


def test_they_are_the_scripts_that_browsers_ran(tarballs: tuple[Path, ...], tmp_path: Path) -> None:
    """`tests/web` and `tests/nightly/web` run these bytes against the services of this tree."""
    scripts = client_scripts(tmp_path)
    for name, shown in scripts.items():
        assert read_file(tarballs[0], f"dist/{name}.js") == shown
    assert read_file(tarballs[1], "dist/sottovoce-worker.js") == scripts["sottovoce-worker"]
    assert (
        read_file(tarballs[1], "dist/widget.js")
        == (get_assets_folder() / WIDGET_SCRIPT).read_bytes()
    )


def read_file(tarball: Path, name: str) -> bytes:
    with tarfile.open(tarball) as packed:
        member = packed.extractfile(f"package/{name}")
        assert member is not None
        return member.read()


def test_what_readmes_show_compiles_elsewhere(tarballs: tuple[Path, ...], tmp_path: Path) -> None:
    """Compile it; `tests/web` runs it in a browser."""
    (tmp_path / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    install = ("npm", "install", "--no-audit", "--no-fund", "--prefer-offline")
    run(*install, *map(str, tarballs), cwd=tmp_path)
    for name in ("client", "widget"):
        readme = tmp_path / "node_modules" / f"sottovoce-{name}" / "README.md"
        shown = re.search("```ts\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
        assert shown is not None
        (tmp_path / f"{name}.ts").write_text(shown[1])
    (tmp_path / "tsconfig.json").write_text(json.dumps(COMPILER_SETTINGS))
    run("node", str(NODE_MODULES / "typescript" / "bin" / "tsc"), cwd=tmp_path)
