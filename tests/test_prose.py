"""Texts and names are plain; `tests.prose` and `tests.names` have the rules."""

from pathlib import Path

import pytest

from tests.names import read_source
from tests.prose import find_hard_prose, read_consent, read_error_messages


def test_messages_and_consent_are_plain() -> None:
    problems = [*find_hard_prose(read_error_messages()), *find_hard_prose(read_consent())]
    assert problems == []


def test_hard_prose_is_reported() -> None:
    long = " ".join(["word"] * 31)
    texts = ("Whoever is believed so many times.", f"{long}.", "So many that it fails. Two words.")
    problems = [list(find_hard_prose([("here", text)])) for text in texts]
    assert [len(lines) for lines in problems] == [3, 1, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.py",
            '"""A module."""\nA_B, C_D = 1, 2\n\n\ndef f(found):\n    """The sum."""\n    # Why.\n',
        ),
        (
            "a.ts",
            "/** A module. */\n/** The sum. */\nexport function f(found: number) {\n  // Why.\n}\n",
        ),
    ],
)
def test_sources_are_read_in_both_languages(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    source = read_source(tmp_path / name)
    assert {text.strip(" \n") for _, text in source.prose} == {"A module.", "The sum.", "Why."}
    assert [name for _, name in source.vague_names] == ["found"]
    assert [word for _, word in source.not_verbs] == ["The"]
    assert len(source.tuples) == (name == "a.py")
