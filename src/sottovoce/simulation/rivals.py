"""Models side by side on the same cases of a replay, each with what devices know and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.evaluation import Known, hits, ndcg, rank_devices, rank_factors
from sottovoce.model.recency import recency_of
from sottovoce.model.tags import no_tags
from sottovoce.model.wide import WideModel, counts_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.evaluation import Ranks
    from sottovoce.simulation.cases import Cases
    from sottovoce.simulation.timeline import Timeline
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

CUTOFF = 10
RECENT = 2
"""Periods that make the popularity of today."""
MODEL, FROZEN, POPULAR, LATELY = "model", "frozen", "popularity", "popularity lately"
ALONE = " alone"
"""Ends the name of one that knows neither tags nor the order of a history."""


@dataclass(frozen=True, eq=False)
class Tested:
    """One period: of each rival, by name, the chance of a hit in each case, and the NDCG."""

    cases: Cases
    hits: dict[str, Float64]
    ndcg: dict[str, float]

    def quality(self) -> dict[str, dict[str, float]]:
        """By name, as in every evaluation."""
        return {
            name: {f"hr@{CUTOFF}": float(each.mean()), f"ndcg@{CUTOFF}": self.ndcg[name]}
            for name, each in self.hits.items()
        }


def tested(
    timeline: Timeline, cases: Cases, models: dict[str, Float32], settings: Settings, known: Known
) -> Tested:
    """The models by name, whose rows are the catalogue's, beside two kinds of popularity."""
    ranks: dict[str, Ranks] = {}
    for name, V in models.items():
        ridge = settings.user_ridge(V)
        for ending, knowing in (("", known), (ALONE, Known(no_tags(len(V)), None))):
            wide = WideModel.of(V, knowing.tags, alpha=settings.alpha, regularization=ridge)
            ranks[name + ending] = rank_devices(wide, cases.candidates, knowing.weights)
    size, people = cases.candidates.split.train.n_items, timeline.histories.n_users
    for name, first in ((POPULAR, 0), (LATELY, max(cases.period - RECENT, 0))):
        counts = timeline.counts[first : cases.period, :size].sum(axis=0)
        wide = counts_model(counts, people, known.tags)
        ranks[name] = rank_devices(wide, cases.candidates, known.weights)
        same = np.ones((len(cases), 1), np.float32)
        shares = counts.astype(np.float32)[:, None]
        ranks[name + ALONE] = rank_factors(same, shares, cases.candidates)
    return Tested(
        cases,
        {name: hits(each, CUTOFF) for name, each in ranks.items()},
        {name: ndcg(each, CUTOFF) for name, each in ranks.items()},
    )


def known_to_devices(timeline: Timeline, cases: Cases, *, tags: bool, time: bool) -> Known:
    """In the period of these cases."""
    split = cases.candidates.split
    columns = timeline.tags(cases.period) if tags else no_tags(split.train.n_items)
    ordered = split.times if time else None
    return Known(columns, None if ordered is None else recency_of(split.train, ordered))
