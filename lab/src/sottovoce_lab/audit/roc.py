"""How well scores tell two worlds apart, and how well that is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sottovoce_lab.audit.worlds import Trials


@dataclass(frozen=True)
class Auc:
    """How often the attacker ranks a true world above a false one: 0.5 is a guess."""

    value: float
    error: float
    """Its standard error over other crowds and other victims."""


def area(scores: NDArray[np.float64], trials: Trials) -> Auc:
    """Under the ROC curve of all trials.

    Trials of one crowd share its noise, trials of one victim a history: whole crowds, and then
    whole victims, are left out (the jackknife). Both variances are added: rather too
    much than too little.
    """
    crowds = _jackknife(scores, trials.is_true, trials.crowd)
    victims = _jackknife(scores, trials.is_true, trials.victim)
    return Auc(_area(scores, trials.is_true), sqrt(crowds + victims))


def _area(scores: NDArray[np.float64], is_true: NDArray[np.bool_]) -> float:
    """The share of (true, false) pairs in the right order; ties count half."""
    positives, negatives = int(is_true.sum()), int((~is_true).sum())
    ranks = stats.rankdata(scores)[is_true].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def _jackknife(
    scores: NDArray[np.float64], is_true: NDArray[np.bool_], group: NDArray[np.int64]
) -> float:
    """Variance of the area; 0 where there is but one group and nothing to leave out."""
    groups = np.unique(group)
    if len(groups) < 2:
        return 0.0
    kept = (group != each for each in groups)
    without = np.array([_area(scores[some], is_true[some]) for some in kept])
    return (len(groups) - 1) * float(without.var())
