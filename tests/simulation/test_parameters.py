"""Arguments of `FederatedMF`: parameters as in scikit-learn, item features and times."""

import re
from dataclasses import replace
from inspect import getdoc, signature
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, estimate_popularity, weigh_history
from sottovoce.core.tags import build_tags, make_empty_tags
from sottovoce.data import synthetic_people
from sottovoce.errors import DataError, SettingsError, UnknownParameterError
from sottovoce.protocol import Catalogue, Item
from sottovoce.settings import get_settings
from sottovoce.simulation import HoldoutScorer
from sottovoce.simulation.engines import ENGINE_MODULES
from sottovoce.simulation.inputs import parse_times
from sottovoce.simulation.parameters import NAMES_ELSEWHERE
from sottovoce.training import Settings, list_presets, list_settings
from tests.people import random_people

SMALL = random_people(60, 20, seed=2)
NUMPY_PARAMETERS: dict[str, Any] = {
    "factors": np.int64(2),
    "epochs": np.int8(2),
    "epsilon": np.float32(2.5),
    "reports": np.uint16(3),
    "seed": np.int32(4),
    "rotate": np.bool_(True),
    "history": np.float64(5.0),
    "engine_options": {"threads": np.int64(1)},
}


def test_every_setting_is_a_documented_argument_of_its_type() -> None:
    arguments = dict(signature(FederatedMF).parameters)
    del arguments["unknown"]
    section = getdoc(FederatedMF).partition("\nParameters\n----------\n")[2]  # type: ignore[union-attr]
    entries = re.findall(r"^(\w+) : (.*), .*\n((?:    .*\n?)+)", section, re.MULTILINE)
    assert [name for name, _, _ in entries] == list(arguments)
    descriptions = {name: " ".join(text.split()) for name, _, text in entries}
    types = {name: type_text for name, type_text, _ in entries}
    assert set(get_settings(Settings)) < set(arguments)
    for name in get_settings(Settings):
        setting = list_settings()[name]
        kind = setting.kind.__name__
        assert arguments[name].annotation == f"{kind} | None", name
        assert arguments[name].default == (0 if name == "seed" else None), name
        text, _, _ = descriptions[name].partition(" None ")
        assert text == f"{setting.help}.", name
        assert types[name] == f"{kind} {setting.format_bounds()}".rstrip(), name
    assert ", ".join(list_presets()) in descriptions["preset"]
    assert ", ".join(ENGINE_MODULES) in descriptions["engine"]


def test_parameters_can_be_changed() -> None:
    model = FederatedMF(epsilon=1.0, epochs=1, reports=2, factors=1).fit(SMALL)
    assert model.set_params(epsilon=2.0) is model
    assert model.settings.epsilon == 1.0
    assert model.fit(SMALL).settings.epsilon == 2.0
    makers: list[Any] = [FederatedMF, model.set_params]
    for make in makers:
        with pytest.raises(
            UnknownParameterError, match=r"FederatedMF.*budgt.* use budget;"
        ) as raised:
            make(budgt=1)
        assert isinstance(raised.value, TypeError)
    with pytest.raises(SettingsError, match="epsilon"):
        model.set_params(seed=9, epsilon=np.nan)
    assert (model.seed, model.epsilon) == (0, 2.0)


def test_model_is_shown_as_its_call_and_cloned_by_scikit_learn() -> None:
    model = FederatedMF(np.int64(3), budget=np.float64(2.5), preset="crowd", options={})  # type: ignore[arg-type]
    assert repr(model) == "FederatedMF(factors=3, preset='crowd', budget=2.5, options={})"
    base = pytest.importorskip("sklearn.base")
    trained = FederatedMF(**NUMPY_PARAMETERS).fit(SMALL)
    clone = base.clone(trained)
    assert clone.get_params() == trained.get_params()
    with pytest.raises(SettingsError):
        _ = clone.item_factors
    assert np.array_equal(clone.fit(SMALL).item_factors, trained.item_factors)


PEOPLE = synthetic_people(200, 60, seed=2)
MATRIX = PEOPLE.histories.to_csr()
FILMS = [dict(tags) for _, _, tags in PEOPLE.list_items()]
CATALOGUE = Catalogue.from_items(Item(str(row), "A film", film) for row, film in enumerate(FILMS))
FORMS: dict[str, Any] = {
    "catalogue": CATALOGUE,
    "mappings": FILMS,
    "matrix": sparse.csr_matrix(build_tags(FILMS).table),
    "array": sparse.coo_array(3 * build_tags(FILMS).table),
}


