"""What the messages of errors say: read from the sources, so that no other test holds their words.

The rule: a message names what was wrong (a value, a file, a flag, a name, or the subject of a
"must"), and what to do. That it does in one of three ways: it says what is right ("must be ...",
"needs ...", "there are ..."), has a clause that begins with one of `VERBS`, or has a command or
flag to type. A message that hands on what another error says needs no more: that one is ours and
held to this rule, or says why the system or another package refused.

Errors for machines are held to less, since their class says what to do: a `ProtocolError` names
the field, the file or the value, an `UnavailableError` or a `RefusedError` says why.
"""

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from sottovoce import errors

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "src/sottovoce").rglob("*.py"), *(ROOT / "lab/src").rglob("*.py")])
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
OURS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.SottovoceError)
}
OURS |= {  # those that are declared where they are raised
    node.name: OURS[ast.unparse(base)]
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
    for base in node.bases
    if ast.unparse(base) in OURS and node.name not in OURS
}
HELPERS = {"table.note": 2, "exclusive_lock": 1, "_fault": 2}
"""Functions that are given a part of a message; which argument it is. They add the place."""
TABLES = ("_ADVICE", "_CAUSES")
"""Messages by what a database says."""

VERBS = (
    "ask|begin|call|choose|give|install|leave|lower|make|name|restore|run|say|show|sync|"
    "try|use|wait|write"
)
RIGHT = re.compile(r"\b(must|needs?|at least|at most)\b|\bthere are \{")
DEED = re.compile(rf"(^|[:;,.(] |\bor |\band )({VERBS})\b", re.IGNORECASE)
TYPED = re.compile(r"`sottovoce |pip install |\W--[a-z]")
HANDED_ON = re.compile(r"\{.*\b(error|reason|otherwise|taken|told|what)\b.*\}")
NAMED = re.compile(r"\{|\w_\w|\w\(\)")

Texts = dict[str, list[ast.expr]]


def known(tree: ast.AST) -> Texts:
    """The texts that names stand for."""
    found: Texts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for name, text in pairs:
                is_text = isinstance(text, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp)
                if is_text and isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(text)
    return found


CONSTANTS = {
    name: values
    for tree in TREES.values()
    for name, values in known(tree).items()
    if name.isupper()
}


def texts(node: ast.expr, names: Texts) -> list[str]:
    """All that an expression may say, with {...} for what is known only when it runs."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Constant():
            return []
        case ast.JoinedStr(values=parts):
            return ["".join(each) for each in product(*(texts(part, CONSTANTS) for part in parts))]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a, b in product(texts(left, names), texts(right, names))]
        case ast.IfExp(body=one, orelse=other):
            return texts(one, names) + texts(other, names)
        case ast.FormattedValue(value=value):
            return texts(value, names) if isinstance(value, ast.Name) else shown(value)
        case ast.Name(id=name) if name in names:
            return [text for value in names[name] for text in texts(value, CONSTANTS)]
    return shown(node)


def shown(node: ast.expr) -> list[str]:
    return [f"{{{ast.unparse(node)}}}"]


def messages(node: ast.AST, names: Texts) -> Iterator[tuple[int, type, str, bool]]:
    """Line, class, text, and whether a file is named beside it, of every message in a source."""
    for child in ast.iter_child_nodes(node):
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from messages(child, CONSTANTS | known(child) if function else names)
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in TABLES:
            assert isinstance(child.value, ast.Dict)
            for each in child.value.values:
                yield from ((each.lineno, errors.StoreError, t, True) for t in texts(each, names))
        elif isinstance(child, ast.Call):
            name = ast.unparse(child.func)
            if name in OURS:
                placed = any(each.arg == "path" for each in child.keywords)
                for text in texts(child.args[0], names):
                    yield child.lineno, OURS[name], text, placed
            elif name in HELPERS:
                for text in texts(child.args[HELPERS[name]], names):
                    yield child.lineno, errors.SottovoceError, text, True


def lacking(kind: type, text: str, *, placed: bool) -> str:
    """What a message does not say."""
    names = placed or any(each.search(text) for each in (NAMED, TYPED, RIGHT))
    if issubclass(kind, errors.ProtocolError):
        return "" if names or ": " in text else "what was wrong"
    if issubclass(kind, errors.UnavailableError | errors.RefusedError):
        return "" if text else "why"
    if not names:
        return "what was wrong"
    told = (RIGHT, DEED, TYPED, HANDED_ON)
    return "" if any(each.search(text) for each in told) else "what to do"


def test_every_message_says_what_was_wrong_and_what_to_do() -> None:
    found = [(path, *each) for path, tree in TREES.items() for each in messages(tree, CONSTANTS)]
    assert len(found) > 400
    sources = "".join(path.read_text(encoding="utf-8") for path in FILES)
    assert all(f"{name}(" in sources for name in HELPERS)
    assert all(f"\n{name} = {{" in sources for name in TABLES)
    assert [
        f"{path.relative_to(ROOT)}:{line}: {text!r} lacks {lack}"
        for path, line, kind, text, placed in found
        if (lack := lacking(kind, text, placed=placed))
    ] == []
