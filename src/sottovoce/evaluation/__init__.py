"""Honest numbers: sampled and full ranking, hit ratio, NDCG, intervals over runs."""

from sottovoce.evaluation.devices import Known, device_vectors, rank_devices
from sottovoce.evaluation.metrics import CUTOFFS, Interval, hit_ratio, ndcg, summary
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
    "device_vectors",
    "hit_ratio",
    "ndcg",
    "rank_devices",
    "rank_factors",
    "rank_scores",
    "sample_candidates",
    "summary",
]
