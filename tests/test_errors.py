"""The wording of error messages, which is checked in the sources so that no other test needs to.

A message must name what is wrong (a value, a file, a flag, a name, or the subject of a "must") and
say what to do. There are three ways to do the latter: say what is right ("must be ...", "needs
...", "there are ..."), have a clause that begins with one of `VERBS`, or have a command or flag to
type. A message that quotes another error needs no more: that one is ours and follows this rule, or
it says why the system or another package refused.

Errors for machines need less, since their class says what to do: a `ProtocolError` names the
field, the file or the value, an `UnavailableError` or a `RefusedError` gives the cause.

A message is a sentence, not a fragment such as "size: 3, not 4". All this holds for the browser's
messages, too.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from sottovoce import errors

ROOT = Path(__file__).parents[1]
# The sources of both distributions, and of the browser.
SOURCE_FILES = sorted([*(ROOT / "src/sottovoce").rglob("*.py"), *(ROOT / "lab/src").rglob("*.py")])
WEB_FILES = sorted((ROOT / "web").glob("*/src/**/*.ts"))


# Cached, not constant: every process of a test run imports this module, and one runs its tests.
@cache
def load_trees() -> dict[Path, ast.Module]:
    """Return the sources of both distributions, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE_FILES}


@cache
def collect_error_classes() -> dict[str, type]:
    """Return our error classes by name."""
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.SottovoceError)
    }
    # Classes that are declared where they are raised count like their base.
    for tree in load_trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in map(ast.unparse, node.bases):
                    if base in classes:
                        classes.setdefault(node.name, classes[base])
    return classes


def collect_web_classes() -> dict[str, type]:
    """Return the browser's error classes by name, and the classes whose rule they follow."""
    return collect_error_classes() | {
        # Errors of the language give the cause of an error of ours.
        **dict.fromkeys(("Error", "RangeError", "SyntaxError", "TypeError"), errors.RefusedError),
        "PostponedError": errors.UnavailableError,
    }


# Functions that add the place to a message, and the number of the argument with the message.
MESSAGE_HELPERS = {
    "table.add_problem": 2,
    "rows.add_problem": 2,
    "exclusive_lock": 1,
    "_locate_error": 2,
}
# Dicts of messages by what a database says.
MESSAGE_TABLES = ("_ADVICE_BY_ERROR", "_ADVICE_BY_MESSAGE")

# Verbs that an instruction may begin with.
VERBS = (
    "ask|begin|call|choose|compare|delete|fetch|give|install|leave|lower|make|name|open|reload|"
    "restore|run|say|show|sync|try|use|wait|write"
)
SAYS_WHAT_IS_RIGHT = re.compile(r"\b(must|needs?|at least|at most)\b|\bthere are \{")
SAYS_WHAT_TO_DO = re.compile(rf"(^|[:;,.(] |\bor |\band )({VERBS})\b", re.IGNORECASE)
HAS_COMMAND = re.compile(r"`sottovoce |pip install |\W--[a-z]")
QUOTES_AN_ERROR = re.compile(r"\{.*\b(error|reason|fallback|hint|message|taken|told|what)\b.*\}")
# What a fragment has in place of a sentence, and what makes a sentence of it.
COMPARES_VALUES = re.compile(r", (not|expected|got|at most|at least|found) ")
HAS_VERB = re.compile(
    rf"\b(are|cannot|can|had|has|have|is|must|needs?|was|were|{VERBS})\b", re.IGNORECASE
)
NAMES_SOMETHING = re.compile(r"\{|\w_\w|\w\(\)")

# Expressions for texts, by the name that they are assigned to.
Texts = dict[str, list[ast.expr]]


def find_texts(tree: ast.AST) -> Texts:
    """Return the texts that are assigned to names."""
    assigned: Texts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for name, text in pairs:
                is_text = isinstance(text, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp)
                if is_text and isinstance(name, ast.Name):
                    assigned.setdefault(name.id, []).append(text)
    return assigned


@cache
def collect_constants() -> Texts:
    """Return the texts of module constants."""
    return {
        name: values
        for tree in load_trees().values()
        for name, values in find_texts(tree).items()
        if name.isupper()
    }


