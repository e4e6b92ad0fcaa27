"""The next item matrix: how far a row may move, with many people, with few, and against liars."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.training import Settings, first_items, next_items
from sottovoce.training.items import MANY, ROW_LIMIT, limited, usual_way

ESTIMATES = arrays(np.float64, (9, 3), elements=st.integers(-1000, 1000).map(float))
ITEMS = 400


@given(ESTIMATES, st.floats(0.1, 9.0), st.floats(1.0, 99.0))
def test_no_row_is_longer_than_allowed_and_none_turns(
    estimate: np.ndarray, times: float, memory: float
) -> None:
    lengths = np.linalg.norm(estimate, axis=1)
    kept, most = limited(estimate, times, memory), times * usual_way(estimate, memory)
    assert (np.linalg.norm(kept, axis=1) <= most * (1 + 1e-9)).all()
    short = lengths <= most
    assert np.allclose(kept[short], estimate[short], rtol=1e-12)
    assert np.allclose(np.cross(kept, estimate), 0, atol=1e-6)
    assert ((kept * estimate).sum(axis=1) >= 0).all()
    assert kept.any() == estimate.any()


@given(ESTIMATES, arrays(np.float64, (2, 3), elements=st.sampled_from([-1e9, 1e9])))
def test_whoever_has_fewer_than_a_quarter_of_the_rows_does_not_set_the_limit(
    estimate: np.ndarray, lies: np.ndarray
) -> None:
    honest = estimate + 2000  # every row moves
    longest = np.linalg.norm(honest, axis=1).max()
    assert usual_way(np.concatenate([honest, lies]), MANY) <= longest * (1 + 1e-9)


def test_a_training_of_few_epochs_moves_farther_in_each() -> None:
    estimate = np.random.default_rng(0).normal(size=(50, 3))
    long = usual_way(estimate, 10 * MANY)
    assert usual_way(estimate, MANY) == long
    assert usual_way(estimate, 5) == pytest.approx(long * MANY / 5)


@pytest.mark.parametrize("epochs", [1, 20])
@pytest.mark.parametrize("reports", [1, 20, 20_000])
def test_few_reports_are_learnt_from_and_a_flood_is_held_back(epochs: int, reports: int) -> None:
    """Few ones leave most rows where they are: their median would let nothing move."""
    settings = Settings.preset("loudest", epochs=epochs, factors=2, block=1, loud=1)
    mechanism, V = settings.build(ITEMS), first_items(settings, ITEMS)
    drawn = np.random.default_rng(reports).choice([-1, 1], (reports, ITEMS * 2))
    sums = np.zeros(ITEMS * 2, np.int64)
    np.add.at(sums, np.arange(reports) % len(sums), drawn[:, 0])
    flooded = sums.copy()
    flooded[-1] += 100 * (reports + 10)

    def moved(sums: np.ndarray, row_limit: float) -> np.ndarray:
        after = next_items(V, sums, reports, 1, settings, mechanism, row_limit=row_limit)
        return np.asarray(np.linalg.norm(after, axis=1))

    free, held = moved(sums, 0.0), moved(sums, ROW_LIMIT)
    assert ((held > 1e-3) == (free > 1e-3)).all()
    assert held.max() > 1e-3
    if reports > 1:
        assert moved(flooded, ROW_LIMIT).max() < 0.2 * moved(flooded, 0.0).max()
