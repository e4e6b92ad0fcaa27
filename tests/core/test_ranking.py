"""The best of many scores: the same as by a plain sort, and always in the same time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.recommending import best_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROWS = 200_000
values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324]) | st.floats()


def by_a_plain_sort(scores: list[float], own: set[int], n: int) -> list[int]:
    left = [row for row in range(len(scores)) if row not in own]
    keys = [float("inf") if np.isnan(score) else -score for score in scores]
    return sorted(left, key=lambda row: keys[row])[:n]


@given(st.lists(values, max_size=60), st.sets(st.integers(0, 59)), st.integers(1, 70))
def test_it_is_what_a_plain_sort_gives(scores: list[float], some: set[int], n: int) -> None:
    own = {row for row in some if row < len(scores)}
    found = best_rows(np.array(scores, np.float64), sorted(own), n)
    assert found.tolist() == by_a_plain_sort(scores, own, n)


def orders() -> dict[str, NDArray[np.float64]]:
    ascending = np.sort(np.random.default_rng(1).standard_normal(ROWS))
    return {
        "ascending": ascending,
        "descending": ascending[::-1].copy(),
        "random": np.random.default_rng(2).permutation(ascending),
        "constant": np.full(ROWS, 0.5),
    }


def ratio_of_times(work: Callable[[NDArray[np.float64]], object]) -> float:
    """Of processor time, the slowest order to the quickest; each the best of several turns."""
    cases = orders()
    turns: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(9):
        for name, scores in cases.items():
            began = time.process_time()
            work(scores)
            turns[name].append(time.process_time() - began)
    best = [min(each) for each in turns.values()]
    return max(best) / min(best)


def test_no_order_of_scores_takes_longer_than_another() -> None:
    """But for the processor's cache. A sort that compares tells them apart by far."""
    assert ratio_of_times(lambda scores: np.argsort(-scores, kind="stable")) > 8
    assert ratio_of_times(lambda scores: best_rows(scores, [3, 5], 10)) < 3
