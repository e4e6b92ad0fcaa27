"""Honest numbers: rankings, hit ratio, NDCG, MRR, recall, coverage, intervals over runs."""

from sottovoce.simulation.evaluation.metrics import (
    CUTOFFS,
    Interval,
    coverage,
    exposure,
    hit_ratio,
    hit_ratio_of_several,
    hits,
    mrr,
    mrr_of_several,
    ndcg,
    ndcg_of_several,
    recall,
    summary,
)
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Ranks,
    Scorer,
    rank_factors,
    rank_hidden,
    rank_scores,
    sample_candidates,
    who_is_tested,
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
    "Scorer",
    "SideInformation",
    "coverage",
    "exposure",
    "hit_ratio",
    "hit_ratio_of_several",
    "hits",
    "mrr",
    "mrr_of_several",
    "ndcg",
    "ndcg_of_several",
    "rank_devices",
    "rank_factors",
    "rank_hidden",
    "rank_scores",
    "recall",
    "sample_candidates",
    "summary",
    "who_is_tested",
    "wide_vectors",
]
