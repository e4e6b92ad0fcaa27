"""`FederatedMF` with item features and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, no_tags, recency, tags_of
from sottovoce.data import synthetic_people
from sottovoce.errors import DataError
from sottovoce.protocol import Catalogue, Item
from sottovoce.simulation.parameters import tags_from, times_of

PEOPLE = synthetic_people(200, 60, seed=2)
MATRIX = PEOPLE.histories.to_csr()
FILMS = [dict(tags) for _, _, tags in PEOPLE.described()]
CATALOGUE = Catalogue.of(Item(str(row), "A film", film) for row, film in enumerate(FILMS))
FORMS: dict[str, Any] = {
    "catalogue": CATALOGUE,
    "mappings": FILMS,
    "matrix": sparse.csr_matrix(tags_of(FILMS).table),
    "array": sparse.coo_array(3 * tags_of(FILMS).table),
}


class Table:
    """As pandas has them: iterating over one gives its columns."""

    columns = ("genre",)
    iloc: Any = None

    def __iter__(self) -> Any:
        return iter(self.columns)


def damaged(matrix: Any) -> Any:
    matrix = matrix.copy()
    matrix.indptr[1] = 99
    return matrix


@pytest.fixture(scope="module")
def model() -> FederatedMF:
    return FederatedMF(factors=3, epochs=2, reports=20, seed=1).fit(MATRIX)


def expected_scores(model: FederatedMF, user: int, tags: Any, moments: Any = None) -> np.ndarray:
    """As a device has them, of the items that were not touched."""
    V, settings = model.item_factors, model.settings
    wide = WideModel.of(V, tags, alpha=settings.alpha, regularization=settings.user_ridge(V))
    own = MATRIX[user].indices.tolist()
    weights = np.ones(len(own)) if moments is None else recency(np.asarray(moments))
    scores = wide.scores(wide.shares(own, weights).sum(axis=1))
    scores[own] = -np.inf
    return scores


@pytest.mark.parametrize("form", FORMS)
def test_features_of_any_form_give_the_list_of_a_device(model: FederatedMF, form: str) -> None:
    scores = expected_scores(model, 7, tags_of(FILMS))
    items, best = model.recommend(7, MATRIX[7], N=10, item_features=FORMS[form])
    assert best == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-4)
    assert scores[items] == pytest.approx(best, rel=1e-4)
    assert items.tolist() != model.recommend(7, MATRIX[7], N=10)[0].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_fit_keeps_features_and_trains_without_them(model: FederatedMF, form: str) -> None:
    tagged = FederatedMF(factors=3, epochs=2, reports=20, seed=1)
    tagged.fit(MATRIX, item_features=FORMS[form])
    assert np.array_equal(tagged.item_factors, model.item_factors)
    users = np.arange(5)
    kept, given = (
        tagged.recommend(users, MATRIX[users]),
        model.recommend(users, MATRIX[users], item_features=FORMS[form]),
    )
    assert np.array_equal(kept[0], given[0])
    others = sparse.csr_array(np.eye(60)[:, :1])
    instead = tagged.recommend(users, MATRIX[users], item_features=others)
    again = model.recommend(users, MATRIX[users], item_features=others)
    assert np.array_equal(instead[0], again[0])
    assert np.array_equal(tagged.fit(MATRIX).recommend(3, MATRIX[3]), model.recommend(3, MATRIX[3]))


def test_without_features_scores_are_those_of_the_vectors(model: FederatedMF) -> None:
    scores = expected_scores(model, 7, no_tags(60))
    _, best = model.recommend(7, MATRIX[7], N=10)
    assert best == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-4)
    x = model.user_vectors(MATRIX[7])[0]
    assert best[0] == pytest.approx(np.delete(model.item_factors @ x, MATRIX[7].indices).max())


def test_a_matrix_counts_as_it_is_whatever_its_values_and_their_order() -> None:
    unsorted = sparse.csr_array(
        (np.array([2.0, -1.0, 5.0, 1.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    tags = tags_from(unsorted, 2)
    assert tags.table.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert [(tag.kind, tag.name) for tag in tags.names] == [
        ("column", "0"), ("column", "1"), ("column", "2"),
    ]  # fmt: skip


def test_labels_may_be_a_list_and_numbers_numpys() -> None:
    films: list[Any] = [{"genre": ["a", "b", "a"], "year": np.int64(1999)}] * 2
    tags = tags_from(films, 2)
    assert [tag.name for tag in tags.names] == ["a", "b", "1999"]
    assert (tags.table.toarray() == 1).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (FILMS[:-1], "describe 59 items, the model has 60"),
        (sparse.csr_matrix((61, 4)), "describe 61 items, the model has 60"),
        (Catalogue.of([Item("a", "A film")]), "describe 1 items, the model has 60"),
        ([{"genre": "Horror"}] * 60, "'genre' of item 0 is 'Horror'; it must be a list of labels"),
        ([{"year": float("nan")}] * 60, "'year' of item 0 is nan"),
        ([{"year": None}] * 60, "'year' of item 0 is None"),
        ([{"genre": [7]}] * 60, "'genre' of item 0 is"),
        (np.ones((60, 2)), "a mapping for each item or a sparse matrix; item 0 is ndarray"),
        (3, "item_features must be a Catalogue, .* got int"),
        (Table(), "a Table is not taken. Make a list of its rows, as"),
        ({"genre": ["Horror"]}, "a dict is not taken"),
        (damaged(sparse.csr_matrix(np.eye(60))), "item_features is a damaged sparse matrix"),
        (sparse.coo_array(np.ones(60)), "describe 1 items"),
    ],
)
def test_features_that_cannot_be_are_refused(model: FederatedMF, wrong: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.recommend(0, MATRIX[0], item_features=wrong)
    with pytest.raises(DataError, match=message):
        FederatedMF(factors=1, epochs=1, reports=2).fit(MATRIX, item_features=wrong)


# Times.


def times_for(user: int, moments: Any) -> sparse.csr_matrix:
    own = MATRIX[user].indices
    return sparse.csr_matrix(
        (np.asarray(moments, float), (np.zeros(len(own), int), own)), shape=(1, 60)
    )


@pytest.mark.parametrize("tagged", [True, False])
def test_lists_are_by_the_order_of_times(model: FederatedMF, tagged: bool) -> None:
    features = FILMS if tagged else None
    tags = tags_of(FILMS) if tagged else no_tags(60)
    moments = np.random.default_rng(1).permutation(MATRIX[7].nnz)
    lists = []
    for one in (moments, moments.max() - moments):
        times = times_for(7, 0.5 + one / 7)
        items, best = model.recommend(7, MATRIX[7], N=60, item_features=features, times=times)
        scores = expected_scores(model, 7, tags, one)
        assert best[:20] == pytest.approx(np.sort(scores)[::-1][:20], rel=1e-4)
        lists.append(items.tolist())
    assert lists[0] != lists[1]


def test_times_may_be_one_row_of_a_sparse_array(model: FederatedMF) -> None:
    times = times_for(7, np.arange(MATRIX[7].nnz) + 1.0)
    row: Any = sparse.coo_array((times.data, (times.indices,)), shape=(60,))
    assert row.ndim == 1
    found = model.recommend(7, sparse.csr_array(MATRIX)[7], times=row)
    assert np.array_equal(found, model.recommend(7, MATRIX[7], times=times))


def test_equal_times_are_as_none(model: FederatedMF) -> None:
    times = times_for(7, np.full(MATRIX[7].nnz, 3.5))
    found = model.recommend(7, MATRIX[7], times=times)
    assert np.array_equal(found, model.recommend(7, MATRIX[7]))


def test_many_users_have_each_their_own_times(model: FederatedMF) -> None:
    """More than are solved at once; histories in blocks, times with them."""
    users = np.arange(600) % 200
    rows = MATRIX[users]
    times = rows.copy()
    times.data = np.random.default_rng(3).permutation(times.nnz).astype(float)
    items, best = model.recommend(users, rows, N=5, times=times)
    for place in (0, 1, 511, 512, 599):
        user = int(users[place])
        alone = model.recommend(user, MATRIX[user], N=5, times=times[place])
        assert np.array_equal(items[place], alone[0])
        assert np.array_equal(best[place], alone[1])


def test_times_are_read_at_the_entries_of_the_histories() -> None:
    h = Histories.from_lists([[1, 3], [], [0, 2]], 4)
    dense = np.array([[9, 30, 9, 10], [9, 9, 9, 9], [5, 9, 30, 9]])
    forms: list[Any] = [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]
    for form in forms:
        assert times_of(form(dense), h).tolist() == [2, 1, 0, 2]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (sparse.csr_matrix((1, 59)), "shape of user_items, 1 x 60, not 1 x 59"),
        (sparse.csr_matrix((2, 60)), "shape of user_items, 1 x 60, not 2 x 60"),
        (sparse.csr_matrix((1, 60)), "an entry wherever user_items has an interaction"),
        (times_for(7, np.full(MATRIX[7].nnz, np.nan)), "finite"),
        ([1], "times must be a sparse matrix, got list"),
        (damaged(MATRIX[7]), "times is a damaged sparse matrix"),
        (damaged(MATRIX[7].tocsc()), "times is a damaged sparse matrix"),
        (MATRIX[7].astype(complex), "times must hold numbers"),
    ],
)
def test_times_that_cannot_be_are_refused(model: FederatedMF, times: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.recommend(7, MATRIX[7], times=times)


def test_one_missing_time_is_refused(model: FederatedMF) -> None:
    times = times_for(7, np.arange(MATRIX[7].nnz) + 1.0)
    times.data[4] = 0
    times.eliminate_zeros()
    with pytest.raises(DataError, match="an entry wherever"):
        model.recommend(7, MATRIX[7], times=times)


@pytest.mark.parametrize("features", [None, FILMS])
def test_who_has_no_history_is_shown_what_is_popular(model: FederatedMF, features: Any) -> None:
    empty = sparse.csr_matrix((1, 60))
    V = model.item_factors.astype(float)
    popular = np.argsort(-np.maximum(V @ V.sum(axis=0), 0), kind="stable")[:10]
    for times in (None, empty):
        items, best = model.recommend(0, empty, item_features=features, times=times)
        assert items.tolist() == popular.tolist()
        assert best[0] > 0
    both = sparse.vstack([MATRIX[:1], empty]).tocsr()
    several = model.recommend(np.array([0, 1]), both, times=both)[0]
    assert several[1].tolist() == popular.tolist()