class Table:
    """A table like those of pandas: iterating over one gives its columns."""

    columns = ("genre",)
    iloc: Any = None

    def __iter__(self) -> Any:
        return iter(self.columns)


def damage(matrix: Any) -> Any:
    matrix = matrix.copy()
    matrix.indptr[1] = 99
    return matrix


@pytest.fixture(scope="module")
def model() -> FederatedMF:
    return FederatedMF(factors=3, epochs=2, reports=20, seed=1).fit(MATRIX)


def expected_scores(model: FederatedMF, user: int, tags: Any, moments: Any = None) -> np.ndarray:
    """Compute the scores of untouched items as a device does."""
    V, settings = model.item_factors, model.settings
    wide = WideModel.from_model(
        V, tags, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    own = MATRIX[user].indices.tolist()
    weights = np.ones(len(own)) if moments is None else weigh_history(np.asarray(moments))
    scores = wide.scores(wide.shares(own, weights).sum(axis=1))
    scores[own] = -np.inf
    return scores


@pytest.mark.parametrize("form", FORMS)
def test_features_change_lists_and_not_the_model(model: FederatedMF, form: str) -> None:
    tagged = FederatedMF(factors=3, epochs=2, reports=20, seed=1)
    tagged.fit(MATRIX, item_features=FORMS[form])
    assert np.array_equal(tagged.item_factors, model.item_factors)
    scores = expected_scores(model, 7, build_tags(FILMS))
    items, best = tagged.recommend(7, MATRIX[7], N=10)
    assert best == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-4)
    assert scores[items] == pytest.approx(best, rel=1e-4)
    users = np.arange(5)
    of_fit = tagged.recommend(users, MATRIX[users])
    of_call = model.recommend(users, MATRIX[users], item_features=FORMS[form])
    assert np.array_equal(of_fit[0], of_call[0])
    others = sparse.csr_array(np.eye(60)[:, :1])
    instead = tagged.recommend(users, MATRIX[users], item_features=others)
    again = model.recommend(users, MATRIX[users], item_features=others)
    assert np.array_equal(instead[0], again[0])
    assert np.array_equal(tagged.fit(MATRIX).recommend(3, MATRIX[3]), model.recommend(3, MATRIX[3]))


def make_times(user: int, moments: Any) -> sparse.csr_matrix:
    own = MATRIX[user].indices
    return sparse.csr_matrix(
        (np.asarray(moments, float), (np.zeros(len(own), int), own)), shape=(1, 60)
    )


@pytest.mark.parametrize("tagged", [True, False])
def test_lists_depend_on_the_order_of_times(model: FederatedMF, tagged: bool) -> None:
    features = FILMS if tagged else None
    tags = build_tags(FILMS) if tagged else make_empty_tags(60)
    moments = np.random.default_rng(1).permutation(MATRIX[7].nnz)
    lists = []
    for one in (moments, moments.max() - moments):
        times = make_times(7, 0.5 + one / 7)
        items, best = model.recommend(7, MATRIX[7], N=60, item_features=features, times=times)
        scores = expected_scores(model, 7, tags, one)
        assert best[:20] == pytest.approx(np.sort(scores)[::-1][:20], rel=1e-4)
        lists.append(items.tolist())
    assert lists[0] != lists[1]


def test_each_of_many_users_has_their_own_times(model: FederatedMF) -> None:
    # More users than one block of scores has.
    users = np.arange(600) % 200
    rows = MATRIX[users]
    times = rows.copy()
    times.data = np.random.default_rng(3).permutation(times.nnz).astype(float)
    items, best = model.recommend(users, rows, N=5, times=times)
    for place in (0, 1, 511, 512, 599):
        user = int(users[place])
        single = model.recommend(user, MATRIX[user], N=5, times=times[place])
        assert np.array_equal(items[place], single[0])
        assert np.array_equal(best[place], single[1])


def test_times_may_be_a_sparse_matrix_of_any_form(model: FederatedMF) -> None:
    h = Histories.from_lists([[1, 3], [], [0, 2]], 4)
    dense = np.array([[9, 30, 9, 10], [9, 9, 9, 9], [5, 9, 30, 9]])
    forms: list[Any] = [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]
    for form in forms:
        assert parse_times(form(dense), h).tolist() == [2, 1, 0, 2]
    equal = make_times(7, np.full(MATRIX[7].nnz, 3.5))
    row: Any = sparse.coo_array((equal.data, (equal.indices,)), shape=(60,))
    # Equal times are as no times.
    for times in (equal, row):
        result = model.recommend(7, MATRIX[7], times=times)
        assert np.array_equal(result, model.recommend(7, MATRIX[7]))


