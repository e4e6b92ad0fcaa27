"""How the sources are laid out: folders of code are packages, vector files are explained."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_folder_of_code_is_a_package() -> None:
    """Import-linter and the test of the documentation look into packages alone."""
    folders = {path.parent for path in (ROOT / "src" / "sottovoce").rglob("*.py")}
    bare = [folder for folder in folders if not (folder / "__init__.py").exists()]
    assert sorted(str(folder.relative_to(ROOT)) for folder in bare) == []


def test_every_vector_file_is_explained() -> None:
    folder = ROOT / "tests" / "vectors"
    page = (folder / "README.md").read_text()
    files = [path.name for path in sorted(folder.glob("*.json"))]
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []
