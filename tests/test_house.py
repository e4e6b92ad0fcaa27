"""How the sources are laid out: packages without circles, vector files that are explained."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"


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


def imported(path: Path, modules: set[str]) -> set[str]:
    """Modules of ours and of the laboratory that a file names, type imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (below & modules) or {node.module}
    return {name for name in found if name.split(".")[0] in ("sottovoce", "sottovoce_lab")}


def test_no_module_imports_another_in_a_circle_and_none_the_laboratory() -> None:
    files = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (SOURCES / "sottovoce").rglob("*.py")
    }
    graph = {name: imported(path, set(files)) for name, path in files.items()}
    assert [name for name, found in graph.items() if "sottovoce_lab" in str(found)] == []
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle
