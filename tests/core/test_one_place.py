"""What differs by mechanism is on its class: nobody else asks which one it is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sottovoce
from sottovoce.core import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(sottovoce.__file__).parent
CLASSES = {kind.__name__ for kind in MECHANISMS.values()}


def ladders(source: str) -> Iterator[str]:
    """Comparisons with a mechanism's name, and questions about its class."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare | ast.match_case) and _constants(node) & set(MECHANISMS):
            yield f"line {_line(node)}: compares with a mechanism's name"
        if isinstance(node, ast.Call) and _names(node.func) & {"isinstance", "issubclass"}:
            asked = {name for argument in node.args[1:] for name in _names(argument)}
            if asked & CLASSES:
                yield f"line {node.lineno}: asks for a mechanism's class"


def _constants(node: ast.AST) -> set[object]:
    below = node.pattern if isinstance(node, ast.match_case) else node
    return {each.value for each in ast.walk(below) if isinstance(each, ast.Constant)}


def _names(node: ast.AST) -> set[str]:
    named = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in named}


def _line(node: ast.Compare | ast.match_case) -> int:
    return node.lineno if isinstance(node, ast.Compare) else node.pattern.lineno


def test_nobody_asks_which_mechanism_it_is() -> None:
    found = {
        str(path.relative_to(SOURCE)): list(ladders(path.read_text(encoding="utf-8")))
        for path in SOURCE.rglob("*.py")
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        'if settings.mechanism == "loudest": pass',
        'x = 1 if name != "coordinate" else 2',
        'if m in ("coordinate", "loudest"): pass',
        'match name:\n    case "loudest": pass',
        "isinstance(m, Loudest)",
        "isinstance(m, mechanism.Coordinate | Loudest)",
    ],
)
def test_the_search_finds_ladders(source: str) -> None:
    assert list(ladders(source))
