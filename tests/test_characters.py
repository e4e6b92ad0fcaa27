import sys
import unicodedata

import pytest

from sottovoce.characters import CONTROL, spaced, visible
from sottovoce.cli import output


def test_control_characters_are_those_of_unicode() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    wanted = {
        each
        for each in every
        if unicodedata.category(each) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(each)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }
    assert {each for each in map(chr, range(sys.maxunicode + 1)) if CONTROL.match(each)} == wanted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;PWNED\x07\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"),
        ("line1\nAccepted", "line1\\nAccepted"),
        ("\u202etxt", "\\u202etxt"),
        ("half \ud83d", "half \\ud83d"),
        ("羅生門 (1950) 😀", "羅生門 (1950) 😀"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_loaders_put_a_space_for_a_control_character() -> None:
    assert spaced("Metro\tpolis\u202e\x85") == "Metro polis  "


def test_the_command_line_shows_neither_markup_nor_commands() -> None:
    with output.results.capture() as said:
        output.say("[red]x[/red]\x1b[2J\rover")
    assert said.get() == "[red]x[/red]\\x1b[2J\\rover\n"