@pytest.mark.parametrize("features", [None, FILMS])
def test_somebody_without_a_history_is_shown_what_is_popular(
    model: FederatedMF, features: Any
) -> None:
    empty = sparse.csr_matrix((1, 60))
    popularity = estimate_popularity(model.item_factors.astype(np.float64))
    popular = np.argsort(-popularity, kind="stable")[:10].tolist()
    for times in (None, empty):
        items, best = model.recommend(0, empty, item_features=features, times=times)
        assert items.tolist() == popular
        assert best[0] > 0
    both = sparse.vstack([MATRIX[:1], empty]).tocsr()
    assert model.recommend(np.array([0, 1]), both, times=both)[0][1].tolist() == popular


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (FILMS[:-1], "59"), (sparse.csr_matrix((61, 4)), "61"),
        (Catalogue.from_items([Item("a", "A film")]), r"\b1\b"),
        ([{"genre": "Horror"}] * 60, r"'genre'.* 0\b"),
        ([{"year": float("nan")}] * 60, r"'year'.* 0\b"),
        ([{"year": None}] * 60, r"'year'.* 0\b"), ([{"genre": [7]}] * 60, r"'genre'.* 0\b"),
        (np.ones((60, 2)), "ndarray"), (3, "int"), (Table(), "Table"),
        ({"genre": ["Horror"]}, "one column must be the item"),
        (damage(sparse.csr_matrix(np.eye(60))), "item_features"),
        (sparse.coo_array(np.ones(60)), r"\b1\b"),
    ],
)  # fmt: skip
def test_impossible_features_are_refused(model: FederatedMF, wrong: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        model.recommend(0, MATRIX[0], item_features=wrong)
    with pytest.raises(DataError, match=named):
        FederatedMF(factors=1, epochs=1, reports=2).fit(MATRIX, item_features=wrong)


@pytest.mark.parametrize(
    "times",
    [
        sparse.csr_matrix((1, 59)), sparse.csr_matrix((2, 60)), sparse.csr_matrix((1, 60)),
        make_times(7, np.full(MATRIX[7].nnz, np.nan)),
        sparse.csr_matrix(make_times(7, np.arange(MATRIX[7].nnz)).toarray()), [1],
        damage(MATRIX[7]), damage(MATRIX[7].tocsc()), MATRIX[7].astype(complex),
    ],
)  # fmt: skip
def test_impossible_times_are_refused(model: FederatedMF, times: Any) -> None:
    with pytest.raises(DataError):
        model.recommend(7, MATRIX[7], times=times)


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ("loud", {"preset": "loud"}), ("mechanism", {"mechanism": "loud"}),
        ("budget", {"budget": np.nan}), ("budget", {"budget": "ten"}), ("budget", {"budget": 0}),
        ("history", {"history": np.inf}), ("epochs", {"epochs": 2.5}),
        ("gamma", {"options": {"gamma": 1}}), ("block", {"options": {"block": 2048}}),
        ("block", {"mechanism": "coordinate", "options": {"block": 4}}),
        ("gpu", {"engine": "gpu"}), ("card", {"engine_options": {"card": 0}}),
        ("threads", {"engine": "cuda", "threads": 2}),
        ("card", {"engine": "cuda", "engine_options": {"card": -1}}), ("threads", {"threads": 0}),
        ("epsilon", {"epsilon": 1.0, "options": {"epsilon": 9.0}}),
        ("budget", {"options": {"budget": 4}}), ("options", {"options": 3}),
        ("options", {"options": {3: 4}}),
        ("threads", {"threads": 2, "engine_options": {"threads": 1}}),
        ("engine_options", {"engine_options": 3}), ("engine", {"engine": []}),
        ("half_life", {"half_life": 1e300}),
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused_by_the_constructor(
    named: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match=named):
        FederatedMF(**wrong)


@pytest.mark.parametrize(
    ("elsewhere", "here"),
    [
        *(("random_state", "seed"), ("eps", "epsilon"), ("n_factors", "factors")),
        *(("iterations", "epochs"), ("k", "reports (k), or factors"), ("n_jobs", "threads")),
        *(("embedding_size", "factors"), ("reg_weight", "regularization"), ("rng", "seed")),
        ("privacy_budget", "budget"),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(elsewhere: str, here: str) -> None:
    with pytest.raises(
        UnknownParameterError, match=f"no parameter {elsewhere}: use {re.escape(here)}"
    ):
        FederatedMF(**{elsewhere: 3})  # type: ignore[arg-type]
    assert set(NAMES_ELSEWHERE).isdisjoint(signature(FederatedMF).parameters)


def test_seed_none_draws_another_seed_in_each_fit() -> None:
    model = FederatedMF(seed=None, verbose=False)
    assert model.fit(SMALL).settings.seed != model.fit(SMALL).settings.seed
    assert model.get_params()["seed"] is None


@pytest.mark.filterwarnings("ignore:.*least populated")
def test_scikit_learn_searches_and_validates() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    validation = pytest.importorskip("sklearn.utils.validation")
    pipeline = pytest.importorskip("sklearn.pipeline")
    model = FederatedMF(verbose=False, engine="reference")
    scorer = HoldoutScorer("ndcg@20", n=2, seed=1)
    search = selection.GridSearchCV(model, {"budget": [0.1, 500.0]}, scoring=scorer, cv=2)
    search.fit(MATRIX, item_features=FILMS)
    assert search.best_params_ == {"budget": 500.0}
    assert "HoldoutScorer('ndcg@20', n=2, seed=1)" in repr(search)
    scores = selection.cross_val_score(model, MATRIX, cv=2)
    assert np.array_equal(scores, selection.cross_val_score(model, PEOPLE, cv=2))
    assert ((scores > 0) & (scores < 1)).all()
    with pytest.raises(Exception, match="not fitted"):
        validation.check_is_fitted(model)
    steps = pipeline.make_pipeline(model).fit(MATRIX)
    validation.check_is_fitted(steps[-1])
    assert steps.score(MATRIX) == model.score(PEOPLE.histories) == HoldoutScorer()(model, MATRIX)


def list_genres(film: dict[str, Any]) -> list[str]:
    return list(film.get("genre", ()))


def test_features_of_a_table_or_by_id_equal_those_in_order() -> None:
    ids = [f"film {row}" for row in range(60)]
    users = np.repeat(np.arange(200), np.diff(PEOPLE.histories.indptr))
    seen = (users, [ids[item] for item in PEOPLE.histories.indices])
    model = FederatedMF(budget=10, verbose=False, engine="reference")
    table = pl.DataFrame(
        {
            "film": ids,
            "genres": ["|".join(list_genres(film)) for film in FILMS],
            "year": [film.get("year") for film in FILMS],
        }
    )
    in_order = dict(zip(ids, FILMS, strict=True))
    wanted = model.fit(seen, item_features=[in_order[item] for item in sorted(ids)])
    lists = wanted.recommend(np.arange(20), seen)[0]
    shuffled = dict(reversed(in_order.items()))
    for form in (shuffled, table, table.select("film", pl.col("genres").str.split("|"), "year")):
        assert np.array_equal(wanted.recommend(np.arange(20), seen, item_features=form)[0], lists)
    with pytest.raises(DataError, match=r"'film 0'.*'nothing'"):
        model.recommend(0, seen, item_features={"nothing": {"genre": ["Horror"]}})


def test_times_of_a_table_equal_those_of_a_matrix(model: FederatedMF) -> None:
    assert PEOPLE.timestamps is not None
    users = np.array([9, 3])
    rows = MATRIX[users]
    times = MATRIX.copy()
    times.data = PEOPLE.timestamps.astype(float)
    expected = model.recommend(users, rows, times=times[users])
    moments = pl.from_epoch(pl.Series(PEOPLE.timestamps))
    table = {"user": PEOPLE.histories.users_of_entries(), "item": PEOPLE.histories.indices}
    for source in (replace(PEOPLE, item_ids=np.arange(60)), {**table, "date": moments}):
        assert np.array_equal(model.recommend(users, source, times=True), expected)
    order = np.concatenate([times[user].data for user in users])
    for array in (order, order.astype("datetime64[s]")):
        assert np.array_equal(model.recommend(users, rows, times=array), expected)
    assert not np.array_equal(model.recommend(users, rows), expected)
    for wrong in (True, order[1:], np.array(["later"] * len(order)), order * np.nan):
        with pytest.raises(DataError, match="times"):
            model.recommend(users, rows, times=wrong)


def test_scores_without_a_history_are_at_most_one(model: FederatedMF) -> None:
    items, best = model.recommend(0, sparse.csr_matrix((1, 60)), N=60)
    assert best[0] == 1
    assert (best >= 0).all()
    assert model.explain(0, sparse.csr_matrix((1, 60)), items[3])[0] == pytest.approx(best[3])
