"""Ours: on which side of its coin a word falls, the last one below the threshold, the first at it.

The thresholds are the integers of `tests/vectors/thresholds.json`, not those of the mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core import Coordinate, Histories, Loudest, Shape
from sottovoce.core.coin import WORD
from sottovoce.core.mechanism import COIN, DIRECTION, WORDS_PER_DRAW

FILE = Path(__file__).parents[1] / "vectors" / "thresholds.json"
EPSILONS = [1e-6, 0.1, 2.5, 10.0, 40.0]
ITEMS, LOUD, REPORTS = 8, 3, 200
HISTORY = Histories.from_lists([[0, 2, 3]], ITEMS)
V = np.array([[5], [-6], [7], [-9], [11], [-13], [17], [-19]], np.float32)
X = np.array([[2]], np.float32)
"""Every entry of the gradient is beyond the clip, so that `coordinate` has nothing to round."""


Ours = Coordinate | Loudest
SHAPE = Shape(ITEMS, 1, 1.0)
MAKE: dict[str, Callable[[float], Ours]] = {
    "coordinate": lambda epsilon: Coordinate(SHAPE, epsilon),
    "loudest": lambda epsilon: Loudest(SHAPE, epsilon, 5, block=1, loud=LOUD),
}


def stored_threshold(mechanism: Ours) -> int:
    [case] = [c for c in json.loads(FILE.read_text()) if c["epsilon"] == mechanism.epsilon]
    if isinstance(mechanism, Coordinate):
        return int(case["flip"], 16)
    [uniform] = [word for loud, n, word in case["uniform"] if (loud, n) == (LOUD, ITEMS)]
    return int(uniform, 16)


def draws(coin: int) -> np.ndarray:
    """Many directions, all with this word as their coin; ties in order."""
    rng = np.random.default_rng(11)
    words = rng.integers(0, 2**64, (1, REPORTS + 1, WORDS_PER_DRAW), dtype=np.uint64)
    words[..., COIN] = coin
    words[:, -1] = 0
    return words


def sides(mechanism: Ours) -> tuple[list[int], list[int]]:
    """The reports of words below the threshold, and of all others, from the definition."""
    words = [[int(word) for word in draw] for draw in draws(0)[0, :-1]]
    density = mechanism.densities(V, X, HISTORY)[0]
    if isinstance(mechanism, Coordinate):
        index = [word[DIRECTION] * mechanism.n_directions >> 64 for word in words]
        true = [i << 1 | int(density[i << 1 | 1] > density[i << 1]) for i in index]
        return [report ^ 1 for report in true], true
    loud = np.flatnonzero(density > 1).tolist()
    assert len(loud) == LOUD
    uniform = [word[DIRECTION] * 2 * ITEMS >> 64 for word in words]
    # Rows ascending, but the one that agrees least of them comes last.
    touched = np.isin(np.arange(ITEMS), HISTORY[0])
    by_item = np.abs((1 + touched) * (touched - V[:, 0] * X[0, 0]))
    agreement = dict(zip(mechanism.blocks.places.tolist(), by_item.tolist(), strict=True))
    least = min(loud, key=lambda signed: agreement[signed >> 1])
    loud.sort(key=lambda signed: (signed == least, signed))
    named = [loud[word[DIRECTION] * LOUD >> 64] for word in words]
    return uniform, named


def said(mechanism: Ours, coin: int) -> list[int]:
    return [int(report) for report in mechanism.reports(V, X, HISTORY, draws(coin))[0]]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", MAKE)
def test_words_at_the_threshold_fall_on_their_side(name: str, epsilon: float) -> None:
    mechanism = MAKE[name](epsilon)
    threshold = stored_threshold(mechanism)
    assert 1 < threshold < WORD - 2
    below, beyond = sides(mechanism)
    assert below != beyond
    for coin in (0, 1, threshold // 2, threshold - 1):
        assert said(mechanism, coin) == below
    for coin in (threshold, threshold + 1, WORD - 1):
        assert said(mechanism, coin) == beyond


@pytest.mark.parametrize("name", MAKE)
def test_it_would_notice_a_threshold_that_is_off_by_one(name: str) -> None:
    mechanism = MAKE[name](2.5)
    kept = "flip_below" if isinstance(mechanism, Coordinate) else "blanket_below"
    threshold = stored_threshold(mechanism)
    below, beyond = sides(mechanism)
    mechanism.__dict__[kept] = threshold - 1  # where `cached_property` keeps it
    assert said(mechanism, threshold - 1) == beyond
    mechanism.__dict__[kept] = threshold + 1
    assert said(mechanism, threshold) == below
