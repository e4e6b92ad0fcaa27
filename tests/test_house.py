"""How the sources are laid out: every folder of code is a package, no file is long."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST = 400
SOURCES = (
    "src/**/*.py",
    "tests/**/*.py",
    "web/*/src/**/*.ts",
    "web/*/test/**/*.ts",
    "web/page/style/*.css",
)


def test_every_folder_of_code_is_a_package() -> None:
    """Import-linter and the test of the documentation look into packages alone."""
    folders = {path.parent for path in (ROOT / "src" / "sottovoce").rglob("*.py")}
    bare = [folder for folder in folders if not (folder / "__init__.py").exists()]
    assert sorted(str(folder.relative_to(ROOT)) for folder in bare) == []


def test_no_file_is_long() -> None:
    lines = {}
    for pattern in SOURCES:
        found = {str(path.relative_to(ROOT)): path for path in ROOT.glob(pattern)}
        assert found, pattern
        lines.update({name: len(path.read_text().splitlines()) for name, path in found.items()})
    assert {name: n for name, n in sorted(lines.items()) if n > LONGEST} == {}


def test_every_vector_file_is_explained() -> None:
    folder = ROOT / "tests" / "vectors"
    page = (folder / "README.md").read_text()
    files = [path.name for path in sorted(folder.glob("*.json"))]
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []
