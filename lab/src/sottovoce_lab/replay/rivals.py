"""Models that are tested on the same cases of a replay, each with and without side information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.recommending import WideModel, build_popularity_model, weigh_histories
from sottovoce.core.tags import make_empty_tags
from sottovoce.simulation.evaluation.metrics import compute_hits, ndcg
from sottovoce.simulation.evaluation.ranking import Ranks, rank_factors
from sottovoce.simulation.evaluation.side_information import SideInformation, rank_devices
from sottovoce.training import Settings
from sottovoce_lab.replay.cases import Cases
from sottovoce_lab.replay.timeline import Timeline

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Length of the ranked lists: HR@10 and NDCG@10.
LIST_LENGTH = 10
# Periods that make the recent popularity.
RECENT_PERIODS = 2
# Names of the models.
MODEL_NAME = "model"
FROZEN_NAME = "frozen"
POPULARITY_NAME = "popularity"
RECENT_POPULARITY_NAME = "popularity lately"
# Ends the name of a model that has neither tags nor the order of a history.
PLAIN_SUFFIX = " alone"


@dataclass(frozen=True, eq=False)
class CaseResults:
    """The results of all models in the cases of one period."""

    cases: Cases
    hits: dict[str, Float64]
    """Probability of a hit in each case, by the name of the model."""
    ndcg: dict[str, float]

    def summarize(self) -> dict[str, dict[str, float]]:
        """Return the metrics of each model."""
        return {
            name: {
                f"hr@{LIST_LENGTH}": float(hits.mean()),
                f"ndcg@{LIST_LENGTH}": self.ndcg[name],
            }
            for name, hits in self.hits.items()
        }


def evaluate_models(
    timeline: Timeline,
    cases: Cases,
    models: dict[str, Float32],
    settings: Settings,
    side_information: SideInformation,
) -> CaseResults:
    """Evaluate models with a row for each item of the catalogue, and two kinds of popularity."""
    ranks: dict[str, Ranks] = {}
    for name, V in models.items():
        ridge = settings.compute_user_ridge(V)
        nothing = SideInformation(make_empty_tags(len(V)), None)
        for suffix, side in (("", side_information), (PLAIN_SUFFIX, nothing)):
            wide = WideModel.from_model(V, side.tags, alpha=settings.alpha, regularization=ridge)
            ranks[name + suffix] = rank_devices(wide, cases.candidates, side.weights)
    size, people = cases.candidates.split.train.n_items, timeline.histories.n_users
    recent = max(cases.period - RECENT_PERIODS, 0)
    for name, first in ((POPULARITY_NAME, 0), (RECENT_POPULARITY_NAME, recent)):
        counts = timeline.counts[first : cases.period, :size].sum(axis=0)
        wide = build_popularity_model(counts, people, side_information.tags)
        ranks[name] = rank_devices(wide, cases.candidates, side_information.weights)
        ones = np.ones((len(cases), 1), np.float32)
        shares = counts.astype(np.float32)[:, None]
        ranks[name + PLAIN_SUFFIX] = rank_factors(ones, shares, cases.candidates)
    return CaseResults(
        cases,
        {name: compute_hits(own, LIST_LENGTH) for name, own in ranks.items()},
        {name: ndcg(own, LIST_LENGTH) for name, own in ranks.items()},
    )


def collect_side_information(
    timeline: Timeline, cases: Cases, *, tags: bool, time: bool
) -> SideInformation:
    """Return what devices know in the period of these cases, besides the model."""
    split = cases.candidates.split
    columns = timeline.build_tags(cases.period) if tags else make_empty_tags(split.train.n_items)
    times = split.times if time else None
    return SideInformation(columns, None if times is None else weigh_histories(split.train, times))
