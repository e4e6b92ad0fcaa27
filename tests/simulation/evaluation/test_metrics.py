"""Metrics of ranks: of one hidden item, of several, and of the items that lists show."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import average_precision_score, ndcg_score

from sottovoce.core import Histories
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.metrics import (
    Interval,
    Metric,
    compute_by_person,
    compute_novelty,
    count_exposure,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.quality import measure_exposure
from sottovoce.simulation.evaluation.ranking import Ranks, rank_and_list, rank_hidden
from tests.people import histories
from tests.simulation.evaluation.test_ranking import Matrix


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


def compute_naive_map(person: Person, cutoff: int) -> float:
    hidden, sums = person[2], []
    for order in list_orders(person):
        hits = [item in hidden for item in order]
        precisions = [sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits[:cutoff]) if hit]
        sums.append(sum(precisions))
    return float(np.mean(sums)) / min(cutoff, len(hidden))


@given(people(), st.integers(1, 7))
def test_recall_and_ndcg_are_means_over_all_orders_of_ties(
    people: list[Person], cutoff: int
) -> None:
    ranks, _ = rank_people(people)
    tested = [person for person in people if person[2]]
    n_hidden = np.array([len(person[2]) for person in tested], np.int64)
    naive = {"recall": compute_naive_recall, "ndcg": compute_naive_ndcg, "map": compute_naive_map}
    for kind, compute in naive.items():
        values = compute_by_person(Metric(kind, cutoff), ranks, n_hidden)
        assert values == pytest.approx([compute(person, cutoff) for person in tested])
    precisions = compute_by_person(Metric("precision", cutoff), ranks, n_hidden)
    recalls = compute_by_person(Metric("recall", cutoff), ranks, n_hidden)
    assert precisions * cutoff == pytest.approx(recalls * np.minimum(n_hidden, cutoff))
    if not tested:
        with pytest.raises(DataError):
            summarize_ranks(ranks, [f"recall@{cutoff}"], n_hidden)


def test_hit_ratio_and_mrr_count_the_first_of_several() -> None:
    ranks = Ranks(np.array([3, 1, 12, 40, 11]), np.zeros(5, np.int64))
    names = ["hr@10", "mrr@10", "mrr@12", "precision@10", "map@12"]
    values = summarize_ranks(ranks, names, np.array([2, 2, 1]))
    expected = [
        1 / 3,
        1 / 2 / 3,
        (1 / 2 + 1 / 12) / 3,
        2 / 10 / 3,
        ((1 / 2 + 2 / 4) / 2 + 1 / 12) / 3,
    ]
    assert list(values.values()) == pytest.approx(expected)
    with pytest.raises(DataError):
        summarize_ranks(Ranks(*np.zeros((2, 0), np.int64)), ["mrr@10"], np.zeros(0, np.int64))


@pytest.mark.parametrize("cutoff", [1, 5, 30])
def test_ndcg_is_that_of_scikit_learn(cutoff: int) -> None:
    rng = np.random.default_rng(cutoff)
    scores = rng.standard_normal((50, 30)).astype(np.float32)
    hidden = Histories.from_csr(sparse.csr_array(rng.random((50, 30)) < 0.2))
    ranks, _ = rank_and_list(Matrix(scores), Histories.from_lists([[]] * 50, 30), hidden)
    tested = np.flatnonzero(np.diff(hidden.indptr))
    relevance = hidden.to_csr().toarray()[tested]
    expected = ndcg_score(relevance, scores[tested], k=cutoff)
    n_hidden = np.diff(hidden.indptr)[tested]
    assert summarize_ranks(ranks, [f"ndcg@{cutoff}"], n_hidden)[f"ndcg@{cutoff}"] == pytest.approx(
        expected
    )
    pairs = zip(relevance, scores[tested], strict=True)
    precisions = [average_precision_score(*pair) for pair in pairs]
    assert summarize_ranks(ranks, ["map@30"], n_hidden)["map@30"] == pytest.approx(
        np.mean(precisions)
    )


def test_metrics_of_lists_are_those_by_hand() -> None:
    lists = np.array([[0, 1], [0, -1], [-1, -1]], np.int32)
    touched = np.array([4, 2, 0, 0])
    assert measure_exposure("coverage", lists, touched, 4) == 0.5
    # Shown 2, 1, 0 and 0 times: sum of (2 place - 5) count, sorted, over 4 * 3.
    assert measure_exposure("gini", lists, touched, 4) == pytest.approx((1 * 1 + 3 * 2) / 12)
    assert compute_novelty(lists, touched, 4).tolist() == [0.5, 0.0, 0.0]
    assert compute_novelty(np.array([[2]]), touched, 4).tolist() == [2.0]


@pytest.mark.parametrize("name", ["hr", "hr@", "hr@0", "hr@1.5", "@10", "auc@10", "hr@-1", "HR@10"])
def test_unknown_metrics_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="ndcg@100"):
        Metric.from_name(name)


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
    ("kind", "better", "ties", "expected"),
    [
        ("hr", [0, 9, 10, 50], [0] * 4, 0.5),
        ("hr", [9, 8, 10], [1] * 3, (0.5 + 1 + 0) / 3), ("hr", [0], [99], 0.1),
        ("ndcg", [0, 10], [0, 0], 1 / 2), ("ndcg", [1], [0], 1 / np.log2(3)),
        ("ndcg", [0], [1], (1 + 1 / np.log2(3)) / 2), ("ndcg", [9], [1], 1 / np.log2(11) / 2),
        ("mrr", [0, 3], [0, 0], (1 + 1 / 4) / 2), ("mrr", [10], [0], 0),
        ("mrr", [0], [1], (1 + 1 / 2) / 2), ("mrr", [9], [1], 1 / 10 / 2),
        ("map", [0, 3], [0, 0], (1 + 1 / 4) / 2), ("map", [9], [1], 1 / 10 / 2),
        ("precision", [0, 10], [0, 0], 1 / 20), ("recall", [0, 10], [0, 0], 1 / 2),
    ],
)  # fmt: skip
def test_ties_share_their_places(
    kind: str, better: list[int], ties: list[int], expected: float
) -> None:
    values = summarize_ranks(make_ranks(better, ties), [f"{kind}@10"])
    assert values == pytest.approx({f"{kind}@10": expected})
