"""Trials of an attack: victims in two worlds, and how well scores tell the worlds apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sottovoce.core import Histories
from sottovoce.errors import DataError

Ints = NDArray[np.int64]
Float64 = NDArray[np.float64]
# `interaction`: did the victim touch one item? `history`: which of two histories is theirs?
Question = Literal["interaction", "history"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The victims and their histories in two worlds."""

    victims: Ints
    true: Histories
    """Their real histories. The crowd contains a copy of each victim with this history."""
    other: Histories
    """Histories in the other world: without one item, or somebody else's."""


@dataclass(frozen=True, eq=False)
class Trials:
    """Trial j is about victim `victim[j]` in crowd `crowd[j]`, in the true world or not."""

    victim: Ints
    crowd: Ints
    is_true: NDArray[np.bool_]


def choose_targets(
    histories: Histories, count: int, question: Question, rng: np.random.Generator
) -> Targets:
    """Choose victims with two or more items, and for each a second history.

    For the question `interaction`, the second history lacks one item of the victim's. For
    `history`, it is the history of another person.
    """
    eligible = np.flatnonzero(np.diff(histories.indptr) >= 2)
    if not len(eligible):
        raise DataError("a victim must have two interactions, and nobody has")
    # A person is chosen twice only if there are too few people, because a new person adds more
    # information.
    victims = rng.choice(eligible, count, replace=count > len(eligible))
    if question == "history":
        others = rng.choice(eligible, count)
        return Targets(victims, histories.take(victims), histories.take(others))
    without = []
    for victim in victims:
        own = histories[int(victim)]
        without.append(np.delete(own, rng.integers(len(own))).tolist())
    other = Histories.from_lists(without, histories.n_items)
    return Targets(victims, histories.take(victims), other)


def list_trials(n_victims: int, n_crowds: int) -> Trials:
    """Return one trial for each victim, crowd and world."""
    # Both worlds of a victim have the same crowd with the same noise. This removes most of the
    # noise of the AUC. It changes the expectation of the AUC only a little, because few pairs of
    # scores have the same crowd and victim.
    cells = np.arange(n_victims * n_crowds).repeat(2)
    crowd, victim = np.divmod(cells, n_victims)
    return Trials(victim, crowd, np.arange(len(cells)) % 2 == 0)


def list_victim_histories(targets: Targets, trials: Trials) -> Histories:
    """Return the history of each trial's victim in its world, one person for each trial."""
    n = len(targets.victims)
    worlds = [list(world[place]) for world in (targets.true, targets.other) for place in range(n)]
    both = Histories.from_lists(worlds, targets.true.n_items)
    return both.take(trials.victim + np.where(trials.is_true, 0, n))


@dataclass(frozen=True)
class Auc:
    """How often the attacker ranks a true world above a false one; 0.5 is a guess."""

    value: float
    error: float
    """Standard error, for other crowds and other victims."""


def compute_auc(scores: Float64, trials: Trials) -> Auc:
    """Compute the area under the ROC curve of all trials and its standard error."""
    # Trials of one crowd share its noise, and trials of one victim share a history. So one
    # jackknife omits whole crowds, and another omits whole victims. The sum of their variances is
    # more likely too large than too small.
    crowds = _estimate_variance(scores, trials.is_true, trials.crowd)
    victims = _estimate_variance(scores, trials.is_true, trials.victim)
    return Auc(_compute_area(scores, trials.is_true), sqrt(crowds + victims))


def _compute_area(scores: Float64, is_true: NDArray[np.bool_]) -> float:
    """Return the share of (true, false) pairs in the right order; ties count half."""
    positives, negatives = int(is_true.sum()), int((~is_true).sum())
    # By Mann and Whitney: the area follows from the sum of the ranks of the true worlds.
    ranks = stats.rankdata(scores)[is_true].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def _estimate_variance(scores: Float64, is_true: NDArray[np.bool_], group: Ints) -> float:
    """Return the jackknife variance of the area; 0 if there is only one group."""
    groups = np.unique(group)
    if len(groups) < 2:
        return 0.0
    others = (group != number for number in groups)
    areas = np.array([_compute_area(scores[mask], is_true[mask]) for mask in others])
    return (len(groups) - 1) * float(areas.var())
