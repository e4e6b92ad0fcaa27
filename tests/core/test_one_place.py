"""Differences between mechanisms are in their classes only: other code never asks which it is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sottovoce
from sottovoce.core import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE_FOLDER = Path(sottovoce.__file__).parent
CLASS_NAMES = {kind.__name__ for kind in MECHANISMS.values()}


def find_ladders(source: str) -> Iterator[str]:
    """Yield comparisons with a mechanism's name, and checks of its class."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare | ast.match_case) and _find_constants(node) & set(
            MECHANISMS
        ):
            yield f"line {_get_line(node)}: compares with a mechanism's name"
        if isinstance(node, ast.Call) and _find_names(node.func) & {"isinstance", "issubclass"}:
            classes = {name for argument in node.args[1:] for name in _find_names(argument)}
            if classes & CLASS_NAMES:
                yield f"line {node.lineno}: checks a mechanism's class"


def _find_constants(node: ast.AST) -> set[object]:
    root = node.pattern if isinstance(node, ast.match_case) else node
    return {leaf.value for leaf in ast.walk(root) if isinstance(leaf, ast.Constant)}


def _find_names(node: ast.AST) -> set[str]:
    leaves = (leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Name | ast.Attribute))
    return {leaf.id if isinstance(leaf, ast.Name) else leaf.attr for leaf in leaves}


def _get_line(node: ast.Compare | ast.match_case) -> int:
    return node.lineno if isinstance(node, ast.Compare) else node.pattern.lineno


def test_no_code_depends_on_which_mechanism_it_is() -> None:
    ladders = {
        str(path.relative_to(SOURCE_FOLDER)): list(find_ladders(path.read_text(encoding="utf-8")))
        for path in SOURCE_FOLDER.rglob("*.py")
    }
    assert {path: lines for path, lines in ladders.items() if lines} == {}


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
def test_search_finds_type_ladders(source: str) -> None:
    assert list(find_ladders(source))
