from __future__ import annotations

import numpy as np
import pytest

from sottovoce.cli import output
from sottovoce.cli.client import verification_key
from sottovoce.errors import SettingsError


def test_plurals() -> None:
    assert (output.counted(1.0, "epoch"), output.counted(7.5, "epoch")) == ("1 epoch", "7.5 epochs")
    assert (output.people(1), output.people(2_000)) == ("1 person", "2,000 people")


@pytest.mark.parametrize(
    ("negatives", "untouched", "said"),
    [
        (99, [99, 500], "99 negatives"),
        (99, [98, 500], "at most 99 negatives"),
        (0, [3], "the whole catalogue"),
    ],
)
def test_what_an_item_is_ranked_against(negatives: int, untouched: list[int], said: str) -> None:
    assert output.rivals(negatives, np.array(untouched)) == said


@pytest.mark.parametrize(
    ("negatives", "untouched", "candidates"),
    [(99, [2, 9], 10), (99, [2, 10], None), (0, [9], 10), (0, [10], None), (9, [500], 10)],
)
def test_a_hit_that_cannot_miss_is_no_result(
    negatives: int, untouched: list[int], candidates: int | None
) -> None:
    with output.messages.capture() as said:
        output.warn_of_few_candidates(negatives, np.array(untouched))
    assert said.get().startswith(
        f"Note: HR@10 says nothing here: an item is ranked among {candidates} "
    ) == (candidates is not None)


def test_a_refused_key_is_shown_as_it_was_typed() -> None:
    with pytest.raises(SettingsError, match="--key: 64 hexadecimal digits, not 'KEY'"):
        verification_key("KEY")
