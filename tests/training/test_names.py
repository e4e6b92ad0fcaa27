"""The server's memory in a training of names."""

import numpy as np
import pytest

from sottovoce.core import Named, Shape
from sottovoce.training.names import NameCounts

K = 10


def add(counts: NameCounts, named: list[int], fade: float = 0.5) -> NameCounts:
    """Add an epoch whose outcomes are certain: the largest epsilon needs no correction."""
    mechanism = Named(Shape(counts.table.shape[1], 1, 1.0), 40.0, K)
    outcomes = np.bincount(np.array(named, int) + 1, minlength=K)
    return counts.add_epoch(mechanism, outcomes, len(named), fade)


def test_all_items_are_equal_before_the_first_epoch() -> None:
    assert NameCounts.make_empty(4).compute_shares().tolist() == [0.25] * 4


def test_shares_follow_the_latest_epochs_and_sum_to_one() -> None:
    counts = add(NameCounts.make_empty(3), [0] * 9_000 + [1] * 1_000)
    first = counts.compute_shares()
    for _ in range(6):
        counts = add(counts, [1] * 10_000)
    last = counts.compute_shares()
    assert first.argmax() == 0
    assert last.argmax() == 1
    # The share of the long run remains in the smoothing.
    assert 0.01 < last[0] < 0.05
    assert 0 < last[2] < first[2]
    assert last.sum() == pytest.approx(1, rel=1e-6)


def test_an_epoch_of_few_reports_moves_little() -> None:
    counts = add(NameCounts.make_empty(3), [0] * 5_000 + [1] * 5_000)
    moved = add(counts, [2] * 10).compute_shares()[2] - counts.compute_shares()[2]
    assert 0 < moved < 0.01


def test_a_new_item_has_no_share_until_it_could_be_named_and_no_handicap_then() -> None:
    counts = add(NameCounts.make_empty(2), [0] * 5_000 + [1] * 5_000).add_items(3)
    assert counts.compute_shares()[2] == 0
    shares = add(counts, [0] * 3_000 + [1] * 3_000 + [2] * 3_000).compute_shares()
    # The others have earlier reports too, in which the new item could not be named.
    assert shares[2] == pytest.approx(shares[0], rel=0.25)


def test_popularity_of_an_earlier_training_is_the_first_long_run() -> None:
    V = np.array([[3.0], [1.0], [0.0]], np.float32)
    shares = NameCounts.from_items(V).compute_shares()
    np.testing.assert_allclose(shares, [0.75, 0.25, 0.0], atol=0.03)
    # Nobody could name the last item yet.
    assert shares[2] == 0


def test_columns_beyond_the_first_stay() -> None:
    before = np.arange(12, dtype=np.float32).reshape(3, 4)
    V = add(NameCounts.make_empty(3), [0] * 10).update_items(before)
    assert V.dtype == np.float32
    assert np.array_equal(V[:, 1:], before[:, 1:])
    assert V[:, 0].sum() == pytest.approx(1, rel=2**-8)
