"""The model of a device, `W = [V | D]`: tags, weights by recency, shares and ranking."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core import Histories, initial_items, user_vectors
from sottovoce.core.recommending import (
    Tag,
    Tags,
    WideModel,
    best_rows,
    no_tags,
    popularity_of,
    recency,
    recency_of,
    tags_of,
)

ITEMS, FACTORS, COLUMNS = 14, 3, 5
ALPHA, LAMBDA = 4.0, 0.125


def tags_like(table: np.ndarray) -> Tags:
    names = tuple(Tag("genre", str(number)) for number in range(table.shape[1]))
    return Tags(names, sparse.csr_array(table.astype(np.float64)))


def random_tags(seed: int, columns: int = COLUMNS) -> Tags:
    return tags_like(np.random.default_rng(seed).random((ITEMS, columns)) < 0.4)


def model_of(V: np.ndarray, tags: Tags, **changes: float) -> WideModel:
    return WideModel.of(
        V.astype(np.float32), tags, **{"alpha": ALPHA, "regularization": LAMBDA, **changes}
    )


def with_zero_rows(seed: int, zeros: list[int]) -> np.ndarray:
    V = initial_items(ITEMS, FACTORS, 0.3, seed)
    V[:, 0] += 0.2
    V[zeros] = 0
    return V


def dense(model: WideModel) -> np.ndarray:
    return np.concatenate([model.V, model.D.toarray()], axis=1)


seeds = st.integers(0, 2**32)
zero_rows = st.lists(st.integers(0, ITEMS - 1), unique=True, max_size=ITEMS)


@given(seeds, zero_rows)
def test_gram_and_rows_are_those_of_the_dense_matrix(seed: int, zeros: list[int]) -> None:
    model = model_of(with_zero_rows(seed, zeros), random_tags(seed))
    W = dense(model)
    assert model.gram == pytest.approx(W.T @ W, rel=1e-12, abs=1e-12)
    assert np.array_equal(model.rows(np.arange(ITEMS)), W)
    assert np.array_equal(model.rows([3, 1]), W[[3, 1]])
    x = np.random.default_rng(seed).standard_normal(FACTORS + COLUMNS)
    assert model.scores(x) == pytest.approx(W @ x, rel=1e-9, abs=1e-12)


def diagonal(model: WideModel, n_own: int) -> np.ndarray:
    return np.repeat(model.ridges(n_own), [FACTORS, COLUMNS])


@given(seeds, zero_rows, st.sets(st.integers(0, ITEMS - 1), min_size=1), st.floats(0, 20))
def test_shares_solve_the_normal_equations(
    seed: int, zeros: list[int], own: set[int], alpha: float
) -> None:
    model = model_of(with_zero_rows(seed, zeros), random_tags(seed), alpha=alpha)
    weights = np.random.default_rng(seed).uniform(0.03, 1, len(own))
    rows, W = sorted(own), dense(model)
    p = np.zeros(ITEMS)
    p[rows] = weights
    left = W.T @ np.diag(1 + alpha * p) @ W + np.diag(diagonal(model, len(own)))
    shares = model.shares(rows, weights)
    assert shares.shape == (FACTORS + COLUMNS, len(rows))
    for share, row, weight in zip(shares.T, rows, weights, strict=True):
        assert left @ share == pytest.approx((1 + alpha) * weight * W[row], rel=1e-7, abs=1e-9)


@given(seeds)
def test_popularity_is_the_row_sum_of_v_v_transposed(seed: int) -> None:
    V = initial_items(ITEMS, FACTORS, 1.0, seed).astype(float)
    expected = np.maximum((V @ V.T).sum(axis=1), 0)
    assert popularity_of(V) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def learnt(V: np.ndarray) -> np.ndarray:
    return np.asarray(V.any(axis=1))


def companions(V: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The definition, an item after another."""
    old, filled = learnt(V), V.copy()
    for item in np.flatnonzero(~old):
        theirs = [old & (column > 0) for column in table.T[table[item] > 0]]
        means = [V[known].mean(axis=0) for known in theirs if known.any()]
        filled[item] = np.mean(means, axis=0) if means else V[old].mean(axis=0)
    return filled


