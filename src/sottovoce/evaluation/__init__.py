"""Honest numbers: sampled and full ranking, hit ratio, NDCG, intervals over runs."""

from sottovoce.evaluation.known import Known, rank_devices, wide_vectors
from sottovoce.evaluation.metrics import CUTOFFS, Interval, hit_ratio, hits, ndcg, summary
from sottovoce.evaluation.ranking import (
    Candidates,
    Ranks,
    Scorer,
    rank_factors,
    rank_scores,
    sample_candidates,
)

__all__ = [
    "CUTOFFS",
    "Candidates",
    "Interval",
    "Known",
    "Ranks",
    "Scorer",
    "hit_ratio",
    "hits",
    "ndcg",
    "rank_devices",
    "rank_factors",
    "rank_scores",
    "sample_candidates",
    "summary",
    "wide_vectors",
]
