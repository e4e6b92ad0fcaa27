"""From ranks to numbers: HR@K, NDCG@K, MRR@K, and their mean with a 95% interval over runs.

With one test item for each person Recall@K is HR@K; of several, see `sottovoce.evaluation.several`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sottovoce.evaluation.ranking import Ranks

CUTOFFS = (2, 5, 10)


def hits(ranks: Ranks, cutoff: int) -> NDArray[np.float64]:
    """For each, the chance that the test item is among the first `cutoff`, ties by a fair coin.

    A test item that ties with t others lies anywhere among these t + 1 places with equal chance,
    so a model that scores everything alike is exactly as good as a random one.
    """
    return np.clip((cutoff - ranks.better) / (ranks.ties + 1), 0.0, 1.0)


def hit_ratio(ranks: Ranks, cutoff: int) -> float:
    """The share of test items among the first `cutoff`."""
    return mean_of(hits(ranks, cutoff))


def ndcg(ranks: Ranks, cutoff: int) -> float:
    """Mean of 1 / log2(1 + rank) within the cutoff, ties averaged over their places."""
    return mean_of(gains(ranks, cutoff))


def mrr(ranks: Ranks, cutoff: int) -> float:
    """Mean of 1 / rank within the cutoff, ties averaged over their places."""
    return mean_of(reciprocals(ranks, cutoff))


def gains(ranks: Ranks, cutoff: int) -> NDArray[np.float64]:
    """For each, what its place is worth; beyond the cutoff nothing."""
    return _averaged(ranks, discounts(cutoff))


def reciprocals(ranks: Ranks, cutoff: int) -> NDArray[np.float64]:
    """For each, one over its place; beyond the cutoff nothing."""
    return _averaged(ranks, np.concatenate([[0.0], np.cumsum(1 / np.arange(1, cutoff + 1))]))


def _averaged(ranks: Ranks, worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the places of a tie, where the first n places are worth `worth[n]` together."""
    cutoff = len(worth) - 1
    first = np.minimum(ranks.better, cutoff)
    last = np.minimum(ranks.better + ranks.ties + 1, cutoff)
    return np.asarray((worth[last] - worth[first]) / (ranks.ties + 1))


def discounts(cutoff: int) -> NDArray[np.float64]:
    """What the first n places are worth together, for n from 0 to the cutoff."""
    places = np.arange(1, cutoff + 1)
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + places))])


def summary(ranks: Ranks, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """`hr@K` for every cutoff, `ndcg@` and `mrr@` the largest."""
    out = {f"hr@{cutoff}": hit_ratio(ranks, cutoff) for cutoff in cutoffs}
    out[f"ndcg@{max(cutoffs)}"] = ndcg(ranks, max(cutoffs))
    out[f"mrr@{max(cutoffs)}"] = mrr(ranks, max(cutoffs))
    return out


def mean_of(values: NDArray[np.float64]) -> float:
    """Over people, of whom there must be one."""
    if not len(values):
        raise DataError("nobody can be tested: no user has two interactions and an untouched item")
    return float(values.mean())


@dataclass(frozen=True)
class Interval:
    """A mean over runs and its 95% interval (Student's t); with one run there is no interval."""

    mean: float
    half_width: float | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """From one number for each seed or split.

        >>> Interval.of([1.0, 2.0, 3.0]).mean
        2.0
        """
        n = len(values)
        if n == 0:
            raise DataError("a mean needs at least one run")
        if n == 1:
            return cls(float(values[0]), None, 1)
        t = float(special.stdtrit(n - 1, 0.975))
        return cls(float(np.mean(values)), t * float(np.std(values, ddof=1)) / sqrt(n), n)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.half_width is None else f" ± {self.half_width:.4f}")
