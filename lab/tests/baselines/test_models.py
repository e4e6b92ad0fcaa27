"""Fast ranks of every baseline equal the ranks of its scores."""

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import Split, leave_one_out, synthetic_people
from sottovoce.data.interactions import Interactions
from sottovoce.simulation import Popularity
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce.training import Settings
from sottovoce_lab.baselines import (
    DPLCF,
    FCF,
    MatrixFactorization,
    PrivatePopularity,
    rank,
)
from sottovoce_lab.baselines.models import Scorer, rank_scores


@pytest.fixture(scope="module")
def split() -> Split:
    """Split people, some of whom cannot be tested or touched nearly everything."""
    people = synthetic_people(n_users=60, n_items=30, seed=2).histories
    rows = [people[u].tolist() for u in range(60)]
    rows += [[], [3], list(range(30)), list(range(29))]
    histories = Histories.from_lists(rows, 30)
    data = Interactions("some", histories, np.arange(64), np.arange(30))
    return leave_one_out(data, "random", 1)


def fit_models(train: Histories) -> list[Scorer]:
    mf = {"factors": 2, "alpha": 1.0, "regularization": 0.1, "iterations": 2, "seed": 0}
    return [
        Popularity.fit(train),
        PrivatePopularity.fit(train, epsilon=2.0, reports=5, seed=1),
        MatrixFactorization.fit(train, **mf, threads=1),  # type: ignore[arg-type]
        FCF.fit(train, Settings.preset("paper", factors=2, epochs=2, regularization=0.1)),
        DPLCF.fit(train, epsilon=2.0, neighbours=4, seed=1),
    ]


@pytest.mark.parametrize("negatives", [0, 5, 29])
def test_rank_agrees_with_scores(split: Split, negatives: int) -> None:
    candidates = sample_candidates(split, negatives, 3)
    for model in fit_models(split.train):
        fast, slow = rank(model, candidates), rank_scores(model, candidates)
        # BLAS may round a product of floats differently, and so change a few ranks.
        assert fast.better.shape == slow.better.shape
        assert np.mean(fast.better != slow.better) < 0.02
        assert np.mean(fast.ties != slow.ties) < 0.02
