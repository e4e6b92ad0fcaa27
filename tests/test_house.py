"""The layout of the sources: packages without import cycles, vector files that are explained."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"


def test_every_folder_of_code_is_a_package() -> None:
    # Import-linter and the test of the documentation look only into packages.
    folders = {path.parent for path in (ROOT / "src" / "sottovoce").rglob("*.py")}
    bare = [folder for folder in folders if not (folder / "__init__.py").exists()]
    assert sorted(str(folder.relative_to(ROOT)) for folder in bare) == []


def test_every_vector_file_is_explained() -> None:
    folder = ROOT / "tests" / "vectors"
    page = (folder / "README.md").read_text()
    files = [path.name for path in sorted(folder.glob("*.json"))]
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []


def list_imports(path: Path, modules: set[str]) -> set[str]:
    """Return the modules of ours and of the laboratory that a file imports, also for types."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (submodules & modules) or {node.module}
    return {name for name in names if name.split(".")[0] in ("sottovoce", "sottovoce_lab")}


def test_there_are_no_import_cycles_and_no_imports_of_the_laboratory() -> None:
    files = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (SOURCES / "sottovoce").rglob("*.py")
    }
    graph = {name: list_imports(path, set(files)) for name, path in files.items()}
    assert [name for name, names in graph.items() if "sottovoce_lab" in str(names)] == []
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle
