"""Tests of the bootstrap over people, by normal values whose differences are known."""

import numpy as np
import pytest

from sottovoce_lab.bootstrap import Difference, compute_differences, compute_resampled_means

PEOPLE = 120


def compare(values: dict[str, np.ndarray]) -> dict[str, Difference]:
    draws = {name: np.array(own) for name, own in compute_resampled_means(values).items()}
    return compute_differences({name: float(own.mean()) for name, own in values.items()}, draws)


def test_interval_of_a_difference_covers_it() -> None:
    # Values of one person belong together: the interval is of the difference, not of the two.
    rng, covered, widths = np.random.default_rng(0), 0, []
    for _ in range(100):
        shared = rng.normal(0, 1, PEOPLE)
        ours, theirs = (shared + rng.normal(mean, 0.2, PEOPLE) for mean in (0.3, 0.1))
        difference = compare({"x": ours - theirs})["x"]
        covered += difference.low <= 0.2 <= difference.high
        widths.append(difference.high - difference.low)
    assert 0.88 < covered / 100 < 1
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 0.2 * np.sqrt(2 / PEOPLE), rel=0.1)


def test_intervals_of_a_table_hold_together() -> None:
    # Twenty intervals that hold one by one would all hold in only 36 of 100 tables.
    rng, covered = np.random.default_rng(1), 0
    for _ in range(60):
        table = compare({f"{n}": rng.normal(n, 1 + n, PEOPLE) for n in range(20)})
        covered += all(own.low <= int(n) <= own.high for n, own in table.items())
    assert covered / 60 > 0.8


def test_equal_methods_have_no_difference() -> None:
    values = {"same": np.zeros(PEOPLE), "other": np.random.default_rng(2).normal(0, 1, PEOPLE)}
    assert compare(values)["same"] == Difference(0.0, 0.0, 0.0)
    assert compute_differences({}, {}) == {}


def test_draws_are_the_same_for_every_method() -> None:
    values = np.arange(30.0)
    together = compute_resampled_means({"a": values, "b": 2 * values})
    assert np.allclose(np.multiply(2, together["a"]), together["b"], atol=1e-6)
    assert compute_resampled_means({"b": 2 * values})["b"] == together["b"]
