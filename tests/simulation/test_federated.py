"""`FederatedMF`: training with checkpoints and metrics, lists, reasons, files, privacy costs."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import sottovoce
from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.tags import Tag
from sottovoce.data import Interactions, leave_one_out, leave_out, synthetic_people
from sottovoce.errors import CheckpointError, DataError, DataWarning, SettingsError
from sottovoce.simulation import Popularity, Simulation, evaluate, simulate
from sottovoce.training import Budget, plan_training
from sottovoce.training.budget import DEFAULT_BUDGET_NOTE
from tests.people import random_people


@pytest.fixture(scope="module")
def matrix() -> sparse.csr_matrix:
    return synthetic_people(400, 120, seed=2).histories.to_csr()


def break_indptr(row: sparse.csr_matrix) -> sparse.csr_matrix:
    row = row.copy()
    row.indptr = np.array([0, -1, row.nnz], row.indptr.dtype)[: len(row.indptr)]
    return row


@pytest.fixture(scope="module")
def model(matrix: sparse.csr_matrix) -> FederatedMF:
    return FederatedMF(factors=3, epochs=3, reports=50, seed=1).fit(matrix)


def test_recommend_filters_items_and_answers_several_users(
    model: FederatedMF, matrix: sparse.csr_matrix
) -> None:
    everything, _ = model.recommend(7, matrix[7], N=120, filter_already_liked_items=False)
    assert sorted(everything.tolist()) == list(range(120))
    same = model.recommend(np.int64(7), sparse.csr_array(3 * matrix)[7], N=np.int8(10))  # type: ignore[arg-type]
    assert np.array_equal(same[0], model.recommend(7, matrix[7], N=10)[0])
    top = int(model.recommend(7, matrix[7])[0][0])
    without, _ = model.recommend(7, matrix[7], filter_items=np.array([top]))
    assert top not in without.tolist()
    users = np.array([3, 9])
    several, scores = model.recommend(users, matrix[users], N=5)
    assert several.shape == scores.shape == (2, 5)
    assert np.array_equal(several[1], model.recommend(9, matrix[9], N=5)[0])


def test_list_ends_with_minus_one_where_too_few_items_are_left(model: FederatedMF) -> None:
    seen = np.ones((1, 120))
    seen[0, :2] = 0
    items, scores = model.recommend(0, sparse.csr_matrix(seen), N=4)
    assert sorted(items[:2].tolist()) == [0, 1]
    assert items[2:].tolist() == [-1, -1]
    assert np.isneginf(scores[2:]).all()


def test_items_restricts_what_is_ranked(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    everything, scores = model.recommend(7, matrix[7], N=120)
    some = np.array([int(everything[30]), int(everything[3]), int(everything[9])])
    items, best = model.recommend(7, matrix[7], N=5, items=some)
    assert items.tolist() == [*everything[[3, 9, 30]].tolist(), -1, -1]
    assert np.array_equal(best[:3], scores[[3, 9, 30]])
    without = model.recommend(7, matrix[7], N=2, items=some, filter_items=[everything[3]])
    assert without[0].tolist() == everything[[9, 30]].tolist()


def test_most_similar_item_is_the_item_itself(model: FederatedMF) -> None:
    items, scores = model.similar_items(17, N=5)
    assert items[0] == 17
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert (np.diff(scores) <= 0).all()
    several, several_scores = model.similar_items(np.array([3, 17]), N=5)
    assert several.shape == several_scores.shape == (2, 5)
    assert np.array_equal(several[1], items)
    fewer, _ = model.similar_items(17, N=3, items=items[1:], filter_items=items[1:2])
    assert fewer.tolist() == items[2:5].tolist()


def test_explanation_adds_up_to_the_score(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    items, scores = model.recommend(7, matrix[7])
    score, reasons = model.explain(7, matrix[7], items[0])
    assert score == pytest.approx(float(scores[0]), rel=1e-4)
    assert 0 < len(reasons) <= 3
    assert {reason for reason, _ in reasons} <= set(matrix[7].indices.tolist())
    shares = [share for _, share in model.explain(7, matrix[7], items[0], N=1000)[1]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert model.explain(0, sparse.csr_matrix((1, 120)), 3)[1] == []
    horror = [{"genre": ["Horror"]}] * 40 + [{"genre": ["Comedy"]}] * 80
    fan = sparse.csr_matrix((np.ones(9), ([0] * 9, range(9))), shape=(1, 120))
    _, tagged = model.explain(0, fan, 20, N=100, item_features=horror)
    assert Tag("genre", "Horror") in {reason for reason, _ in tagged}


def test_loaded_model_keeps_engine_and_tags(matrix: sparse.csr_matrix, tmp_path: Path) -> None:
    films = [{"genre": ["Horror"], "year": 1979 + row} for row in range(120)]
    model = FederatedMF(2, 1, reports=np.int64(9), threads=1, options={})  # type: ignore[arg-type]
    model.fit(matrix, item_features=films)
    model.save(tmp_path / "model.safetensors")
    loaded = FederatedMF.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.threads == 1
    assert loaded.settings == model.settings
    assert loaded.privacy(clients=400) == model.privacy()
    assert loaded.privacy().training.central is None, "a file does not have the number of people"
    for row in (1, 2, 3):
        assert np.array_equal(loaded.recommend(row, matrix[row]), model.recommend(row, matrix[row]))
    other = FederatedMF(2, 1, reports=9, engine="reference", engine_options={"people_at_once": 7})
    other.fit(matrix).save(tmp_path / "other.safetensors")
    again = FederatedMF.load(tmp_path / "other.safetensors")
    assert (again.engine, again.engine_options) == ("reference", {"people_at_once": 7})
    assert np.array_equal(other.item_factors, model.item_factors)


def test_fit_plans_settings_for_a_budget() -> None:
    h = random_people(300, 40, seed=2)
    model = FederatedMF(budget=8, factors=3)
    with pytest.raises(SettingsError):
        _ = model.settings
    model.fit(h)
    typical = h.typical_length()
    expected = plan_training(300, 40, history=typical, budget=Budget(local=8), factors=3)
    assert model.settings == expected
    assert model.privacy().training.pure <= 8
    central = FederatedMF(central_budget=2).fit(h).privacy().training.central
    assert central is not None
    assert central <= 2


def test_privacy_counts_the_people_of_the_smallest_epoch() -> None:
    h = random_people(300, 40, seed=2)
    crowd = FederatedMF(2, 5, reports=1, lifetime=1).fit(h).privacy().people
    assert crowd is not None
    assert 30 < crowd < 60
    few = FederatedMF(2, 20, reports=1, lifetime=1).fit(random_people(30, 20, seed=2)).privacy()
    assert few.training.central is None, "an epoch of one person hides nobody"


DATA = synthetic_people(300, 80, seed=2)
SPLIT = leave_one_out(DATA, "random", seed=1000)
TRAIN = SPLIT.train
TEST = SPLIT.left_out
SETTINGS: dict[str, Any] = {
    "factors": 2, "epochs": 4, "epsilon": 2.5, "reports": 20, "seed": 3, "verbose": False
}  # fmt: skip
# Subpackages that `sottovoce` offers next to its public names.
PUBLIC_PACKAGES = ("client", "data", "errors", "privacy", "training")


class InterruptionError(Exception):
    pass


def stop_after(epochs: int) -> Any:
    def callback(epoch: int, seconds: float, metrics: dict[str, float]) -> None:
        if epoch == epochs:
            raise InterruptionError

    return callback


def test_training_continues_from_its_checkpoint(tmp_path: Path) -> None:
    file, whole = tmp_path / "run.safetensors", FederatedMF(**SETTINGS).fit(TRAIN)
    with pytest.raises(InterruptionError):
        FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file, callback=stop_after(2))
    assert np.array_equal(
        FederatedMF.load(file).item_factors,
        FederatedMF(**SETTINGS).set_params(epochs=2).fit(TRAIN).item_factors,
    )
    epochs: list[int] = []
    model = FederatedMF(**SETTINGS)
    model.fit(TRAIN, checkpoint=str(file), callback=lambda epoch, *_: epochs.append(epoch))
    assert np.array_equal(model.item_factors, whole.item_factors)
    assert model.privacy() == whole.privacy()
    assert epochs == [1, 2, 3, 4]
    with pytest.raises(CheckpointError):
        FederatedMF(**{**SETTINGS, "seed": 4}).fit(TRAIN, checkpoint=file)
    with pytest.raises(CheckpointError):
        FederatedMF(**SETTINGS).fit(DATA.histories, checkpoint=file)
    before = file.read_bytes()
    done = FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file)
    assert np.array_equal(done.item_factors, whole.item_factors)
    assert file.read_bytes() == before


def test_callback_gets_metrics_after_every_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    metrics: list[dict[str, float]] = []
    model = FederatedMF(**SETTINGS)
    model.fit(TRAIN, test=TEST, callback=lambda _, __, measured: metrics.append(measured))
    assert len(metrics) == 4
    assert metrics[-1] == model.evaluate(TRAIN, TEST)
    assert metrics[-1].pop("negatives") == pytest.approx(80 - np.diff(DATA.histories.indptr).mean())
    assert set(metrics[-1]) == {"hr@10", "ndcg@10", "mrr@10", "recall@10", "coverage@10"}
    assert metrics[0] != metrics[-1]
    assert capsys.readouterr() == ("", "")
    without_test: list[dict[str, float]] = []
    model.fit(TRAIN, callback=lambda *args: without_test.append(args[2]), show_progress=True)
    assert without_test == [{}] * 4
    output = capsys.readouterr()
    assert (output.out, "100%" in output.err) == ("", True)


def test_metrics_equal_those_of_simulate_and_of_the_lists() -> None:
    model = FederatedMF(**SETTINGS).fit(TRAIN)
    metrics = model.evaluate(TRAIN, TEST, negatives=None)
    lists, _ = model.recommend(np.arange(300), TRAIN.to_csr())
    tested = SPLIT.test >= 0
    hit = (lists == SPLIT.test[:, None])[tested]
    places = np.where(hit.any(axis=1), hit.argmax(axis=1), np.inf)
    assert metrics["hr@10"] == metrics["recall@10"] == pytest.approx(hit.any(axis=1).mean())
    assert metrics["mrr@10"] == pytest.approx((1 / (1 + places)).mean())
    assert metrics["ndcg@10"] == pytest.approx((1 / np.log2(2 + places)).mean())
    assert metrics["coverage@10"] == pytest.approx(len(np.unique(lists)) / 80)
    settings = model.settings.copy_with(seed=1000)
    again = FederatedMF.from_items(model.item_factors, settings).fit(TRAIN)
    names = ("hr@10", "ndcg@20", "mrr@10", "map@3", "coverage@10", "novelty@5", "gini@20")
    for negatives in (None, 20):
        plan = Simulation(settings, negatives=negatives or 0, tags=False, metrics=names)
        expected = simulate(DATA, plan).final
        metrics = again.evaluate(TRAIN, TEST, metrics=names, negatives=negatives)
        assert [metrics[name] for name in names] == pytest.approx([expected[n] for n in names])
    assert metrics["negatives"] == 20


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, row: model.recommend(0, row, items=[120]),
        lambda model, row: model.recommend(0, row, items=[0.5]),
        lambda model, row: model.recommend(0, row, filter_items=[-1]),
        lambda model, row: model.recommend(np.nan, row),
        lambda model, row: model.recommend(np.zeros((1, 1), int), row),
        lambda model, row: model.recommend([[1], [2, 3]], row),
        lambda model, row: model.recommend(np.array([], int), row[:0]),
        lambda model, row: model.recommend(0, break_indptr(row)),
        lambda model, row: model.recommend(0, row * np.nan),
        lambda model, row: model.recommend(0, row.astype(complex)),
        lambda model, row: model.recommend(0, row, N=2.5),
        lambda model, row: model.recommend(0, sparse.vstack([row, row])),
        lambda model, row: model.recommend(0, row[:, :7]),
        lambda model, row: model.similar_items([3, -2]),
        lambda model, row: model.similar_items(120),
        lambda model, row: model.similar_items(True),
        lambda model, row: model.similar_items(1, N=0),
        lambda model, row: model.explain(0, row, 120),
        lambda model, row: model.explain(0, row, [1, 2]),
        lambda model, row: model.explain(0, row, [[1], [2, 3]]),
        lambda model, row: model.evaluate(row, break_indptr(row)),
        lambda model, row: model.privacy(delta=None),
        lambda model, row: model.privacy(delta=1),
        lambda model, row: model.fit(row.toarray().astype(str)),
        lambda model, row: model.fit([[1, 0], [1]]),
        lambda model, row: model.fit(3),
        lambda model, row: model.fit(row.toarray() * np.nan),
        lambda model, row: model.evaluate(row, 1 - row.toarray(), negatives=0),
        lambda model, row: FederatedMF().fit(Histories.from_lists([], 4)),
        lambda model, row: FederatedMF().item_factors,
    ],
)
def test_impossible_arguments_are_refused(
    model: FederatedMF, matrix: sparse.csr_matrix, ask: Any
) -> None:
    with pytest.raises((DataError, SettingsError)):
        ask(model, matrix[3].astype(float))


@pytest.mark.parametrize(
    "test",
    [
        sparse.csr_matrix((300, 79)),
        sparse.csr_matrix((300, 80)),
        TRAIN,
        np.full((300, 80), "x"),
    ],
    ids=["another shape", "nothing to find", "what was trained on", "text"],
)
def test_impossible_tests_are_refused(test: Any) -> None:
    with pytest.raises(DataError):
        FederatedMF(**SETTINGS).fit(TRAIN, test=test)


VIEWS = pl.DataFrame(
    {
        "viewer": [f"p{number:03}" for number in TRAIN.users_of_entries()],
        "film": [f"film {number:02}" for number in TRAIN.indices],
    }
)
TEST_TABLE: dict[str, Any] = {
    "user": np.flatnonzero(SPLIT.test >= 0),
    "item": SPLIT.test[SPLIT.test >= 0],
}


@pytest.fixture(scope="module")
def table_model() -> FederatedMF:
    return FederatedMF(**SETTINGS).fit(VIEWS)


def test_model_of_a_table_equals_that_of_the_matrix_and_uses_ids(
    table_model: FederatedMF, tmp_path: Path
) -> None:
    plain = FederatedMF(**SETTINGS).fit(TRAIN.to_csr().toarray())
    assert np.array_equal(table_model.item_factors, plain.item_factors)
    names = table_model.item_ids
    assert names.tolist() == [f"film {number:02}" for number in plain.item_ids]
    rows, users = TRAIN.to_csr(), np.array([7, 3])
    numbers, scores = plain.recommend(users, rows[users], N=80, filter_items=[5])
    wanted = [None if number < 0 else names[number] for number in numbers[0]]
    table_model.save(tmp_path / "model")
    for model in (table_model, FederatedMF.load(tmp_path / "model")):
        items, best = model.recommend(["p007", "p003"], VIEWS, N=80, filter_items=["film 05"])
        assert items[0].tolist() == wanted
        assert None in wanted
        assert np.array_equal(best, scores)
    assert table_model.similar_items("film 17", N=1)[0].tolist() == ["film 17"]
    _, reasons = table_model.explain("p007", VIEWS, wanted[0])
    _, by_number = plain.explain(7, rows[7], int(numbers[0, 0]))
    assert reasons == [(names[number], share) for number, share in by_number]


def test_row_of_one_person_needs_no_id_and_unknown_users_of_a_table_are_refused(
    table_model: FederatedMF,
) -> None:
    own = VIEWS.filter(pl.col("viewer") == "p007").select("film")
    expected = table_model.recommend("p007", VIEWS)[0].tolist()
    for row in (own, own["film"], {"item": own["film"].to_list()}, TRAIN.to_csr()[7]):
        assert table_model.recommend("a stranger", row)[0].tolist() == expected
    assert table_model.recommend(99999, TRAIN.to_csr().toarray()[7])[0].tolist() == expected
    popular = table_model.recommend("new", sparse.csr_matrix((1, 80)))[0].tolist()
    assert table_model.recommend("new", {"item": []})[0].tolist() == popular
    with pytest.warns(DataWarning, match="1 of 1 "):
        assert table_model.recommend("new", {"item": ["unheard of"]})[0].tolist() == popular
    # No column of this table is recognised as that of users.
    others = VIEWS.rename({"viewer": "somebody"})
    refused = ("a stranger", VIEWS), (["p007"], own), ("p007", {"item": [1.5]}), ("p007", others)
    for users, table in refused:
        with pytest.raises(DataError):
            table_model.recommend(users, table)


def test_saved_model_keeps_ids_that_are_numbers(tmp_path: Path) -> None:
    # The type of the numbers of rows, which are not saved.
    ids = np.arange(TRAIN.n_items, dtype=np.int32) * 10
    data = Interactions("numbers", TRAIN, np.arange(TRAIN.n_users), ids)
    FederatedMF(**SETTINGS).fit(data).save(tmp_path / "model")
    assert FederatedMF.load(tmp_path / "model").item_ids.tolist() == ids.tolist()


def test_table_of_test_items_is_matched_by_ids(table_model: FederatedMF) -> None:
    test = {
        "user": [f"p{n:03}" for n in TEST_TABLE["user"]],
        "item": [f"film {n:02}" for n in TEST_TABLE["item"]],
    }
    expected = table_model.evaluate(TRAIN, TEST)
    order = np.random.default_rng(0).permutation(len(test["user"]))
    shuffled = {name: [column[place] for place in order] for name, column in test.items()}
    assert table_model.evaluate(VIEWS, shuffled) == expected
    metrics: list[dict[str, float]] = []
    model = FederatedMF(**SETTINGS)
    model.fit(VIEWS, test=test, callback=lambda *args: metrics.append(args[2]))
    assert metrics[-1] == expected
    assert FederatedMF(**SETTINGS).fit(TRAIN).evaluate(TRAIN, TEST_TABLE) == expected
    more = {"user": [*test["user"], "p007", "who"], "item": [*test["item"], "what", "film 01"]}
    with pytest.warns(DataWarning) as warned:
        assert table_model.evaluate(VIEWS, more) == expected
    assert len(warned) == 2
    with pytest.raises(DataError, match="'p000'"):
        table_model.evaluate(VIEWS, VIEWS)


def test_all_items_as_negatives_equal_the_whole_catalogue() -> None:
    model, both = FederatedMF(**SETTINGS).fit(TRAIN), DATA.histories.to_csr().toarray()
    train, test = both.copy(), both.copy()
    train[:, 40:] = test[:, :40] = 0
    assert model.evaluate(train, test, negatives=80) == model.evaluate(train, test, negatives=None)
    assert model.evaluate(train, test, negatives=5)["negatives"] == 5


@pytest.mark.parametrize(
    "rated",
    [
        sparse.csr_matrix([[1, -1, 0], [2, 0, -3]]),
        np.array([[1, -1, 0], [2, 0, -3]]),
        {"user": [1, 1, 2, 2], "item": ["a", "b", "a", "c"], "rating": [1, -1, 2, -3]},
    ],
)
def test_one_warning_counts_the_ratings_that_are_ignored(rated: Any) -> None:
    with pytest.warns(DataWarning, match="2 of 4 ") as warned:
        FederatedMF(factors=1, epochs=1, reports=2).fit(rated)
    assert [warning.filename for warning in warned] == [__file__]


def test_package_lists_its_public_names() -> None:
    assert set(dir(sottovoce)) == {*sottovoce.__all__, *PUBLIC_PACKAGES}
    for name in dir(sottovoce):
        assert getattr(sottovoce, name)


def test_fit_ends_with_a_line_that_outlook_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = synthetic_people(400, 120, seed=2)
    model = FederatedMF(engine="reference").fit(people)
    assert model.outlook is not None
    assert capsys.readouterr() == ("", f"FederatedMF: {model.outlook}\n")
    # Names by one report of epsilon 10 of 400 people tell nothing that popularity does not.
    assert (model.outlook.verdict, model.outlook.epsilon) == ("no better", 10)
    assert f"{DEFAULT_BUDGET_NOTE}; expected HR@10 " in str(model.outlook)
    assert "no better than popularity" in str(model.outlook)
    model.save(tmp_path / "model")
    assert FederatedMF.load(tmp_path / "model").outlook == model.outlook
    # A model that everything was told is better.
    rich = FederatedMF(preset="loudest", epsilon=20.0, reports=200, epochs=8, engine="cpu")
    rich.fit(people)
    assert rich.outlook is not None
    assert (rich.outlook.verdict, rich.outlook.is_default_budget) == ("better", False)
    for shown in (model, rich.outlook, rich.settings, people, leave_one_out(people)):
        assert "\n" not in str(shown)
        assert shown._repr_html_().startswith("<table><tr><th>")
    few = FederatedMF().fit([[1, 1, 0], [0, 1, 1]])
    assert few.outlook is not None
    assert few.outlook.verdict == "unknown"


def test_repurchases_count_if_touched_items_are_not_filtered(model: FederatedMF) -> None:
    people = synthetic_people(400, 120, seed=2)
    train, test = leave_out(people, n=3, seed=1)
    both = people.histories
    with pytest.warns(DataWarning, match="filter_already_liked_items=False"):
        without = model.evaluate(train.histories, both)
    assert without == model.evaluate(train.histories, test.histories)
    result = model.evaluate(train.histories, both, filter_already_liked_items=False)
    lists, _ = model.recommend(
        np.arange(400), train.histories.to_csr(), filter_already_liked_items=False
    )
    hits = [np.isin(row, both[user]).any() for user, row in enumerate(lists)]
    assert result["hr@10"] == pytest.approx(np.mean(hits), abs=0.01)
    assert result["negatives"] == pytest.approx(120 - np.diff(both.indptr).mean())
    # The same for any other model.
    popular = Popularity.fit(train)
    counts = evaluate(popular, train, people, filter_already_liked_items=False)
    assert counts["hr@10"] > evaluate(popular, train, test)["hr@10"]