@given(seeds, zero_rows.filter(lambda zeros: 0 < len(zeros) < ITEMS))
def test_a_new_item_has_the_mean_row_of_its_companions(seed: int, zeros: list[int]) -> None:
    V, tags = with_zero_rows(seed, zeros), random_tags(seed)
    model = model_of(V, tags)
    expected = companions(V.astype(float), tags.table.toarray())
    np.testing.assert_allclose(model.V, expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(model.V[model.learnt], V[model.learnt].astype(float))
    assert np.flatnonzero(~model.learnt).tolist() == sorted(zeros)
    assert np.array_equal(model.V, model.V.astype(np.float32)), "as precise as all others"


UNSOLVABLE: dict[str, Any] = {
    "two equal factors": (np.full((4, 2), 2.0**20), 1e-12),
    "a NaN": (np.full((4, 2), np.nan), 1e-6),
    "an infinity": (np.full((4, 2), np.inf), 1e-6),
}


@pytest.mark.parametrize(("V", "ridge"), UNSOLVABLE.values(), ids=UNSOLVABLE)
def test_a_model_without_a_finite_solution_says_nothing(V: np.ndarray, ridge: float) -> None:
    with np.errstate(all="ignore"):
        model = model_of(V, no_tags(4), regularization=ridge)
        shares = model.shares([0, 2], np.ones(2))
    assert shares.tolist() == [[0, 0], [0, 0]]


@given(seeds, st.sets(st.integers(0, ITEMS - 1), min_size=1))
def test_without_tags_and_with_equal_weights_it_is_the_papers_vector(
    seed: int, own: set[int]
) -> None:
    V, rows = initial_items(ITEMS, FACTORS, 0.5, seed), sorted(own)
    model = model_of(V, no_tags(ITEMS))
    expected = user_vectors(
        V, Histories.from_lists([rows], ITEMS), alpha=ALPHA, regularization=LAMBDA
    )
    found = model.shares(rows, np.ones(len(rows))).sum(axis=1)
    assert found == pytest.approx(expected[0], rel=1e-5, abs=1e-6)


def names(tags: Tags) -> list[str]:
    return [f"{tag.kind} {tag.name}" for tag in tags.names]


def column(tags: Tags, name: str) -> list[int]:
    """The items that have a tag."""
    return np.flatnonzero(tags.table.toarray()[:, names(tags).index(name)]).tolist()


def labelled(counts: dict[str, int], n_items: int) -> list[dict[str, Any]]:
    """Each label on the first so many items."""
    return [
        {"genre": tuple(label for label, count in counts.items() if row < count)}
        for row in range(n_items)
    ]


def numbered(values: Sequence[float | None]) -> list[dict[str, Any]]:
    return [{} if value is None else {"year": value} for value in values]


@pytest.mark.parametrize(
    ("n_items", "enough"),
    [(2, 2), (100, 2), (101, 3), (500, 10), (950, 19), (951, 20), (1_000, 20), (5_000, 20)],
)
def test_a_tag_has_twenty_items_or_a_fiftieth_and_never_one(n_items: int, enough: int) -> None:
    tags = tags_of(labelled({"short": enough - 1, "enough": enough}, n_items))
    assert names(tags) == ["genre enough"]


def test_the_table_says_who_has_what() -> None:
    films: list[dict[str, Any]] = [
        {"genre": ("a",)},
        {},
        {"genre": ("b", "a"), "year": 2},
        {"genre": ("b",), "year": 2},
    ]
    tags = tags_of(films)
    assert names(tags) == ["genre a", "genre b", "year 2"]
    assert tags.table.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1]]
    assert tags.n_items == 4


