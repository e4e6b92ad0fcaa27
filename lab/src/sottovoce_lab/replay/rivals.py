"""Models that are tested on the same cases of a replay, with and without side information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.recommending import WideModel, build_popularity_model, weigh_histories
from sottovoce.core.tags import make_empty_tags
from sottovoce.simulation.evaluation.lists import make_device_model, to_factors
from sottovoce.simulation.evaluation.metrics import compute_gains, compute_hits
from sottovoce.simulation.evaluation.ranking import Factors, Ranks, rank_and_list, rank_factors
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce.training import Settings
from sottovoce_lab.replay.cases import LIST_LENGTH, Cases
from sottovoce_lab.replay.timeline import Timeline

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Names of the models.
MODEL_NAME = "model"
FROZEN_NAME = "frozen"
POPULARITY_NAME = "popularity"
# Suffix of the name of a model without side information.
PLAIN_SUFFIX = " alone"
# Metrics of ranks in the whole catalogue, with a value for each case.
CATALOGUE_METRICS: dict[str, Callable[[Ranks], Float64]] = {
    "hr@10": lambda ranks: compute_hits(ranks, 10),
    "hr@50": lambda ranks: compute_hits(ranks, 50),
    "ndcg@100": lambda ranks: compute_gains(ranks, 100),
}
# HR@10 among the touched item and its negatives.
SAMPLED_METRIC = "hr@10 sampled"
# Mean number of the first ten items of a list that are not in the chart (see `Cases.charts`).
OFF_CHART_METRIC = "off chart@10"


@dataclass(frozen=True)
class CaseRanks:
    """Ranks of one model in the cases of one period."""

    catalogue: Ranks
    """Ranks among all items that a person had not touched before."""
    sampled: Ranks
    """Ranks among sampled items that a person never touches."""
    off_chart: float | None = None
    """Mean number of the first ten items that are not in the chart; None: it was not counted."""

    def compute_by_case(self) -> dict[str, Float64]:
        """Return the metrics of ranks of each case."""
        whole = {name: compute(self.catalogue) for name, compute in CATALOGUE_METRICS.items()}
        return whole | {SAMPLED_METRIC: compute_hits(self.sampled, LIST_LENGTH)}

    @classmethod
    def from_factors(cls, X: Float32, V: Float32, cases: Cases) -> CaseRanks:
        """Rank the cases by products of vectors, and compare the lists with the chart."""
        split = cases.split
        catalogue, lists = rank_and_list(Factors(X, V), split.train, split.left_out, LIST_LENGTH)
        off_chart = count_off_chart(lists, cases.charts)
        return cls(catalogue, rank_factors(X, V, cases.candidates), off_chart)


@dataclass(frozen=True, eq=False)
class CaseResults:
    """The results of all models in the cases of one period."""

    cases: Cases
    ranks: dict[str, CaseRanks]
    """Ranks by the name of the model."""

    @cached_property
    def hits(self) -> dict[str, Float64]:
        """For each model by name, the probability that a list of ten has the item of each case."""
        return {name: compute_hits(own.catalogue, LIST_LENGTH) for name, own in self.ranks.items()}

    def summarize(self) -> dict[str, dict[str, float]]:
        """Return the metrics of each model."""
        return {
            name: {metric: float(values.mean()) for metric, values in own.compute_by_case().items()}
            | ({} if own.off_chart is None else {OFF_CHART_METRIC: own.off_chart})
            for name, own in self.ranks.items()
        }


def count_off_chart(lists: NDArray[np.int32], charts: NDArray[np.int32]) -> float:
    """Return the mean number of items of a list that are not in the chart of the same person.

    >>> count_off_chart(np.array([[1, 2], [3, 4]]), np.array([[2, 5], [4, 3]]))
    0.5
    """
    is_in_chart = (lists[:, :, None] == charts[:, None, :]).any(axis=2)
    return float((~is_in_chart).sum(axis=1).mean())


def rank_models(
    timeline: Timeline,
    cases: Cases,
    models: dict[str, Float32],
    settings: Settings,
    side_information: SideInformation,
) -> dict[str, CaseRanks]:
    """Rank by these item matrices, and by popularity in all periods so far."""
    ranks: dict[str, CaseRanks] = {}
    for name, V in models.items():
        nothing = SideInformation(make_empty_tags(len(V)), None)
        for suffix, side in (("", side_information), (PLAIN_SUFFIX, nothing)):
            wide = make_device_model(V, settings, side.tags)
            ranks[name + suffix] = rank_wide(wide, cases, side)
    counts = timeline.counts[: cases.period, timeline.windows[cases.period]].sum(axis=0)
    popularity = rank_by_counts(counts, timeline.histories.n_users, cases, side_information)
    return ranks | {POPULARITY_NAME + suffix: own for suffix, own in popularity.items()}


def rank_wide(wide: WideModel, cases: Cases, side_information: SideInformation) -> CaseRanks:
    """Rank as devices with this model and this side information do."""
    X, W = to_factors(wide, cases.split.train, side_information.weights)
    return CaseRanks.from_factors(X, W, cases)


def rank_by_counts(
    counts: NDArray[np.int64] | Float64,
    people: int,
    cases: Cases,
    side_information: SideInformation,
) -> dict[str, CaseRanks]:
    """Rank by counts of people with and without side information, by the suffix of the name."""
    ones = np.ones((len(cases), 1), np.float32)
    wide = build_popularity_model(counts, people, side_information.tags)
    return {
        "": rank_wide(wide, cases, side_information),
        PLAIN_SUFFIX: CaseRanks.from_factors(ones, counts.astype(np.float32)[:, None], cases),
    }


def collect_side_information(
    timeline: Timeline, cases: Cases, *, tags: bool, time: bool
) -> SideInformation:
    """Return the side information of devices in the period of these cases."""
    split = cases.split
    columns = timeline.build_tags(cases.period) if tags else make_empty_tags(split.train.n_items)
    times = split.times if time else None
    return SideInformation(columns, None if times is None else weigh_histories(split.train, times))
