"""Words for people: characters that command a terminal instead of showing something, plurals."""

import re

# Category Cc, line and paragraph separators, bidirectional embeddings, overrides and isolates.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_UNSHOWABLE = re.compile(f"{CONTROL.pattern[:-1]}\ud800-\udfff]")


def spaced(text: str) -> str:
    """With a space for each control character."""
    return CONTROL.sub(" ", text)


def visible(text: str) -> str:
    r"""With each control character as Python writes it.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return _UNSHOWABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def sentence(text: str) -> str:
    """With its full stop, unless it is a question."""
    return text if text.endswith(("?", ".")) else f"{text}."


def named(character: str) -> str:
    """By its number."""
    return f"U+{ord(character):04X}"


def counted(number: float, what: str) -> str:
    """With the plural where it is due."""
    said = f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"
    return f"{said} {what}{'s' * (number != 1)}"
