from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import coin
from sottovoce.errors import SettingsError


@pytest.mark.parametrize(
    ("epsilon", "threshold"),
    [(2.5, 1399336432749266787), (0.5, 6964396094736529935), (6.0, 45611846561169528)],
)
def test_thresholds_that_every_implementation_must_have(epsilon: float, threshold: int) -> None:
    assert coin.flip_threshold(epsilon) == threshold


@given(st.floats(1e-6, coin.MAX_EPSILON))
def test_keep_to_flip_never_exceeds_e_to_the_epsilon(epsilon: float) -> None:
    flip = coin.flip_threshold(epsilon)
    assert Decimal(coin.WORD - flip) <= coin.exp_epsilon(epsilon) * flip
    # and it is the least such threshold: no budget is wasted
    assert Decimal(coin.WORD - flip + 1) > coin.exp_epsilon(epsilon) * (flip - 1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 40.1, float("nan"), float("inf")])
def test_an_epsilon_that_no_coin_can_keep_is_refused(epsilon: float) -> None:
    with pytest.raises(SettingsError, match="epsilon"):
        coin.flip_threshold(epsilon)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**32 - 1))
def test_multiply_high_is_exact(words: list[int], factor: int) -> None:
    got = coin.multiply_high(np.array(words, np.uint64), factor)
    assert got.tolist() == [word * factor >> 64 for word in words]


def test_unit_covers_zero_and_never_reaches_one() -> None:
    ends = coin.unit(np.array([0, 2**64 - 1], np.uint64))
    assert ends[0] == 0
    assert 1 - 2**-52 < ends[1] < 1
