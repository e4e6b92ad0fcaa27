"""How well scores tell two worlds apart, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Auc:
    """How often the attacker ranks a true world above a false one: 0.5 is a guess."""

    value: float
    error: float
    """Standard error: Hanley and McNeil's, or the jackknife's over crowds if that is larger."""


def area(scores: NDArray[np.float64], is_true: NDArray[np.bool_], crowd: NDArray[np.int64]) -> Auc:
    """Under the ROC curve. Trials of one crowd share its noise, so crowds are left out whole."""
    value = _area(scores, is_true)
    crowds = np.unique(crowd)
    left_out = [crowd != each for each in crowds] if len(crowds) > 2 else []
    without = np.array([_area(scores[kept], is_true[kept]) for kept in left_out])
    jackknife = sqrt((len(crowds) - 1) * float(without.var())) if len(without) else 0.0
    return Auc(value, max(_hanley_mcneil(value, is_true), jackknife))


def _area(scores: NDArray[np.float64], is_true: NDArray[np.bool_]) -> float:
    """The share of (true, false) pairs in the right order; ties count half."""
    positives, negatives = int(is_true.sum()), int((~is_true).sum())
    if not positives or not negatives:
        raise SettingsError("all trials fell into the same world: take more trials")
    ranks = stats.rankdata(scores)[is_true].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def _hanley_mcneil(value: float, is_true: NDArray[np.bool_]) -> float:
    positives, negatives = int(is_true.sum()), int((~is_true).sum())
    q1, q2 = value / (2 - value), 2 * value * value / (1 + value)
    spread = value * (1 - value)
    spread += (positives - 1) * (q1 - value**2) + (negatives - 1) * (q2 - value**2)
    return sqrt(max(spread, 0.0) / (positives * negatives))
