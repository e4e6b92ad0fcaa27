"""Docstrings, comments and names of a source file in Python or TypeScript, and what is wrong there.

`python -m tests.names` counts over all sources: functions whose documentation does not begin with
a verb, tuples of constants, constants named by one word, vague names, and the share of comments.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path

# Names that say how a value came and not what it is.
VAGUE_NAMES = re.compile(
    "found|said|told|heard|borne|each|alone|apart|given|made|kept|held|known|lacking|looking"
)
# Words that a function's documentation must not begin with: it begins with a verb.
NOT_VERBS = re.compile(
    r"the|a|an|of|what|whether|one|in|how|all|for|by|with|as|where|from|every|"
    r"each|so|nothing|it|why|which|any|until|its|when|who|over|another|whatever|"
    r"only|none|those|everybody|somebody|nobody|without|after|whole|two|three|no|"
    r"not|everything|at|once|under|unless|some|both|also|now|this|these|there|"
    r"than|whose|never|while|fewer|more|less|larger|smaller|lower|on|to|if|up|"
    r"seconds|bytes|people|items|reports|itself|themselves|half|least|most|largest|"
    r"numbers|number|names|true|false",
    re.IGNORECASE,
)
TYPESCRIPT_TOKEN = re.compile(
    r"(?P<doc>/\*\*.*?\*/)|(?P<block>/\*.*?\*/)|(?P<comment>//[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)"
    r"|(?P<name>[A-Za-z_$][\w$]*)",
    re.DOTALL,
)
# What follows the documentation of a function or a method.
TYPESCRIPT_FUNCTION = re.compile(
    r"\s*(?:(?:export|default|async|static|private|protected|public|override|declare)\s+)*"
    r"(?:function\b|(?!(?:if|for|while|switch|new|get|set)\b)#?[A-Za-z_$][\w$]*\s*(?:<[^(){}]*>)?\()"
)
TYPESCRIPT_CONSTANT = re.compile(r"^(?:export )?const ([A-Z][A-Z0-9_]*)\b", re.MULTILINE)
# Code, a formula or a drawing within a docstring.
INDENTED_BLOCK = re.compile(r"(?<=\n\n)(    [^\n]*\n+)+")
DECORATION = re.compile(r"^\s*(/\*\*?|\*/|\*|//)|\*/\s*$", re.MULTILINE)


@dataclass
class Source:
    """What a reader reads of one file, besides its statements."""

    lines: int = 0
    code_lines: int = 0
    comment_lines: int = 0
    prose: list[tuple[int, str]] = field(default_factory=list)
    """Docstrings and comments, each with the number of its line."""
    documented: list[tuple[int, str]] = field(default_factory=list)
    """First words of the documentation of each function."""
    vague_names: list[tuple[int, str]] = field(default_factory=list)
    constants: list[tuple[int, str]] = field(default_factory=list)
    tuples: list[int] = field(default_factory=list)
    """Lines of statements that assign several constants at once."""

    @property
    def not_verbs(self) -> list[tuple[int, str]]:
        """Documentation of functions that does not begin with a verb."""
        return [(line, word) for line, word in self.documented if NOT_VERBS.fullmatch(word)]

    @property
    def problems(self) -> Iterator[tuple[int, str]]:
        """What is wrong, with the number of its line."""
        for line, name in self.vague_names:
            yield line, f"name {name!r} says nothing; name what the value is"
        for line, word in self.not_verbs:
            yield line, f"documentation of a function begins with {word!r}; begin with a verb"
        for line in self.tuples:
            yield line, "several constants in one statement; give each one its own line"


def read_source(path: Path) -> Source:
    """Read a file in Python or TypeScript."""
    text = path.read_text(encoding="utf-8")
    source = Source(lines=text.count("\n"))
    (read_python if path.suffix == ".py" else read_typescript)(text, source)
    return source


def read_python(text: str, source: Source) -> None:
    """Add what stands in a Python file."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(doc))):
                source.prose += _split_paragraphs(node.lineno, doc)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if VAGUE_NAMES.fullmatch(
                name
            ):
                source.vague_names.append((node.lineno, name))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                docstring = ast.get_docstring(node)
                if docstring and not any("property" in ast.unparse(d) for d in node.decorator_list):
                    source.documented.append((node.lineno, _first_word(docstring)))
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])]) if name.isupper():
                source.tuples.append(statement.lineno)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.isupper():
                    source.constants.append((statement.lineno, name))
    _count_lines(text, source, "#", "  # ")
    comments = [
        (token.start[0], token.string.lstrip("#! "))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    source.prose += _join_lines(comments)


def read_typescript(text: str, source: Source) -> None:
    """Add what stands in a TypeScript file."""
    comments = []
    for token in TYPESCRIPT_TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        match token.lastgroup:
            case "doc" | "block":
                doc = DECORATION.sub("", token[0])
                source.prose += _split_paragraphs(line, doc)
                if token.lastgroup == "doc" and TYPESCRIPT_FUNCTION.match(text, token.end()):
                    source.documented.append((line, _first_word(doc)))
            case "comment":
                comments.append((line, token[0].lstrip("/ ")))
            case "name" if VAGUE_NAMES.fullmatch(token[0]):
                source.vague_names.append((line, token[0]))
    for match in TYPESCRIPT_CONSTANT.finditer(text):
        source.constants.append((text.count("\n", 0, match.start()) + 1, match[1]))
    _count_lines(text, source, ("//", "*", "/*"), " // ")
    source.prose += _join_lines(comments)


def _first_word(doc: str) -> str:
    match = re.match(r"\W*([A-Za-z'-]+)", doc)
    return match[1] if match else ""


def _split_paragraphs(line: int, doc: str) -> list[tuple[int, str]]:
    paragraphs = re.split(r"\n\n(?=\S)|\n(?=>>>)", INDENTED_BLOCK.sub("", cleandoc(doc) + "\n"))
    # Examples of doctest and of help texts, and drawings.
    return [
        (line, part)
        for part in paragraphs
        if ">>>" not in part and "──" not in part and not part.startswith("\b")
    ]


def _join_lines(comments: list[tuple[int, str]]) -> list[tuple[int, str]]:
    blocks: list[tuple[int, int, str]] = []
    for line, comment in comments:
        if blocks and blocks[-1][1] == line - 1:
            first, _, text = blocks.pop()
            blocks.append((first, line, f"{text} {comment}"))
        else:
            blocks.append((line, line, comment))
    return [(first, text) for first, _, text in blocks]


def _count_lines(text: str, source: Source, marks: str | tuple[str, ...], trailing: str) -> None:
    for line in map(str.strip, text.splitlines()):
        if line.startswith(marks):
            source.comment_lines += 1
        elif line:
            source.code_lines += 1
            source.comment_lines += trailing in line


def main() -> None:
    """Print the counts of the sources of each language."""
    root = Path(__file__).parents[1]
    for title, patterns in (
        ("src and lab/src", ("src/**/*.py", "lab/src/**/*.py")),
        ("tests and lab/tests", ("tests/**/*.py", "lab/tests/**/*.py")),
        ("TypeScript sources", ("web/*/src/**/*.ts",)),
        ("TypeScript tests", ("web/*/test/**/*.ts",)),
    ):
        total: Counter[str] = Counter()
        for path in (path for pattern in patterns for path in root.glob(pattern)):
            source = read_source(path)
            total["functions with documentation"] += len(source.documented)
            total["  of these not verb-first"] += len(source.not_verbs)
            total["constants"] += len(source.constants)
            total["  of these named by one word"] += sum(
                "_" not in name.strip("_") for _, name in source.constants
            )
            total["tuples of constants"] += len(source.tuples)
            total["vague names"] += len(source.vague_names)
            total["lines"] += source.lines
            total["lines of code"] += source.code_lines
            total["lines with a comment"] += source.comment_lines
        print(title, *(f"  {number:7} {name}" for name, number in total.items()), sep="\n")


if __name__ == "__main__":
    main()
