from __future__ import annotations

import numpy as np
import pytest

from sottovoce.errors import DataError
from sottovoce.simulation.evaluation import Interval, Ranks, hit_ratio, mrr, ndcg, summary


def ranks(better: list[int], ties: list[int]) -> Ranks:
    return Ranks(np.array(better), np.array(ties))


def test_hit_ratio_counts_the_first_k() -> None:
    assert hit_ratio(ranks([0, 9, 10, 50], [0] * 4), 10) == 0.5


def test_a_tie_across_the_border_counts_half() -> None:
    assert hit_ratio(ranks([9], [1]), 10) == 0.5
    assert hit_ratio(ranks([8], [1]), 10) == 1.0
    assert hit_ratio(ranks([10], [1]), 10) == 0.0


def test_a_model_that_scores_everything_alike_is_as_good_as_chance() -> None:
    assert hit_ratio(ranks([0], [99]), 10) == pytest.approx(0.1)


def test_ndcg() -> None:
    assert ndcg(ranks([0], [0]), 10) == 1
    assert ndcg(ranks([1], [0]), 10) == pytest.approx(1 / np.log2(3))
    assert ndcg(ranks([10], [0]), 10) == 0
    assert ndcg(ranks([0], [1]), 10) == pytest.approx((1 + 1 / np.log2(3)) / 2)
    assert ndcg(ranks([9], [1]), 10) == pytest.approx(1 / np.log2(11) / 2)


def test_mrr() -> None:
    assert mrr(ranks([0, 3], [0, 0]), 10) == pytest.approx((1 + 1 / 4) / 2)
    assert mrr(ranks([10], [0]), 10) == 0
    assert mrr(ranks([0], [1]), 10) == pytest.approx((1 + 1 / 2) / 2)
    assert mrr(ranks([9], [1]), 10) == pytest.approx(1 / 10 / 2)


def test_summary_names_what_it_gives() -> None:
    assert set(summary(ranks([0], [0]))) == {"hr@2", "hr@5", "hr@10", "ndcg@10", "mrr@10"}
    with pytest.raises(DataError, match="nobody"):
        summary(ranks([], []))


def test_an_interval_is_students() -> None:
    interval = Interval.of([0.50, 0.52, 0.54])
    assert interval.mean == pytest.approx(0.52)
    assert interval.half_width == pytest.approx(4.302652729911275 * 0.02 / np.sqrt(3))
    assert str(Interval.of([0.5])) == "0.5000"
    assert "±" in str(interval)
    with pytest.raises(DataError):
        Interval.of([])


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """2,000 intervals of 5 runs: 95% within 5 sigma; fixed seed."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        interval = Interval.of(rng.standard_normal(5).tolist())
        assert interval.half_width is not None
        covered += abs(interval.mean) <= interval.half_width
    assert abs(covered / 2000 - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 2000)
