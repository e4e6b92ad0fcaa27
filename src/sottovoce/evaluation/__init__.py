"""Honest numbers: rankings, hit ratio, NDCG, MRR, recall, coverage, intervals over runs."""

from sottovoce.evaluation.exposure import coverage, exposure, gini
from sottovoce.evaluation.known import Known, rank_devices, wide_vectors
from sottovoce.evaluation.metrics import CUTOFFS, Interval, hit_ratio, hits, mrr, ndcg, summary
from sottovoce.evaluation.ranking import (
    Candidates,
    Ranks,
    Scorer,
    rank_factors,
    rank_scores,
    sample_candidates,
    who_is_tested,
)
from sottovoce.evaluation.several import (
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    rank_hidden,
    recall,
    summary_of_several,
)

__all__ = [
    "CUTOFFS",
    "Candidates",
    "Interval",
    "Known",
    "Ranks",
    "Scorer",
    "coverage",
    "exposure",
    "gini",
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
    "summary_of_several",
    "who_is_tested",
    "wide_vectors",
]
