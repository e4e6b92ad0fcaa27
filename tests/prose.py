"""What is hard to read: words that are not plain, and sentences of more than 30 words.

`python -m tests.prose [PAGE ...]` prints what it finds in the pages, in the help texts of the
command line, in error messages and in what people are asked for consent with. `make lint` runs it.
It is no error, except in messages and consent: there `tests/test_prose.py` refuses it.
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
from tests.test_errors import CONSTANTS, ROOT, TREES, messages, texts

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
    r"(is|are|was|were|be) (said|told|believed|heard of)": "(say who does it)",
    r"as \w+ (has|have) it": "(name the rule)",
    r"in vain": "for nothing",
    r"anew": "again",
    r"dear(er|est)?": "expensive",
    r"lest|whence|hitherto|thereof|whilst|amongst|upon|albeit|forthwith|shall|nay|till|thereby": "",
}
"""Words that an engineer stumbles over, and what is plain."""
PAGES = ("*.md", "docs/**/*.md", "lab/*.md", "lab/docs/*.md", "web/*/README.md")
CONSENT = (
    *("src/sottovoce/privacy/account.py", "src/sottovoce/protocol/terms.py"),
    *("src/sottovoce/client/syncing.py", "web/client/src/promise.ts", "web/client/src/terms.ts"),
    *("web/client/src/agreement.ts", "web/widget/src/texts.ts"),
    *("web/page/src/terms.ts", "web/page/src/view/consent.ts"),
)
"""Where the words of a consent stand."""

Prose = Iterator[tuple[str, str]]
"""Where it stands, and a paragraph."""
_CODE = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|\$\$.*?\$\$|(?<=\n\n)(    [^\n]*\n+)+|^(\||#)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Code, formulas, tables and headings."""
_SPANS = re.compile(r"`[^`]*`|\{[^{}]*\}|\$[^$]+\$|https?://\S+")
_LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
_APART = re.compile(r"\n\s*\n|\n(?=\s*([-*+>]|\d+\.|#+) )")
_END = re.compile(r"[.!?:][\"')*_]*\s+")
_WORD = re.compile(r"[^\W\d_][\w'-]+|\b[aAI]\b|`")
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


def paragraphs(page: Path) -> Prose:
    """Without what is no prose, such as the addresses of links."""
    text = _CODE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    line, begin = 1, 0
    for gap in [*_APART.finditer(text), None]:
        end = len(text) if gap is None else gap.start()
        yield f"{page.relative_to(ROOT)}:{line}", _LINK.sub(r"\1", text[begin:end])
        if gap is not None:
            line, begin = line + text.count("\n", begin, gap.end()), gap.end()


def help_texts() -> Prose:
    def of(command: Any, name: str) -> Prose:
        for each in [command, *command.params]:
            for text in (getattr(each, "help", "") or "").split("\n\n"):
                if not text.lstrip(" ").startswith(("\b", "sottovoce ")):
                    yield f"{name} {each.name}", text
        if hasattr(command, "list_commands"):
            for below in command.list_commands(None):
                yield from of(command.get_command(None, below), f"{name} {below}")

    yield from of(get_command(app), "sottovoce")


def error_messages() -> Prose:
    for path, tree in TREES.items():
        for line, _, text, _ in messages(tree, CONSTANTS):
            yield from ((f"{path.relative_to(ROOT)}:{line}", each) for each in text.split("\n"))


def consent() -> Prose:
    """All texts of several words in these sources but the docstrings."""
    for path in map(ROOT.joinpath, CONSENT):
        name = str(path.relative_to(ROOT))
        if path in TREES:
            nodes = list(ast.walk(TREES[path]))
            told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in told:
                    yield from ((f"{name}:{node.lineno}", text) for text in texts(node, CONSTANTS))
        else:
            source = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)
            joined = re.sub(r'"\s*\+\s*"', "", source)
            yield from ((name, one or other) for one, other in _LITERAL.findall(joined))


def faults(prose: Prose) -> Iterator[str]:
    """What to say differently."""
    for place, text in prose:
        plain = " ".join(_SPANS.sub("`", text).split())
        for odd, better in ODD.items():
            for found in re.finditer(rf"\b({odd})\b", plain, re.IGNORECASE):
                yield f"{place}: {found[0]!r}" + (f": {better}" if better else "")
        for sentence in _END.split(plain):
            if (words := len(_WORD.findall(sentence))) > MOST:
                yield f"{place}: {words} words: {sentence[:60]} ..."


def main(pages: list[str]) -> None:
    found = [path.resolve() for path in map(Path, pages)]
    found = found or sorted({each for glob in PAGES for each in ROOT.glob(glob)})
    said = [each for page in found for each in faults(paragraphs(page))]
    if not pages:
        said += [*faults(help_texts()), *faults(error_messages()), *faults(consent())]
    for each in said:
        print(each)
    for place, number in Counter(re.split("[: ]", each)[0] for each in said).items():
        print(f"{number:5} {place}")


if __name__ == "__main__":
    main(sys.argv[1:])
