"""The coins of the mechanisms: thresholds, words at them, and randomness of the system."""

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, Loudest, Shape, coin, os_words
from sottovoce.core.coin import WORD
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.mechanism import COIN, DIRECTION, WORDS_PER_DRAW
from sottovoce.errors import SettingsError


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


@given(st.integers(0, 2**64 - 1), st.integers(2, 2**32 - 1))
def test_multiply_high_is_exact(word: int, factor: int) -> None:
    """Also where one place ends and the next begins."""
    edges = [-((-place << 64) // factor) for place in (1, factor // 2, factor - 1)]
    words = [word, *edges, *(edge - 1 for edge in edges)]
    got = coin.multiply_high(np.array(words, np.uint64), factor)
    assert got.tolist() == [each * factor >> 64 for each in words]


def test_unit_covers_zero_and_never_reaches_one() -> None:
    ends = coin.unit(np.array([0, 2**64 - 1], np.uint64))
    assert ends[0] == 0
    assert 1 - 2**-52 < ends[1] < 1


def test_words_have_the_shape_that_mechanisms_take_and_never_repeat() -> None:
    """A repeat among 2 x 8,484 words of 64 bits has a chance of 1e-11."""
    first, second = os_words(3, 706), os_words(3, 706)
    assert first.shape == (3, 707, 4)
    assert first.dtype == np.uint64
    both = np.concatenate([first.ravel(), second.ravel()])
    assert len(np.unique(both)) == both.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_repeat_its_parent() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, os_words(1, 10).tobytes())
        os._exit(0)
    own = os_words(1, 10).tobytes()
    os.waitpid(child, 0)
    theirs = os.read(reader, len(own))
    os.close(reader)
    os.close(writer)
    assert len(theirs) == len(own)
    assert theirs != own


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


def draws(word: int) -> np.ndarray:
    """Many directions, all with this word as their word; ties in order."""
    rng = np.random.default_rng(11)
    words = rng.integers(0, 2**64, (1, REPORTS + 1, WORDS_PER_DRAW), dtype=np.uint64)
    words[..., COIN] = word
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


def said(mechanism: Ours, word: int) -> list[int]:
    return [int(report) for report in mechanism.reports(V, X, HISTORY, draws(word))[0]]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", MAKE)
def test_words_at_the_threshold_fall_on_their_side(name: str, epsilon: float) -> None:
    mechanism = MAKE[name](epsilon)
    threshold = stored_threshold(mechanism)
    assert 1 < threshold < WORD - 2
    below, beyond = sides(mechanism)
    assert below != beyond
    for word in (0, 1, threshold // 2, threshold - 1):
        assert said(mechanism, word) == below
    for word in (threshold, threshold + 1, WORD - 1):
        assert said(mechanism, word) == beyond
