"""LensKit's evaluation and ours agree on models of either, on the same split."""

from typing import Any

import numpy as np
import pytest

from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.simulation import FederatedMF, Popularity, evaluate

pytest.importorskip("lenskit", reason="LensKit is not installed, which pulls in torch")

import polars as pl
from lenskit import batch
from lenskit.basic import PopScorer
from lenskit.data import ItemListCollection, from_interactions_df
from lenskit.metrics import NDCG, Hit, Recall, RecipRank, RunAnalysis
from lenskit.pipeline import Component, topn_pipeline

from sottovoce_lab.lenskit import FederatedScorer, PipelineScores

PARAMETERS: dict[str, Any] = {"factors": 2, "epochs": 2, "reports": 50, "seed": 1000}
LENGTH = 10
SPLIT = leave_one_out(synthetic_people(150, 50, seed=2), seed=1000)


def to_frame(rows: np.ndarray, items: np.ndarray) -> object:
    return pl.DataFrame({"user_id": rows, "item_id": items.astype(np.int64)}).to_pandas()


def discount(places: np.ndarray) -> np.ndarray:
    """Divide by log2(1 + place), as everybody but LensKit does by default."""
    return np.asarray(np.log2(1 + places))


@pytest.mark.parametrize("name", ["ours", "popularity"])
def test_both_evaluations_agree(name: str) -> None:
    train, test = SPLIT.train, SPLIT.left_out
    scorer: Component = FederatedScorer(parameters=PARAMETERS) if name == "ours" else PopScorer()
    pipeline = topn_pipeline(scorer, n=LENGTH)
    pipeline.train(from_interactions_df(to_frame(train.users_of_entries(), train.indices)))
    tests = ItemListCollection.from_df(to_frame(test.users_of_entries(), test.indices), "user_id")
    lists = batch.recommend(pipeline, list(tests.keys()), LENGTH, n_jobs=1)
    analysis = RunAnalysis()
    theirs = [
        NDCG(n=LENGTH, discount=discount),
        Hit(n=LENGTH),
        Recall(n=LENGTH),
        RecipRank(n=LENGTH),
    ]
    for metric in theirs:
        analysis.add_metric(metric)
    means = analysis.measure(lists, tests).list_summary()["mean"]
    expected = [means[metric.label] for metric in theirs]
    metrics = ["ndcg@10", "hr@10", "recall@10", "mrr@10"]
    rows, columns = np.arange(train.n_users), np.arange(train.n_items)
    model = FederatedMF(**PARAMETERS).fit(train) if name == "ours" else Popularity.fit(train)
    for own in (model, PipelineScores(pipeline, rows, columns)):
        result = evaluate(own, train, test, metrics=metrics)
        # Ties, which popularity has, are broken by LensKit and averaged by us.
        tolerance = 1e-6 if name == "ours" else 0.02
        assert [result[metric] for metric in metrics] == pytest.approx(expected, abs=tolerance)
