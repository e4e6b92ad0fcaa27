"""A linter for plain English: hard words, long sentences, and names that do not say what they hold.

`python -m tests.prose [FILE ...]` prints what it finds and fails if it found something. It reads
pages, help texts, error messages, the texts of a consent, and the docstrings, comments and names of
Python and TypeScript sources. With files it reads only those; pre-commit names the changed ones.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from sottovoce.cli.app import app
from tests import names
from tests.test_errors import ROOT, collect_constants, find_messages, list_texts, load_trees

MAX_SENTENCE_WORDS = 30
# Words that a reader stumbles over, and what to write instead.
HARD_WORDS = {
    r"so (many|much)(?! \w* ?that\b)": "that many",
    r"who(so)?ever|whom(so)?ever": "anyone who",
    r"whatever else": "anything else",
    r"beside": "next to, besides",
    r"for want of": "without",
    r"but for": "except",
    r"of nobody": "that belong to no person",
    r"as (good|much) as (none|nothing)": "none",
    r"held against": "compared with",
    r"(is|are|was|were|be) (said|believed|heard of)": "say who does it",
    r"as \w+ (has|have) it": "name the rule",
    r"in vain": "for nothing",
    r"anew|once more": "again",
    r"of which one": "which of them",
    r"what it is that": "what",
    r"liars?|lies about": "attacker, false report",
    r"dear(er|est)?": "expensive",
    r"lest|whence|hitherto|thereof|thereby|whilst|amongst|upon|albeit|shall|till": "a plainer word",
}
PAGE_PATTERNS = ("*.md", "docs/**/*.md", "lab/*.md", "lab/docs/*.md", "web/*/README.md")
PYTHON_PATTERNS = ("src/**/*.py", "lab/**/*.py", "tests/**/*.py", "examples/**/*.py", "*.py")
TYPESCRIPT_PATTERNS = ("web/*/src/**/*.ts", "web/*/test/**/*.ts")
# Files with the texts that an owner reads before saying yes.
CONSENT_FILES = (
    *("src/sottovoce/privacy/promises.py", "src/sottovoce/privacy/statement.py"),
    *("src/sottovoce/protocol/terms.py", "src/sottovoce/client/syncing.py"),
    "src/sottovoce/client/fetching.py",
    *("web/client/src/promise.ts", "web/client/src/terms.ts"),
    *("web/client/src/agreement.ts", "web/widget/src/texts.ts", "web/page/src/terms.ts"),
    *("web/page/src/view/consent.ts", "web/page/src/words.ts"),
)
# Code and formulas in a page.
NOT_PROSE = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|<picture>.*?</picture>|\$\$.*?\$\$|(?<=\n\n)(    [^\n]*\n+)+",
    re.DOTALL | re.MULTILINE,
)
CODE_SPAN = re.compile(r"`[^`]*`|\{[^{}]*\}|\$[^$]+\$|https?://\S+")
MARKDOWN_LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
PARAGRAPH_BREAK = re.compile(r"\n\s*\n|\n(?=\||#|\s*([-*+>]|\d+\.) )")
SENTENCE_END = re.compile(r"[.!?:;][\"')*_]*\s+")
WORD = re.compile(r"[^\W\d_][\w'-]+|\b[aAI]\b|`")
STRING_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')

# Pairs of a place and the text there.
Prose = Iterable[tuple[str, str]]


def read_page(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of a Markdown page."""
    text = NOT_PROSE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text(encoding="utf-8"))
    begin = 0
    for end in [*(gap.end() for gap in PARAGRAPH_BREAK.finditer(text)), len(text)]:
        line = text.count("\n", 0, begin) + 1
        yield f"{page.relative_to(ROOT)}:{line}", MARKDOWN_LINK.sub(r"\1", text[begin:end])
        begin = end


def read_help(command: Any, name: str = "sottovoce") -> Iterator[tuple[str, str]]:
    """Yield the help texts of a command, its options and its subcommands."""
    for item in [command, *command.params]:
        for text in (getattr(item, "help", "") or "").split("\n\n"):
            if not text.lstrip(" ").startswith(("\b", "sottovoce ")):  # examples
                yield f"{name} {item.name}", text
    if hasattr(command, "list_commands"):
        for subcommand in command.list_commands(None):
            yield from read_help(command.get_command(None, subcommand), f"{name} {subcommand}")


def read_error_messages() -> Iterator[tuple[str, str]]:
    """Yield the lines of all error messages."""
    for path, tree in load_trees().items():
        for line, _, text, _ in find_messages(tree, collect_constants()):
            yield from ((f"{path.relative_to(ROOT)}:{line}", part) for part in text.split("\n"))


def read_consent() -> Iterator[tuple[str, str]]:
    """Yield all texts of the files of a consent except docstrings and comments."""
    for name in CONSENT_FILES:
        path = ROOT / name
        if path in load_trees():
            nodes = list(ast.walk(load_trees()[path]))
            docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in docs:
                    yield from (
                        (f"{name}:{node.lineno}", text)
                        for text in list_texts(node, collect_constants())
                    )
        else:
            source = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)
            joined = re.sub(r'"\s*\+\s*"', "", source)
            yield from ((name, one or other) for one, other in STRING_LITERAL.findall(joined))


def find_hard_prose(prose: Prose) -> Iterator[str]:
    """Yield a line for each hard word and each long sentence."""
    for place, text in prose:
        plain = " ".join(CODE_SPAN.sub("`", text).split())
        for pattern, advice in HARD_WORDS.items():
            for match in re.finditer(rf"\b({pattern})\b", plain, re.IGNORECASE):
                yield f"{place}: {match[0]!r}; rather: {advice}"
        for sentence in SENTENCE_END.split(plain) if plain[:1] != "|" else ():  # no row of a table
            if (words := len(WORD.findall(sentence))) > MAX_SENTENCE_WORDS:
                yield f"{place}: {words} words: {sentence[:60]} ..."


def list_files(patterns: Iterable[str]) -> list[Path]:
    """Return the files of the repository that match one of the patterns."""
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path for path in files if "node_modules" not in path.parts)


def find_problems(files: list[Path]) -> Iterator[str]:
    """Yield what is wrong in these files, and in everything that people read if there are none."""
    patterns = (*PAGE_PATTERNS, *PYTHON_PATTERNS, *TYPESCRIPT_PATTERNS)
    for path in files or list_files(patterns):
        if path.suffix == ".md":
            yield from find_hard_prose(read_page(path))
        elif path.suffix in (".py", ".ts"):
            place, source = str(path.relative_to(ROOT)), names.read_source(path)
            yield from find_hard_prose((f"{place}:{line}", text) for line, text in source.prose)
            yield from (f"{place}:{line}: {problem}" for line, problem in source.problems)
    if not files:
        for prose in (read_help(get_command(app)), read_error_messages(), read_consent()):
            yield from find_hard_prose(prose)


def main(arguments: list[str]) -> None:
    """Print the problems, and how many each file has."""
    problems = list(find_problems([Path(name).resolve() for name in arguments]))
    print(*problems, sep="\n")
    for place, number in Counter(re.split("[: ]", problem)[0] for problem in problems).items():
        print(f"{number:5} {place}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main(sys.argv[1:])
