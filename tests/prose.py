"""What is hard to read: words that are not plain, and sentences of more than 30 words.

`python -m tests.prose [PAGE ...]` prints what it finds: in the pages, the command line's help, the
messages of errors, and what people read before they agree. In the last two `tests/test_prose.py`
refuses it; `make lint` only prints.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from sottovoce.cli.app import app
from tests.test_errors import CONSTANTS, ROOT, TREES, find_messages, list_texts

MOST = 30
"""Words of a sentence."""
ODD = {
    r"so (many|much)(?! \w* ?that\b)": "that many",
    r"who(so)?ever|whom(so)?ever": "anyone who",
    r"beside": "next to, besides",
    r"for want of": "without",
    r"but for": "except",
    r"of nobody": "that belong to no person",
    r"as (good|much) as (none|nothing)": "none",
    r"held against": "compared with",
    r"(is|are|was|were|be) (said|believed|heard of)": "say who does it",
    r"as \w+ (has|have) it": "name the rule",
    r"in vain": "for nothing",
    r"anew": "again",
    r"dear(er|est)?": "expensive",
    r"lest|whence|hitherto|thereof|thereby|whilst|amongst|upon|albeit|shall|till": "a plainer word",
}
"""Words that an engineer stumbles over, and what is plain."""
PAGES = ("*.md", "docs/**/*.md", "lab/*.md", "lab/docs/*.md", "web/*/README.md")
CONSENT = (
    *("src/sottovoce/privacy/promises.py", "src/sottovoce/privacy/statement.py"),
    *("src/sottovoce/protocol/terms.py", "src/sottovoce/client/syncing.py"),
    *("web/client/src/promise.ts", "web/client/src/terms.ts"),
    *("web/client/src/agreement.ts", "web/widget/src/texts.ts", "web/page/src/terms.ts"),
    *("web/page/src/view/consent.ts", "web/page/src/words.ts"),
)
"""Where the words of a consent are written."""
NO_PROSE = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|<picture>.*?</picture>|\$\$.*?\$\$|(?<=\n\n)(    [^\n]*\n+)+",
    re.DOTALL | re.MULTILINE,
)
"""Code and formulas."""
SPAN = re.compile(r"`[^`]*`|\{[^{}]*\}|\$[^$]+\$|https?://\S+")
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
APART = re.compile(r"\n\s*\n|\n(?=\||#|\s*([-*+>]|\d+\.) )")
END = re.compile(r"[.!?:][\"')*_]*\s+")
WORD = re.compile(r"[^\W\d_][\w'-]+|\b[aAI]\b|`")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')

Prose = Iterator[tuple[str, str]]
"""Where a text stands, and the text."""


def paragraphs(page: Path) -> Prose:
    text = NO_PROSE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    begin = 0
    for end in [*(gap.end() for gap in APART.finditer(text)), len(text)]:
        line = text.count("\n", 0, begin) + 1
        yield f"{page.relative_to(ROOT)}:{line}", LINK.sub(r"\1", text[begin:end])
        begin = end


def help_texts(command: Any, name: str = "sottovoce") -> Prose:
    for each in [command, *command.params]:
        for text in (getattr(each, "help", "") or "").split("\n\n"):
            if not text.lstrip(" ").startswith(("\b", "sottovoce ")):  # examples
                yield f"{name} {each.name}", text
    if hasattr(command, "list_commands"):
        for below in command.list_commands(None):
            yield from help_texts(command.get_command(None, below), f"{name} {below}")


def error_messages() -> Prose:
    for path, tree in TREES.items():
        for line, _, text, _ in find_messages(tree, CONSTANTS):
            yield from ((f"{path.relative_to(ROOT)}:{line}", each) for each in text.split("\n"))


def consent() -> Prose:
    """All texts of these sources but the docstrings."""
    for name in CONSENT:
        path = ROOT / name
        if path in TREES:
            nodes = list(ast.walk(TREES[path]))
            docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in docs:
                    yield from (
                        (f"{name}:{node.lineno}", text) for text in list_texts(node, CONSTANTS)
                    )
        else:
            source = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)
            joined = re.sub(r'"\s*\+\s*"', "", source)
            yield from ((name, one or other) for one, other in LITERAL.findall(joined))


def faults(prose: Prose) -> Iterator[str]:
    for place, text in prose:
        plain = " ".join(SPAN.sub("`", text).split())
        for odd, better in ODD.items():
            for found in re.finditer(rf"\b({odd})\b", plain, re.IGNORECASE):
                yield f"{place}: {found[0]!r}; rather: {better}"
        for sentence in END.split(plain) if plain[:1] != "|" else ():  # no row of a table
            if (words := len(WORD.findall(sentence))) > MOST:
                yield f"{place}: {words} words: {sentence[:60]} ..."


def main(pages: list[str]) -> None:
    chosen = [Path(page).resolve() for page in pages]
    chosen = chosen or sorted({each for glob in PAGES for each in ROOT.glob(glob)})
    found = [each for page in chosen for each in faults(paragraphs(page))]
    if not pages:
        for prose in (help_texts(get_command(app)), error_messages(), consent()):
            found += faults(prose)
    print(*found, sep="\n")
    for place, number in Counter(re.split("[: ]", each)[0] for each in found).items():
        print(f"{number:5} {place}")


if __name__ == "__main__":
    main(sys.argv[1:])
