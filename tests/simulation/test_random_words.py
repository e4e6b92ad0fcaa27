"""Random words of simulated people: Philox as in numpy, and whose turn it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce.simulation.cpu.philox import compute_draw_products, fill_words
from sottovoce.simulation.random_words import draw_participants, draw_report_words, philox

# The chance that a test fails though all is right.
FALSE_ALARM = 1e-7

any_word = st.integers(0, 2**64 - 1)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**53 - 1))
def test_everybody_takes_all_of_their_turns(turns: int, more: int, seed: int) -> None:
    epochs = turns + more
    parts = [
        draw_participants(seed, epoch, np.arange(40), turns, epochs) for epoch in range(epochs)
    ]
    assert (np.sum(parts, axis=0) == turns).all()


@pytest.mark.parametrize(("turns", "epochs"), [(1, 20), (3, 7)])
def test_epochs_are_equally_likely_and_people_independent(turns: int, epochs: int) -> None:
    n = 20_000
    parts = np.array([draw_participants(7, e, np.arange(n), turns, epochs) for e in range(epochs)])
    crowds = parts.sum(axis=1)
    # The sum of the crowds is fixed, so they vary less than independent ones, by T / (T - E).
    spread = (crowds - n * turns / epochs) ** 2 / (n * turns / epochs)
    assert stats.chi2.sf(spread.sum() * (epochs - 1) / (epochs - turns), epochs - 1) > FALSE_ALARM
    both = (parts[0, :-1] & parts[0, 1:]).sum()
    chance = (turns / epochs) ** 2
    assert stats.binomtest(int(both), n - 1, chance).pvalue > FALSE_ALARM


def draw_from_numpy(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    # numpy steps its counter before the first block, so it starts one earlier.
    whole = sum(word << (64 * i) for i, word in enumerate(counter))
    whole = (whole - 1) % (1 << 256)
    generator = np.random.Philox(key=key[0] | key[1] << 64, counter=whole)
    return [int(word) for word in generator.random_raw(4)]


@given(any_word, any_word, any_word, any_word, any_word, any_word)
def test_philox_is_that_of_numpy(k0: int, k1: int, c0: int, c1: int, c2: int, c3: int) -> None:
    words = philox((k0, k1), np.array([c0], np.uint64), np.array([c1], np.uint64), c2, c3)
    assert words[0].tolist() == draw_from_numpy((k0, k1), (c0, c1, c2, c3))


@given(any_word, st.integers(0, 2**20), st.integers(0, 2**40), st.integers(1, 8))
def test_compiled_draws_give_the_same_words(seed: int, epoch: int, user: int, draws: int) -> None:
    words = np.zeros((draws, 3), np.uint64)
    fill_words(np.uint64(seed), epoch, user, compute_draw_products(draws), words)
    assert np.array_equal(
        words, draw_report_words(seed, epoch, np.array([user]), draws)[0, :draws, :3]
    )


def test_words_of_a_user_do_not_depend_on_others() -> None:
    everybody = draw_report_words(3, 2, np.arange(10), 5)
    assert everybody.shape == (10, 6, 4)
    assert np.array_equal(draw_report_words(3, 2, np.array([7]), 5)[0], everybody[7])
    assert np.array_equal(draw_report_words(3, 2, np.array([7]), 2)[0], everybody[7, :3])
    assert len(np.unique(everybody)) == everybody.size
    assert not np.array_equal(draw_report_words(3, 3, np.arange(10), 5), everybody)
    assert not np.array_equal(draw_report_words(4, 2, np.arange(10), 5), everybody)
