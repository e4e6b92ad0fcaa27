"""Metrics of ranks: of one hidden item, of several, and of the items that lists show."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.metrics import (
    Interval,
    count_exposure,
    hit_ratio,
    hit_ratio_of_several,
    mrr,
    mrr_of_several,
    ndcg,
    ndcg_of_several,
    recall,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import Ranks, rank_hidden
from tests.people import histories


def make_ranks(better: list[int], ties: list[int]) -> Ranks:
    return Ranks(np.array(better), np.array(ties))


def test_summary_names_its_metrics() -> None:
    assert set(summarize_ranks(make_ranks([0], [0]))) == {
        "hr@2",
        "hr@5",
        "hr@10",
        "ndcg@10",
        "mrr@10",
    }
    with pytest.raises(DataError):
        summarize_ranks(make_ranks([], []))


def test_interval_is_that_of_students_t() -> None:
    interval = Interval.from_values([0.50, 0.52, 0.54])
    assert interval.mean == pytest.approx(0.52)
    assert interval.half_width == pytest.approx(4.302652729911275 * 0.02 / np.sqrt(3))
    assert str(Interval.from_values([0.5])) == "0.5000"
    assert "±" in str(interval)
    with pytest.raises(DataError):
        Interval.from_values([])


# Scores, the items that a person has, and the hidden ones.
Person = tuple[list[float], set[int], set[int]]


@st.composite
def people(draw: st.DrawFn) -> list[Person]:
    """Draw people with few different scores, so that many items tie."""
    n_items = draw(st.integers(1, 6))
    scores = st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=n_items, max_size=n_items)
    marks = st.lists(st.sampled_from(["has", "hidden", ""]), min_size=n_items, max_size=n_items)
    drawn = []
    for _ in range(draw(st.integers(1, 4))):
        own = draw(marks)
        has, hidden = ({i for i in range(n_items) if own[i] == name} for name in ("has", "hidden"))
        drawn.append((draw(scores), has, hidden))
    return drawn


def rank_people(people: list[Person]) -> tuple[Ranks, Histories]:
    n_items = len(people[0][0])
    own = Histories.from_lists([sorted(has) for _, has, _ in people], n_items)
    hidden = Histories.from_lists([sorted(hidden) for _, _, hidden in people], n_items)
    V = np.array([scores for scores, _, _ in people], np.float32).T.copy()
    return rank_hidden(np.eye(len(people), dtype=np.float32), V, own, hidden), hidden


def list_orders(person: Person) -> list[list[int]]:
    """List the orders of a person's other items in which no score goes up, all equally likely."""
    scores, has, _ = person
    others = [item for item in range(len(scores)) if item not in has]
    best = sorted((scores[item] for item in others), reverse=True)
    return [[*order] for order in permutations(others) if [scores[i] for i in order] == best]


def compute_naive_recall(person: Person, cutoff: int) -> float:
    hidden = person[2]
    n_hits = [len(hidden & {*order[:cutoff]}) for order in list_orders(person)]
    return float(np.mean(n_hits)) / min(cutoff, len(hidden))


def compute_naive_ndcg(person: Person, cutoff: int) -> float:
    hidden = person[2]

    def sum_gains(hits: list[bool]) -> float:
        return sum(hit / float(np.log2(place + 2)) for place, hit in enumerate(hits[:cutoff]))

    gains = [sum_gains([item in hidden for item in order]) for order in list_orders(person)]
    return float(np.mean(gains)) / sum_gains([True] * len(hidden))


@given(people(), st.integers(1, 7))
def test_recall_and_ndcg_are_means_over_all_orders_of_ties(
    people: list[Person], cutoff: int
) -> None:
    ranks, hidden = rank_people(people)
    tested = [person for person in people if person[2]]
    if not tested:
        with pytest.raises(DataError):
            recall(ranks, hidden, cutoff)
        return
    expected = np.mean([compute_naive_recall(person, cutoff) for person in tested])
    assert recall(ranks, hidden, cutoff) == pytest.approx(expected)
    expected = np.mean([compute_naive_ndcg(person, cutoff) for person in tested])
    assert ndcg_of_several(ranks, hidden, cutoff) == pytest.approx(expected)


def test_hit_ratio_and_mrr_count_the_first_of_several() -> None:
    hidden = Histories.from_lists([[1, 2], [0, 3], [], [4]], 5)
    ranks = Ranks(np.array([3, 1, 12, 40, 11]), np.zeros(5, np.int64))
    assert hit_ratio_of_several(ranks, hidden, 10) == pytest.approx(1 / 3)
    assert mrr_of_several(ranks, hidden, 10) == pytest.approx(1 / 2 / 3)
    assert mrr_of_several(ranks, hidden, 12) == pytest.approx((1 / 2 + 1 / 12) / 3)
    with pytest.raises(DataError):
        mrr_of_several(Ranks(*np.zeros((2, 0), np.int64)), Histories.from_lists([[]], 5), 10)


@given(histories(max_items=15), st.integers(1, 6), st.integers(0, 2**32))
def test_exposure_counts_sorted_lists(h: Histories, length: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 4, (h.n_users, h.n_items)).astype(np.float32)
    expected = np.zeros(h.n_items, np.int64)
    for user, row in enumerate(scores):
        others = np.setdiff1d(np.arange(h.n_items), h[user])
        expected[others[np.argsort(-row[others], kind="stable")][:length]] += 1
    X, V = np.eye(h.n_users, dtype=np.float32), np.ascontiguousarray(scores.T)
    assert np.array_equal(count_exposure(X, V, h, length), expected)


@pytest.mark.parametrize(
    ("measure", "better", "ties", "expected"),
    [
        (hit_ratio, [0, 9, 10, 50], [0] * 4, 0.5),
        (hit_ratio, [9, 8, 10], [1] * 3, (0.5 + 1 + 0) / 3), (hit_ratio, [0], [99], 0.1),
        (ndcg, [0, 10], [0, 0], 1 / 2), (ndcg, [1], [0], 1 / np.log2(3)),
        (ndcg, [0], [1], (1 + 1 / np.log2(3)) / 2), (ndcg, [9], [1], 1 / np.log2(11) / 2),
        (mrr, [0, 3], [0, 0], (1 + 1 / 4) / 2), (mrr, [10], [0], 0),
        (mrr, [0], [1], (1 + 1 / 2) / 2), (mrr, [9], [1], 1 / 10 / 2),
    ],
)  # fmt: skip
def test_ties_share_their_places(
    measure: Any, better: list[int], ties: list[int], expected: float
) -> None:
    assert measure(make_ranks(better, ties), 10) == pytest.approx(expected)
