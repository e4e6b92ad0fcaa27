from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation import (
    Ranks,
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    rank_hidden,
    recall,
    summary_of_several,
)

Person = tuple[list[float], set[int], set[int]]
"""Scores, what they have, and what is hidden."""


@st.composite
def people(draw: st.DrawFn, most_items: int = 6) -> list[Person]:
    """With few different scores, so that many are alike."""
    n_items = draw(st.integers(1, most_items))
    scores = st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=n_items, max_size=n_items)
    marks = st.lists(st.sampled_from(["has", "hidden", ""]), min_size=n_items, max_size=n_items)
    found = []
    for _ in range(draw(st.integers(1, 4))):
        own = draw(marks)
        has, hidden = ({i for i in range(n_items) if own[i] == name} for name in ("has", "hidden"))
        found.append((draw(scores), has, hidden))
    return found


def several(some: list[Person]) -> tuple[Ranks, Histories]:
    n_items = len(some[0][0])
    known = Histories.from_lists([sorted(has) for _, has, _ in some], n_items)
    hidden = Histories.from_lists([sorted(hidden) for _, _, hidden in some], n_items)
    V = np.array([scores for scores, _, _ in some], np.float32).T.copy()
    return rank_hidden(np.eye(len(some), dtype=np.float32), V, known, hidden), hidden


def orders(person: Person) -> list[list[int]]:
    """Every order of the items they do not have in which no score goes up, all equally likely."""
    scores, has, _ = person
    left = [item for item in range(len(scores)) if item not in has]
    best = sorted((scores[item] for item in left), reverse=True)
    return [[*order] for order in permutations(left) if [scores[i] for i in order] == best]


def naive_recall(person: Person, cutoff: int) -> float:
    hidden = person[2]
    found = [len(hidden & {*order[:cutoff]}) for order in orders(person)]
    return float(np.mean(found)) / min(cutoff, len(hidden))


def naive_ndcg(person: Person, cutoff: int) -> float:
    hidden = person[2]

    def dcg(relevant: list[bool]) -> float:
        return sum(yes / float(np.log2(place + 2)) for place, yes in enumerate(relevant[:cutoff]))

    found = [dcg([item in hidden for item in order]) for order in orders(person)]
    return float(np.mean(found)) / dcg([True] * len(hidden))


@given(people(), st.integers(1, 7))
def test_both_are_means_over_all_orders_of_equal_scores(some: list[Person], cutoff: int) -> None:
    ranks, hidden = several(some)
    asked = [person for person in some if person[2]]
    if not asked:
        with pytest.raises(DataError):
            recall(ranks, hidden, cutoff)
        return
    expected = np.mean([naive_recall(person, cutoff) for person in asked])
    assert recall(ranks, hidden, cutoff) == pytest.approx(expected)
    expected = np.mean([naive_ndcg(person, cutoff) for person in asked])
    assert ndcg_of_several(ranks, hidden, cutoff) == pytest.approx(expected)


def test_what_a_person_has_competes_with_nothing() -> None:
    ranks, _ = several([([9.0, 8.0, 7.0, 7.0], {0}, {2})])
    assert (ranks.better.tolist(), ranks.ties.tolist()) == ([1], [1])


def test_recall_is_divided_by_what_could_be_found() -> None:
    ranks, hidden = several([([5.0, 4.0, 3.0, 2.0, 1.0], set(), {0, 1, 4})])
    assert recall(ranks, hidden, 2) == 1.0
    assert recall(ranks, hidden, 4) == pytest.approx(2 / 3)
    assert recall(ranks, hidden, 5) == 1.0
    best = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg_of_several(ranks, hidden, 5) == pytest.approx((best - 0.5 + 1 / np.log2(6)) / best)


def test_a_model_that_knows_nothing_is_as_good_as_chance() -> None:
    hidden = Histories.from_lists([list(range(10))] * 3, 100)
    known = Histories.from_lists([list(range(50, 90))] * 3, 100)
    nothing = np.zeros((3, 2), np.float32)
    ranks = rank_hidden(nothing, np.ones((100, 2), np.float32), known, hidden)
    assert recall(ranks, hidden, 12) == pytest.approx(12 / 60 * 10 / 10)


def test_the_summary_is_that_of_the_literature() -> None:
    ranks, hidden = several([([5.0, 4.0, 3.0], set(), {0})])
    assert summary_of_several(ranks, hidden) == {"recall@20": 1, "recall@50": 1, "ndcg@100": 1}


def test_the_first_of_several_counts() -> None:
    hidden = Histories.from_lists([[1, 2], [0, 3], [], [4]], 5)
    ranks = Ranks(np.array([3, 1, 12, 40, 11]), np.zeros(5, np.int64))
    assert hit_ratio_of_several(ranks, hidden, 10) == pytest.approx(1 / 3)
    assert mrr_of_several(ranks, hidden, 10) == pytest.approx(1 / 2 / 3)
    assert mrr_of_several(ranks, hidden, 12) == pytest.approx((1 / 2 + 1 / 12) / 3)
    with pytest.raises(DataError, match="nobody"):
        mrr_of_several(Ranks(*np.zeros((2, 0), np.int64)), Histories.from_lists([[]], 5), 10)
