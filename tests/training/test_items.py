"""The next item matrix: how far a row may move, with many people, with few, and under attack."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.training import Settings, compute_next_items, make_first_items
from sottovoce.training.items import (
    DEFAULT_ROW_LIMIT,
    FULL_MEMORY_EPOCHS,
    limit_row_lengths,
    measure_typical_row_length,
)

ESTIMATE_ARRAYS = arrays(np.float64, (9, 3), elements=st.integers(-1000, 1000).map(float))
N_ITEMS = 400


@given(ESTIMATE_ARRAYS, st.floats(0.1, 9.0), st.floats(1.0, 99.0))
def test_long_rows_are_shortened_and_keep_their_direction(
    estimate: np.ndarray, times: float, memory: float
) -> None:
    lengths = np.linalg.norm(estimate, axis=1)
    limited = limit_row_lengths(estimate, times, memory)
    max_length = times * measure_typical_row_length(estimate, memory)
    assert (np.linalg.norm(limited, axis=1) <= max_length * (1 + 1e-9)).all()
    is_short = lengths <= max_length
    assert np.allclose(limited[is_short], estimate[is_short], rtol=1e-12)
    assert np.allclose(np.cross(limited, estimate), 0, atol=1e-6)
    assert ((limited * estimate).sum(axis=1) >= 0).all()
    assert limited.any() == estimate.any()


@given(ESTIMATE_ARRAYS, arrays(np.float64, (2, 3), elements=st.sampled_from([-1e9, 1e9])))
def test_attackers_of_less_than_a_quarter_of_the_rows_do_not_set_the_limit(
    estimate: np.ndarray, attack: np.ndarray
) -> None:
    honest = estimate + 2000  # every row moves
    longest = np.linalg.norm(honest, axis=1).max()
    rows = np.concatenate([honest, attack])
    assert measure_typical_row_length(rows, FULL_MEMORY_EPOCHS) <= longest * (1 + 1e-9)


def test_rows_may_move_farther_in_a_training_of_few_epochs() -> None:
    estimate = np.random.default_rng(0).normal(size=(50, 3))
    length = measure_typical_row_length(estimate, 10 * FULL_MEMORY_EPOCHS)
    assert measure_typical_row_length(estimate, FULL_MEMORY_EPOCHS) == length
    in_five_epochs = measure_typical_row_length(estimate, 5)
    assert in_five_epochs == pytest.approx(length * FULL_MEMORY_EPOCHS / 5)


@pytest.mark.parametrize("epochs", [1, 20])
@pytest.mark.parametrize("reports", [1, 20, 20_000])
def test_few_reports_move_rows_and_a_flood_is_limited(epochs: int, reports: int) -> None:
    """Few reports leave most rows unmoved: a limit from the median of all rows would be 0."""
    settings = Settings.preset("loudest", epochs=epochs, factors=2, block=1, loud=1)
    mechanism, V = settings.build(N_ITEMS), make_first_items(settings, N_ITEMS)
    drawn = np.random.default_rng(reports).choice([-1, 1], (reports, N_ITEMS * 2))
    sums = np.zeros(N_ITEMS * 2, np.int64)
    np.add.at(sums, np.arange(reports) % len(sums), drawn[:, 0])
    flooded = sums.copy()
    flooded[-1] += 100 * (reports + 10)

    def measure_rows(sums: np.ndarray, row_limit: float) -> np.ndarray:
        after = compute_next_items(V, sums, reports, 1, settings, mechanism, row_limit=row_limit)
        return np.asarray(np.linalg.norm(after, axis=1))

    free, limited = measure_rows(sums, 0.0), measure_rows(sums, DEFAULT_ROW_LIMIT)
    assert ((limited > 1e-3) == (free > 1e-3)).all()
    assert limited.max() > 1e-3
    if reports > 1:
        without_limit = measure_rows(flooded, 0.0).max()
        assert measure_rows(flooded, DEFAULT_ROW_LIMIT).max() < 0.2 * without_limit
