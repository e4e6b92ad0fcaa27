"""What is held out of people's histories to test a model, and what devices know besides it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.tags import make_empty_tags
from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation.ranking import DEFAULT_NEGATIVES, Candidates
from sottovoce.simulation.evaluation.side_information import SideInformation


@dataclass(frozen=True)
class HoldoutRule:
    """How the test items are chosen, and what devices know when they recommend."""

    split: SplitRule = "random"
    negatives: int = DEFAULT_NEGATIVES
    """0 ranks the test item among the whole catalogue."""
    seed: int = 0
    tags: bool = True
    """Recommend with the tags of the data, where it has any."""
    time: bool | None = None
    """Recommend by the order of a history; None: unless a random item is asked for."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """The test items of some people."""

    candidates: Candidates
    side_information: SideInformation

    @classmethod
    def from_candidates(cls, candidates: Candidates) -> Holdout:
        """Make a test of devices that know nothing but the model."""
        no_tags = make_empty_tags(candidates.split.train.n_items)
        return cls(candidates, SideInformation(no_tags, None))

    def some(self, begin: int, end: int) -> Holdout:
        """Return the test of the people at these places, as views."""
        # Arrays by entry are cut where the histories of these people begin and end.
        split, informed = self.candidates.split, self.side_information
        entries = slice(split.train.indptr[begin], split.train.indptr[end])
        all_but_test = split.all_but_test
        some = replace(
            split,
            train=split.train.some(begin, end),
            test=split.test[begin:end],
            times=None if split.times is None else split.times[entries],
            all_but_test=None if all_but_test is None else all_but_test.some(begin, end),
        )
        weights = None if informed.weights is None else informed.weights[entries]
        return Holdout(
            Candidates(self.candidates.items[begin:end], some),
            SideInformation(informed.tags, weights),
        )

    def take(self, places: NDArray[np.int64]) -> Holdout:
        """Return the test of the people at these places, as copies."""
        split, informed = self.candidates.split, self.side_information
        numbers = np.arange(split.train.n_interactions, dtype=np.int32)
        entries = Histories(split.train.indptr, numbers, len(numbers)).take(places).indices
        all_but_test = split.all_but_test
        some = replace(
            split,
            train=split.train.take(places),
            test=split.test[places],
            times=None if split.times is None else split.times[entries],
            all_but_test=None if all_but_test is None else all_but_test.take(places),
        )
        weights = None if informed.weights is None else informed.weights[entries]
        return Holdout(
            Candidates(self.candidates.items[places], some),
            SideInformation(informed.tags, weights),
        )
