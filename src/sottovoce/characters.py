"""Text helpers for messages: control characters, full stops and plurals."""

import re
from collections.abc import Mapping
from html import escape

# Control characters of Unicode: category Cc, line and paragraph separators, and bidirectional
# embeddings, overrides and isolates. A terminal may obey them instead of showing them.
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# The same characters, and lone surrogates, which cannot be encoded as UTF-8.
_UNPRINTABLE_CHARACTERS = re.compile(f"{CONTROL_CHARACTERS.pattern[:-1]}\ud800-\udfff]")


def replace_control_characters(text: str) -> str:
    """Replace each control character by a space."""
    return CONTROL_CHARACTERS.sub(" ", text)


def escape_control_characters(text: str) -> str:
    r"""Replace each control character by its escape sequence in Python.

    >>> print(escape_control_characters("\x1b[31mred"))
    \x1b[31mred
    """
    return _UNPRINTABLE_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


def ensure_full_stop(text: str) -> str:
    """Append a full stop, unless the text ends in one or in a question mark."""
    return text if text.endswith(("?", ".")) else f"{text}."


def format_code_point(character: str) -> str:
    """Format a character as its Unicode number, such as U+202E."""
    return f"U+{ord(character):04X}"


def pluralize(number: float, noun: str) -> str:
    """Format a number and a noun, which gets an "s" unless the number is 1."""
    digits = f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"
    return f"{digits} {noun}{'s' * (number != 1)}"


def format_html_table(rows: Mapping[str, object]) -> str:
    """Format labels and values as a small HTML table, as notebooks show it.

    >>> format_html_table({"people": 3})
    '<table><tr><th>people</th><td>3</td></tr></table>'
    """
    cells = (
        f"<tr><th>{escape(label)}</th><td>{escape(str(value))}</td></tr>"
        for label, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"
