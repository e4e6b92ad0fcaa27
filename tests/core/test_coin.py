"""Coins: their thresholds, the words around them, and the random words of the system."""

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, Loudest, Shape, coin, draw_os_words
from sottovoce.core.coin import WORD_RANGE
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.mechanism import COIN_WORD, DIRECTION_WORD, WORDS_PER_DRAW
from sottovoce.errors import SettingsError


@given(st.floats(1e-6, coin.MAX_EPSILON))
def test_ratio_of_keep_to_flip_is_at_most_e_to_the_epsilon(epsilon: float) -> None:
    flip = coin.compute_flip_threshold(epsilon)
    assert Decimal(coin.WORD_RANGE - flip) <= coin.exp_epsilon(epsilon) * flip
    # It is the smallest such threshold, so no budget is wasted.
    assert Decimal(coin.WORD_RANGE - flip + 1) > coin.exp_epsilon(epsilon) * (flip - 1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 40.1, float("nan"), float("inf")])
def test_unsupported_epsilon_is_rejected(epsilon: float) -> None:
    with pytest.raises(SettingsError, match="epsilon"):
        coin.compute_flip_threshold(epsilon)


@given(st.integers(0, 2**64 - 1), st.integers(2, 2**32 - 1))
def test_multiply_high_is_exact(word: int, factor: int) -> None:
    # The words include those where one result ends and the next begins.
    edges = [-((-place << 64) // factor) for place in (1, factor // 2, factor - 1)]
    words = [word, *edges, *(edge - 1 for edge in edges)]
    products = coin.multiply_high(np.array(words, np.uint64), factor)
    assert products.tolist() == [word * factor >> 64 for word in words]


def test_unit_floats_include_zero_and_exclude_one() -> None:
    ends = coin.to_unit_floats(np.array([0, 2**64 - 1], np.uint64))
    assert ends[0] == 0
    assert 1 - 2**-52 < ends[1] < 1


def test_os_words_have_the_expected_shape_and_do_not_repeat() -> None:
    # Two equal words among 2 x 8,484 have a probability of 1e-11.
    first, second = draw_os_words(3, 706), draw_os_words(3, 706)
    assert first.shape == (3, 707, 4)
    assert first.dtype == np.uint64
    both = np.concatenate([first.ravel(), second.ravel()])
    assert len(np.unique(both)) == both.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_does_not_repeat_the_words_of_its_parent() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, draw_os_words(1, 10).tobytes())
        os._exit(0)
    own = draw_os_words(1, 10).tobytes()
    os.waitpid(child, 0)
    theirs = os.read(reader, len(own))
    os.close(reader)
    os.close(writer)
    assert len(theirs) == len(own)
    assert theirs != own


THRESHOLDS_FILE = Path(__file__).parents[1] / "vectors" / "thresholds.json"
TESTED_EPSILONS = [1e-6, 0.1, 2.5, 10.0, 40.0]
N_ITEMS = 8
N_LOUD = 3
N_REPORTS = 200
OWN_HISTORY = Histories.from_lists([[0, 2, 3]], N_ITEMS)
# With this V and X, every entry of the gradient is clipped, so `coordinate` has nothing to round.
V = np.array([[5], [-6], [7], [-9], [11], [-13], [17], [-19]], np.float32)
X = np.array([[2]], np.float32)
OurMechanism = Coordinate | Loudest
MODEL_SHAPE = Shape(N_ITEMS, 1, 1.0)
BUILDERS: dict[str, Callable[[float], OurMechanism]] = {
    "coordinate": lambda epsilon: Coordinate(MODEL_SHAPE, epsilon),
    "loudest": lambda epsilon: Loudest(MODEL_SHAPE, epsilon, 5, block=1, loud=N_LOUD),
}


def read_threshold(mechanism: OurMechanism) -> int:
    [case] = [
        c for c in json.loads(THRESHOLDS_FILE.read_text()) if c["epsilon"] == mechanism.epsilon
    ]
    if isinstance(mechanism, Coordinate):
        return int(case["flip"], 16)
    [uniform] = [word for loud, n, word in case["uniform"] if (loud, n) == (N_LOUD, N_ITEMS)]
    return int(uniform, 16)


def make_draws(word: int) -> np.ndarray:
    """Return draws of random directions in which every coin is `word`; ties are in order."""
    rng = np.random.default_rng(11)
    words = rng.integers(0, 2**64, (1, N_REPORTS + 1, WORDS_PER_DRAW), dtype=np.uint64)
    words[..., COIN_WORD] = word
    words[:, -1] = 0
    return words


def compute_sides(mechanism: OurMechanism) -> tuple[list[int], list[int]]:
    """Return the reports of words below the threshold and of others, by the definition."""
    words = [[int(word) for word in draw] for draw in make_draws(0)[0, :-1]]
    density = mechanism.densities(V, X, OWN_HISTORY)[0]
    if isinstance(mechanism, Coordinate):
        index = [word[DIRECTION_WORD] * mechanism.n_directions >> 64 for word in words]
        unflipped = [i << 1 | int(density[i << 1 | 1] > density[i << 1]) for i in index]
        return [report ^ 1 for report in unflipped], unflipped
    loud = np.flatnonzero(density > 1).tolist()
    assert len(loud) == N_LOUD
    uniform = [word[DIRECTION_WORD] * 2 * N_ITEMS >> 64 for word in words]
    # Rows ascend, but the row with the smallest agreement is at the threshold and comes last.
    touched = np.isin(np.arange(N_ITEMS), OWN_HISTORY[0])
    by_item = np.abs((1 + touched) * (touched - V[:, 0] * X[0, 0]))
    agreement = dict(zip(mechanism.blocks.places.tolist(), by_item.tolist(), strict=True))
    last = min(loud, key=lambda signed: agreement[signed >> 1])
    loud.sort(key=lambda signed: (signed == last, signed))
    return uniform, [loud[word[DIRECTION_WORD] * N_LOUD >> 64] for word in words]


def make_reports(mechanism: OurMechanism, word: int) -> list[int]:
    return [int(report) for report in mechanism.reports(V, X, OWN_HISTORY, make_draws(word))[0]]


@pytest.mark.parametrize("epsilon", TESTED_EPSILONS)
@pytest.mark.parametrize("name", BUILDERS)
def test_words_below_the_threshold_flip_and_others_do_not(name: str, epsilon: float) -> None:
    mechanism = BUILDERS[name](epsilon)
    threshold = read_threshold(mechanism)
    assert 1 < threshold < WORD_RANGE - 2
    below, beyond = compute_sides(mechanism)
    assert below != beyond
    for word in (0, 1, threshold // 2, threshold - 1):
        assert make_reports(mechanism, word) == below
    for word in (threshold, threshold + 1, WORD_RANGE - 1):
        assert make_reports(mechanism, word) == beyond
