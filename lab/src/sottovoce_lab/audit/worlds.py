"""Whom the attack is about: victims, their two worlds, and their reports in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.errors import DataError

Ints = NDArray[np.int64]

Question = Literal["interaction", "history"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The victims and their two worlds."""

    victims: Ints
    true: Histories
    """What the victims really did: also what the crowd's own copy of them reports from."""
    other: Histories


@dataclass(frozen=True, eq=False)
class Trials:
    """Trial j is about victim `victim[j]` among crowd `crowd[j]`, in the true world or not."""

    victim: Ints
    crowd: Ints
    is_true: NDArray[np.bool_]


def choose_targets(
    histories: Histories, count: int, question: Question, rng: np.random.Generator
) -> Targets:
    """Random people with two items or more, and one of their items (or somebody else's history)."""
    able = np.flatnonzero(np.diff(histories.indptr) >= 2)
    if not len(able):
        raise DataError("nobody has two interactions: there is no victim to attack")
    victims = rng.choice(able, count, replace=count > len(able))
    if question == "history":
        others = rng.choice(able, count)
        return Targets(victims, histories.take(victims), histories.take(others))
    without = []
    for victim in victims:
        own = histories[int(victim)]
        without.append(np.delete(own, rng.integers(len(own))).tolist())
    other = Histories.from_lists(without, histories.n_items)
    return Targets(victims, histories.take(victims), other)


def all_trials(n_victims: int, n_crowds: int) -> Trials:
    """Every victim in every crowd, in both worlds: what the crowd adds is then the same for both.

    It takes most of the noise out of the AUC and leaves its expectation alone, but for the few
    pairs of scores that share a crowd and a victim: one in so many trials.
    """
    cells = np.arange(n_victims * n_crowds).repeat(2)
    crowd, victim = np.divmod(cells, n_victims)
    return Trials(victim, crowd, np.arange(len(cells)) % 2 == 0)


def victims_of(targets: Targets, trials: Trials) -> Histories:
    """Each trial's victim in its world, as if they were so many people."""
    n = len(targets.victims)
    worlds = [list(world[place]) for world in (targets.true, targets.other) for place in range(n)]
    both = Histories.from_lists(worlds, targets.true.n_items)
    return both.take(trials.victim + np.where(trials.is_true, 0, n))
