"""Baselines compared with the same models of other libraries on the same split.

implicit comes with the laboratory. LensKit does not: `pip install lenskit` to compare with it, too.
`python -m lab.tests.baselines.test_libraries DATA:MIN_INTERACTIONS ...` prints all figures as
CSV.
"""

import sys
from typing import Any

import numpy as np
import pytest
from implicit.cpu.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

from sottovoce.core import draw_initial_items
from sottovoce.data import Split, leave_one_out, load
from sottovoce.simulation import Popularity, evaluate
from sottovoce.simulation.evaluation.metrics import hit_ratio, ndcg
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce_lab.baselines import EASE, MatrixFactorization
from sottovoce_lab.baselines.factorization import INITIAL_SCALE
from sottovoce_lab.baselines.models import Factorization, Scorer, rank

# What figures may differ by.
TOLERANCE = 0.002
SEED = 1000
# Settings of ALS.
FACTORS = 64
ALPHA = 10.0
REGULARIZATION = 10.0
ITERATIONS = 15
# Ridge of EASE.
RIDGE = 500.0
# HR@10 and NDCG@100 in the whole catalogue: ours, and those of the other library.
Figures = tuple[tuple[float, float], tuple[float, float]]


def split_data(source: str, min_interactions: int) -> Split:
    return leave_one_out(load(source).filter(min_interactions), "random", SEED)


@pytest.fixture(scope="module")
def split() -> Split:
    return split_data("ml-latest-small", 20)


def draw_first_items(split: Split) -> np.ndarray:
    """Return the first item matrix of our ALS, for all libraries."""
    return draw_initial_items(split.train.n_items, FACTORS, INITIAL_SCALE, SEED)


def measure(model: Scorer, split: Split) -> tuple[float, float]:
    """Return HR@10 and NDCG@100 in the whole catalogue."""
    ranks = rank(model, sample_candidates(split, 0, 0))
    return hit_ratio(ranks, 10), ndcg(ranks, 100)


def measure_als(split: Split) -> tuple[float, float]:
    model = MatrixFactorization.fit(
        split.train, factors=FACTORS, alpha=ALPHA, regularization=REGULARIZATION,
        iterations=ITERATIONS, seed=SEED,
    )  # fmt: skip
    return measure(model, split)


def compare_with_implicit(split: Split) -> Figures:
    everybody, matrix = np.arange(split.train.n_users), split.train.to_csr().astype(np.float32)
    with threadpool_limits(1, user_api="blas"):
        als = AlternatingLeastSquares(
            factors=FACTORS, regularization=REGULARIZATION, alpha=1 + ALPHA, iterations=ITERATIONS,
            use_cg=False,
        )  # fmt: skip
        als.item_factors = draw_first_items(split)
        als.user_factors = np.zeros((len(everybody), FACTORS), np.float32)
        als.fit(matrix, show_progress=False)
        X = als.recalculate_user(everybody, matrix)
    theirs = measure(Factorization(X, als.item_factors), split)
    return measure_als(split), theirs


def test_als_is_as_good_as_that_of_implicit(split: Split) -> None:
    ours, theirs = compare_with_implicit(split)
    assert ours == pytest.approx(theirs, abs=TOLERANCE)
    assert theirs[0] > 0.2


def measure_with_lenskit(scorer: Any, split: Split) -> tuple[float, float]:
    """Train a model of LensKit, and return its own HR@10 and NDCG@100."""
    import pandas as pd
    from lenskit.batch import recommend
    from lenskit.data import ItemListCollection, from_interactions_df
    from lenskit.metrics import NDCG, Hit, RunAnalysis
    from lenskit.pipeline import topn_pipeline

    users, items = split.train.users_of_entries(), split.train.indices
    tested = np.flatnonzero(split.test >= 0)
    pipeline = topn_pipeline(scorer, n=100)
    pipeline.train(from_interactions_df(pd.DataFrame({"user_id": users, "item_id": items})))
    lists = recommend(pipeline, tested.tolist(), n=100, n_jobs=1)
    analysis = RunAnalysis()
    analysis.add_metric(Hit(10), "hits")
    # Its default gives the second place as much as the first.
    analysis.add_metric(NDCG(100, discount=lambda places: np.log2(places + 1)), "gains")
    test = pd.DataFrame({"user_id": tested, "item_id": split.test[tested]})
    results = analysis.measure(lists, ItemListCollection.from_df(test, ["user_id"]))
    means = results.list_summary()["mean"]
    return float(means["hits"]), float(means["gains"])


def compare_with_lenskit(split: Split) -> dict[str, Figures]:
    from lenskit.als import ImplicitMFScorer
    from lenskit.basic import PopScorer
    from lenskit.knn.ease import EASEScorer

    als = ImplicitMFScorer(
        embedding_size=FACTORS, epochs=ITERATIONS, regularization=REGULARIZATION, weight=ALPHA
    )
    create_trainer, first_items = als.create_trainer, draw_first_items(split)

    def begin_with_our_items(data: Any, options: Any) -> Any:
        trainer = create_trainer(data, options)
        als.item_embeddings[:] = first_items[np.asarray(data.items.ids())]
        return trainer

    als.create_trainer = begin_with_our_items
    pairs = {
        "popularity": (measure(Popularity.fit(split.train), split), PopScorer()),
        "EASE": (
            measure(EASE.fit(split.train, ridge=RIDGE), split),
            EASEScorer(regularization=RIDGE),
        ),
        "ALS": (measure_als(split), als),
    }
    return {
        name: (ours, measure_with_lenskit(scorer, split)) for name, (ours, scorer) in pairs.items()
    }


def test_baselines_are_as_good_as_those_of_lenskit(split: Split) -> None:
    pytest.importorskip("lenskit", reason="LensKit is not installed")
    for name, (ours, theirs) in compare_with_lenskit(split).items():
        assert ours == pytest.approx(theirs, abs=TOLERANCE), name


def test_models_of_implicit_are_evaluated_as_they_are(split: Split) -> None:
    als = AlternatingLeastSquares(factors=8, iterations=3, random_state=SEED)
    with threadpool_limits(1, user_api="blas"):
        als.fit(split.train.to_csr(), show_progress=False)
    metrics = ["hr@10", "ndcg@100", "map@20", "coverage@10"]
    lists = evaluate(als, split.train, split.left_out, metrics=metrics)
    scores = evaluate(
        als.user_factors @ als.item_factors.T, split.train, split.left_out, metrics=metrics
    )
    assert lists == pytest.approx(scores, abs=TOLERANCE)


if __name__ == "__main__":
    print("data,min_interactions,model,metric,ours,LensKit,implicit")
    for argument in sys.argv[1:]:
        source, _, least = argument.partition(":")
        chosen = split_data(source, int(least))
        by_implicit = compare_with_implicit(chosen)[1]
        for model, (own, by_lenskit) in compare_with_lenskit(chosen).items():
            others = by_implicit if model == "ALS" else ("", "")
            for metric, *figures in zip(
                ("HR@10", "NDCG@100"), own, by_lenskit, others, strict=True
            ):
                print(source, least, model, metric, *figures, sep=",", flush=True)
