"""The independent client stays independent."""

import ast
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
OWN = "tests.outsider"
KNOWN = {"cryptography", "httpx", "numpy", "pytest"}
STANDARD = {
    "__future__", "collections", "contextlib", "dataclasses", "datetime", "decimal", "email",
    "fractions", "hashlib", "json", "math", "os", "pathlib", "re", "struct", "typing",
}  # fmt: skip
SHARED = ("core", "errors")
"""What `mechanisms.py` has from the package: the vectors test mechanisms."""


def list_imports(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, at any place in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield str(node.module)


def is_its_own(module: str) -> bool:
    return module == OWN or module.startswith(OWN + ".")


def test_client_shares_only_mechanisms_with_the_package() -> None:
    files = [path for path in sorted(FOLDER.glob("*.py")) if not path.name.startswith("test_")]
    assert {"device.py", "mechanisms.py", "wire.py"} <= {path.name for path in files}
    foreign = {
        (path.name, module)
        for path in files
        for module in list_imports(path)
        if not is_its_own(module) and module.partition(".")[0] not in KNOWN | STANDARD
    }
    assert foreign == {("mechanisms.py", f"sottovoce.{name}") for name in SHARED}
    for path in files:
        assert "importlib" not in path.read_text()
        assert "__import__" not in path.read_text()
