"""Control characters in texts for people."""

import sys
import unicodedata

import pytest

from sottovoce.characters import (
    CONTROL_CHARACTERS,
    escape_control_characters,
    replace_control_characters,
)
from sottovoce.cli import output


def test_control_characters_are_those_of_unicode() -> None:
    characters = [chr(number) for number in range(sys.maxunicode + 1)]
    expected = {
        character
        for character in characters
        if unicodedata.category(character) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(character)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }
    assert set(filter(CONTROL_CHARACTERS.match, characters)) == expected


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\x1b]0;PWNED\x07\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"),
        ("line1\nAccepted", "line1\\nAccepted"),
        ("\u202etxt", "\\u202etxt"),
        ("half \ud83d", "half \\ud83d"),
        ("羅生門 (1950) 😀", "羅生門 (1950) 😀"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape_control_characters(text) == escaped


def test_control_characters_are_replaced_by_spaces() -> None:
    assert replace_control_characters("Metro\tpolis\u202e\x85") == "Metro polis  "


def test_command_line_escapes_markup_and_control_characters() -> None:
    with output.results.capture() as printed:
        output.print_line("[red]x[/red]\x1b[2J\rover")
    assert printed.get() == "[red]x[/red]\\x1b[2J\\rover\n"