def list_texts(node: ast.expr, names: Texts) -> list[str]:
    """Return all values that a text may have, with {...} for what only a run decides."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Constant():
            return []
        case ast.JoinedStr(values=values):
            return [
                "".join(parts)
                for parts in product(*(list_texts(x, collect_constants()) for x in values))
            ]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a, b in product(list_texts(left, names), list_texts(right, names))]
        case ast.IfExp(body=one, orelse=other):
            return list_texts(one, names) + list_texts(other, names)
        case ast.FormattedValue(value=value):
            return list_texts(value, names) if isinstance(value, ast.Name) else unparse(value)
        case ast.Name(id=name) if name in names:
            return [
                text for value in names[name] for text in list_texts(value, collect_constants())
            ]
    return unparse(node)


def unparse(node: ast.expr) -> list[str]:
    return [f"{{{ast.unparse(node)}}}"]


def find_messages(node: ast.AST, names: Texts) -> Iterator[tuple[int, type, str, bool]]:
    """Yield line, class and text of every message, and whether it has a file as an argument."""
    for child in ast.iter_child_nodes(node):
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from find_messages(
            child, collect_constants() | find_texts(child) if function else names
        )
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in MESSAGE_TABLES:
            assert isinstance(child.value, ast.Dict)
            for value in child.value.values:
                for text in list_texts(value, names):
                    yield value.lineno, errors.StoreError, text, True
        elif isinstance(child, ast.Call):
            name = ast.unparse(child.func)
            if kind := collect_error_classes().get(name):
                has_path = any(keyword.arg == "path" for keyword in child.keywords)
                for text in list_texts(child.args[0], names):
                    yield child.lineno, kind, text, has_path
            elif name in MESSAGE_HELPERS:
                for text in list_texts(child.args[MESSAGE_HELPERS[name]], names):
                    yield child.lineno, errors.SottovoceError, text, True


def find_omission(kind: type, text: str, *, has_path: bool) -> str:
    """Return what a message does not say, or an empty string."""
    if COMPARES_VALUES.search(text) and not HAS_VERB.search(text):
        return "a verb"
    naming = (NAMES_SOMETHING, HAS_COMMAND, SAYS_WHAT_IS_RIGHT)
    names = has_path or any(pattern.search(text) for pattern in naming)
    if issubclass(kind, errors.ProtocolError):
        return "" if names or ": " in text else "what was wrong"
    if issubclass(kind, errors.UnavailableError | errors.RefusedError):
        return "" if text else "why"
    if not names:
        return "what was wrong"
    advising = (SAYS_WHAT_IS_RIGHT, SAYS_WHAT_TO_DO, HAS_COMMAND, QUOTES_AN_ERROR)
    return "" if any(pattern.search(text) for pattern in advising) else "what to do"


# A call such as `new StoreError(` or `new errors.StoreError(`.
WEB_ERROR = re.compile(r"\bnew (?:errors\.)?(\w*Error)\((?!\))")
WEB_CONSTANT = re.compile(r"^const ([A-Z_]+) =\s*(?=[\"`])", re.MULTILINE)
# A part of a text: a literal, or anything else up to the next `+`, comma or end.
WEB_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`')


def read_web_text(source: str, start: int, constants: dict[str, str]) -> str:
    """Return the text of the expression at `start`, with {...} for what only a run decides."""
    text, at = "", start
    while source[at] not in ",);":
        if literal := WEB_LITERAL.match(source, at):
            text += re.sub(r"\$\{", "{", literal[0][1:-1])
            at = literal.end()
        elif name := re.compile(r"[\w.?()]*[\w.]").match(source, at):
            text += constants.get(name[0], f"{{{name[0]}}}")
            at = name.end() + source.startswith("(error)", name.end()) * len("(error)")
        else:
            at += 1
    return text


def find_web_messages() -> Iterator[tuple[Path, int, type, str]]:
    """Yield file, line, class and text of every message of the browser's client and pages."""
    classes = collect_web_classes()
    for path in WEB_FILES:
        source = path.read_text(encoding="utf-8")
        constants = {
            match[1]: read_web_text(source, match.end(), {})
            for match in WEB_CONSTANT.finditer(source)
        }
        for match in WEB_ERROR.finditer(source):
            text = read_web_text(source, match.end(), constants)
            line = source.count("\n", 0, match.start()) + 1
            yield path, line, classes[match[1]], text


def test_every_message_says_what_is_wrong_and_what_to_do() -> None:
    messages = [
        (path, *message)
        for path, tree in load_trees().items()
        for message in find_messages(tree, collect_constants())
    ]
    assert len(messages) > 400
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCE_FILES)
    assert all(f"{name}(" in sources for name in MESSAGE_HELPERS)
    assert all(f"\n{name} = {{" in sources for name in MESSAGE_TABLES)
    assert [
        f"{path.relative_to(ROOT)}:{line}: {text!r} lacks {omission}"
        for path, line, kind, text, has_path in messages
        if (omission := find_omission(kind, text, has_path=has_path))
    ] == []


def test_messages_of_the_browser_follow_the_same_rule() -> None:
    messages = list(find_web_messages())
    assert len(messages) > 80
    assert [
        f"{path.relative_to(ROOT)}:{line}: {text!r} lacks {omission}"
        for path, line, kind, text in messages
        # Data of a browser has no path.
        if (omission := find_omission(kind, text, has_path=kind is errors.StoreError))
    ] == []
