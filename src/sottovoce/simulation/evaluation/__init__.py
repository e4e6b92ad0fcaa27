"""Honest numbers: rankings, hit ratio, NDCG, MRR, recall, coverage, intervals over runs."""

from sottovoce.simulation.evaluation.metrics import (
    CUTOFFS,
    Interval,
    coverage,
    exposure,
    hit_ratio,
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    recall,
    summary,
)
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Ranks,
    rank_factors,
    rank_hidden,
    sample_candidates,
)
from sottovoce.simulation.evaluation.side_information import (
    SideInformation,
    rank_devices,
    wide_vectors,
)

__all__ = [
    "CUTOFFS",
    "Candidates",
    "Interval",
    "Ranks",
    "SideInformation",
    "coverage",
    "exposure",
    "hit_ratio",
    "hit_ratio_of_several",
    "mrr_of_several",
    "ndcg_of_several",
    "rank_devices",
    "rank_factors",
    "rank_hidden",
    "recall",
    "sample_candidates",
    "summary",
    "wide_vectors",
]