@given(st.lists(st.none() | st.integers(0, 30), max_size=90))
def test_bands_are_those_of_the_definition(values: list[int | None]) -> None:
    """Begun by the values at places floor(b n / 10), each once; ended by the next."""
    known = sorted(value for value in values if value is not None)
    begins = sorted({known[len(known) * band // 10] for band in range(10)}) if known else []
    expected = []
    for low, high in zip(begins, [*begins, 31][1:], strict=True):
        rows = [row for row, v in enumerate(values) if v is not None and low <= v < high]
        if len(rows) >= 2:
            expected.append(rows)
    found = tags_of(numbered([None if value is None else float(value) for value in values]))
    assert [column(found, name) for name in names(found)] == expected


def is_inside(name: str, value: float, *, whole: bool) -> bool:
    """What a person would take the name of a band for."""
    words = name.split()
    if words[0] == "under":
        return value < float(words[1])
    if words[1:] == ["or", "more"]:
        return value >= float(words[0])
    if len(words) == 1:
        return value == float(name)
    low, high = float(words[0]), float(words[2])
    return low <= value <= high if whole else low <= value < high


@given(st.lists(st.integers(0, 3000), min_size=2, max_size=80), st.sampled_from([1, 100]))
def test_the_names_of_bands_say_what_is_in_them(values: list[int], unit: int) -> None:
    numbers = [value / unit for value in values] * 20
    whole = all(number == int(number) for number in numbers)
    tags = tags_of(numbered([*numbers]))
    for name in names(tags):
        band = name.removeprefix("year ")
        inside = [row for row, each in enumerate(numbers) if is_inside(band, each, whole=whole)]
        assert column(tags, name) == inside, band


def test_edges_of_bands_are_as_round_as_can_be() -> None:
    lows = [3.99, 4.49, 9.95, 10.49, 19.9, 24.0, 88.38, 102.0, 120.0, 499.0]
    prices = [price for low in lows for price in (low, low + 0.01)]
    assert [name.removeprefix("year ") for name in names(tags_of(numbered(prices)))] == [
        *("under 4.4", "4.4 to 9", "9 to 10", "10 to 19", "19 to 20"),
        *("20 to 80", "80 to 100", "100 to 120", "120 to 400", "400 or more"),
    ]
    years = [float(year) for year in range(1950, 2010) if year % 10 < 8]
    found = [name.removeprefix("year ") for name in names(tags_of(numbered(years)))]
    assert found[:3] == ["under 1954", "1954 to 1960", "1961 to 1965"]


def test_a_catalogue_without_tags_has_no_columns() -> None:
    for tags in (no_tags(3), tags_of([{}, {}, {}]), tags_of([{"genre": ()}] * 3)):
        assert tags.names == ()
        assert tags.table.shape == (3, 0)
    assert tags_of([]).table.shape == (0, 0)


MOMENTS = st.lists(st.integers(-5, 20) | st.integers(-(2**62), 2**62), max_size=40)


def by_definition(moments: list[int]) -> list[float]:
    """With a later ones and b others at its own moment: 20 / (2 + a + b/2); 1 if there is one."""
    if len(set(moments)) == 1:
        return [1.0] * len(moments)
    kept = []
    for own in moments:
        later = sum(other > own for other in moments)
        others = moments.count(own) - 1
        kept.append(20 / (2 + later + others / 2))
    return kept


@given(MOMENTS)
def test_weights_are_those_of_the_definition(moments: list[int]) -> None:
    assert recency(np.array(moments, np.int64)) == pytest.approx(by_definition(moments), rel=1e-12)


@given(st.lists(MOMENTS | st.lists(st.integers(0, 2), max_size=5), max_size=6))
def test_many_histories_at_once_are_each_of_them(people: list[list[int]]) -> None:
    """Empty ones among them: first, last and in between."""
    histories = Histories.from_lists([list(range(len(one))) for one in people], 40)
    times = np.array([moment for one in people for moment in one], np.int64)
    alone = [recency(np.array(one, np.int64)) for one in people]
    expected = np.concatenate([np.zeros(0), *alone])
    assert np.array_equal(recency_of(histories, times), expected)


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
