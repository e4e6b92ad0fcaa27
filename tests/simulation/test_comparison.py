"""Any model is measured by the same code: ours, a matrix, an object with scores or with lists."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories
from sottovoce.data import Interactions, leave_one_out, split_by_time, synthetic_people
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation import FederatedMF, Popularity, evaluate
from tests.people import histories
from tests.simulation.evaluation.test_ranking import Matrix

METRICS = ("hr@3", "recall@5", "precision@5", "map@5", "mrr@5", "ndcg@9", "coverage@5", "gini@9")
DATA = synthetic_people(200, 60, seed=4)
TRAIN = split_by_time(DATA)[0]
TEST = split_by_time(DATA)[1]
SCORES = np.random.default_rng(0).standard_normal((200, 60)).astype(np.float32)


class ListModel:
    """A model with lists of scores, as those of implicit."""

    def __init__(self, scores: np.ndarray, **faults: bool):
        self.scores, self.faults = scores, faults

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[np.ndarray, np.ndarray]:
        scores = self.scores[userid].copy()
        if not self.faults.get("own"):
            scores[user_items.toarray() > 0] = -np.inf
        items = np.argsort(-scores, axis=1, kind="stable")[:, :N]
        best = np.take_along_axis(scores, items, axis=1)
        items[np.isneginf(best)] = -1
        if self.faults.get("repeats"):
            items[:, 1] = items[:, 0]
        return items, best


def test_scores_and_lists_of_one_model_have_the_same_metrics() -> None:
    results = [
        evaluate(model, TRAIN, TEST, metrics=METRICS)
        for model in (SCORES, Matrix(SCORES), ListModel(SCORES))
    ]
    for result in results[1:]:
        assert result == pytest.approx(results[0])
        for name, values in results[0].by_person.items():
            assert np.array_equal(result.by_person[name], values)
    tested = np.flatnonzero(np.diff(TEST.histories.indptr))
    assert results[0].people.tolist() == TRAIN.user_ids[tested].tolist()
    assert set(results[0].by_person) == set(METRICS[:-2])
    for name, values in results[0].by_person.items():
        assert values.shape == tested.shape
        assert values.mean() == pytest.approx(results[0][name])


def test_ours_is_measured_like_its_lists_and_like_itself() -> None:
    split = leave_one_out(DATA, seed=1)
    model = FederatedMF(2, 2, reports=50).fit(split.train)
    whole = evaluate(model, split.train, split.left_out, metrics=METRICS)
    assert whole == model.evaluate(split.train, split.left_out, metrics=METRICS)
    lists = ListModel(model.user_vectors(split.train) @ model.item_factors.T)
    assert evaluate(lists, split.train, split.left_out, metrics=METRICS) == pytest.approx(
        whole, abs=0.01
    )
    # The same seed draws the same negatives for every model.
    scores = model.user_vectors(split.train) @ model.item_factors.T
    for seed in (5, 6):
        sampled = [
            evaluate(own, split.train, split.left_out, metrics=["hr@3"], negatives=9, seed=seed)
            for own in (model, scores)
        ]
        assert sampled[0]["hr@3"] == pytest.approx(sampled[1]["hr@3"], abs=0.01)
        assert sampled[0]["negatives"] == sampled[1]["negatives"] == 9


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (SCORES[:9], DataError, "200 x 60"),
        (object(), DataError, "recommend"),
        (SCORES * np.nan, DataError, "NaN"),
        (Matrix(SCORES[:, :5]), DataError, "x 60 scores"),
        (ListModel(SCORES, own=True), DataError, "leave out"),
        (ListModel(SCORES, repeats=True), DataError, "once"),
    ],
)
def test_models_that_cannot_be_ranked_are_refused(
    model: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        evaluate(model, TRAIN, TEST)


def test_settings_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(SettingsError, match="only lists"):
        evaluate(ListModel(SCORES), TRAIN, TEST, negatives=9)
    with pytest.raises(SettingsError, match="auc"):
        evaluate(SCORES, TRAIN, TEST, metrics=["auc@9"])


def test_popularity_counts_all_recent_or_each_person_once() -> None:
    data = Interactions.from_lists("shop", [[0, 1, 2], [0, 1], [0], [3]], 4)
    times = np.array([1, 5, 5, 2, 6, 7, 1])
    data = replace(data, timestamps=times)
    assert Popularity.fit(data).counts.tolist() == [3, 2, 1, 1]
    assert Popularity.fit(data, since=5).counts.tolist() == [1, 2, 1, 0]
    assert Popularity.fit(data, since=5, once=True).counts.tolist() == [1, 1.5, 0.5, 0]
    assert Popularity.fit(data.histories, once=True, times=times).counts.tolist() == [
        1,
        1.5,
        0.5,
        1,
    ]
    with pytest.raises(DataError, match="pass times"):
        Popularity.fit(data.histories, since=5)
    assert (
        evaluate(Popularity.fit(TRAIN), TRAIN, TEST, metrics=["hr@5"])["hr@5"]
        > (evaluate(SCORES, TRAIN, TEST, metrics=["hr@5"])["hr@5"])
    )


@given(histories(max_items=9), st.integers(0, 30), st.data())
def test_a_split_by_time_loses_nothing_of_people_who_are_known(
    h: Histories, since: int, draw: st.DataObject
) -> None:
    drawn = st.lists(st.integers(0, 30), min_size=h.n_interactions, max_size=h.n_interactions)
    times = np.array(draw.draw(drawn), np.int64)
    ids = np.arange(h.n_users), np.arange(h.n_items)
    data = replace(Interactions("some", h, *ids), timestamps=times)
    if not (times < since).any():
        with pytest.raises(DataError, match="before"):
            split_by_time(data, since)
        return
    train, test = split_by_time(data, since)
    for part, is_in in ((train, times < since), (test, times >= since)):
        assert part.timestamps is not None
        for user in range(h.n_users):
            own = slice(*h.indptr[user : user + 2])
            is_unknown = part is test and not (times[own] < since).any()
            is_expected = is_in[own] & (not is_unknown)
            new = slice(*part.histories.indptr[user : user + 2])
            assert part.histories[user].tolist() == h[user][is_expected].tolist()
            assert part.timestamps[new].tolist() == times[own][is_expected].tolist()
