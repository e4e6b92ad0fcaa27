from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.simulation.cpu.philox import begin_draws, fill_words
from sottovoce.simulation.cpu.philox import philox as compiled
from sottovoce.simulation.people import philox, report_words

words64 = st.integers(0, 2**64 - 1)


def from_numpy(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """numpy steps its counter before the first block, so it starts one earlier."""
    whole = sum(word << (64 * i) for i, word in enumerate(counter))
    whole = (whole - 1) % (1 << 256)
    generator = np.random.Philox(key=key[0] | key[1] << 64, counter=whole)
    return [int(word) for word in generator.random_raw(4)]


@given(words64, words64, words64, words64, words64, words64)
def test_it_is_numpys_philox(k0: int, k1: int, c0: int, c1: int, c2: int, c3: int) -> None:
    got = philox((k0, k1), np.array([c0], np.uint64), np.array([c1], np.uint64), c2, c3)
    assert got[0].tolist() == from_numpy((k0, k1), (c0, c1, c2, c3))


def test_the_compiled_one_is_the_same() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        seed, purpose = rng.integers(0, 2**64, 2, dtype=np.uint64)
        c0, c1, c2 = (int(c) for c in rng.integers(0, 2**40, 3))
        expected = philox((int(seed), int(purpose)), np.array([c0]), np.array([c1]), c2, 0)[0]
        assert [int(w) for w in compiled(seed, purpose, c0, c1, c2)] == expected.tolist()


@given(words64, st.integers(0, 2**20), st.integers(0, 2**40), st.integers(1, 8))
def test_draws_that_were_begun_for_everybody_end_in_the_same_words(
    seed: int, epoch: int, user: int, draws: int
) -> None:
    words = np.zeros((draws, 3), np.uint64)
    fill_words(np.uint64(seed), epoch, user, begin_draws(draws), words)
    assert np.array_equal(words, report_words(seed, epoch, np.array([user]), draws)[0, :draws, :3])


def test_a_users_words_depend_on_nobody_else() -> None:
    everybody = report_words(3, 2, np.arange(10), 5)
    assert everybody.shape == (10, 6, 4)
    assert np.array_equal(report_words(3, 2, np.array([7]), 5)[0], everybody[7])
    assert np.array_equal(report_words(3, 2, np.array([7]), 2)[0], everybody[7, :3])
    assert len(np.unique(everybody)) == everybody.size
    assert not np.array_equal(report_words(3, 3, np.arange(10), 5), everybody)
    assert not np.array_equal(report_words(4, 2, np.arange(10), 5), everybody)
