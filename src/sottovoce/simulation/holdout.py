"""The test items that are held out of histories, and the side information that devices have."""

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
    """How the test items are chosen, and which side information devices use to recommend."""

    split: SplitRule = "random"
    """Which item of each history is the test item."""
    negatives: int = DEFAULT_NEGATIVES
    """The number of other items that each test item is ranked against; 0 for all items."""
    seed: int = 0
    tags: bool = True
    """Whether devices use the tags of the data, if it has any."""
    time: bool | None = None
    """Whether devices use the order of their history; None: yes, unless `split` is `random`."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """The test items of some people, and the side information of their devices."""

    candidates: Candidates
    side_information: SideInformation

    @classmethod
    def from_candidates(cls, candidates: Candidates) -> Holdout:
        """Return a holdout whose devices have no side information."""
        no_tags = make_empty_tags(candidates.split.train.n_items)
        return cls(candidates, SideInformation(no_tags, None))

    def slice(self, begin: int, end: int) -> Holdout:
        """Return the holdout of the people at places `begin` to `end`, as views."""
        # Arrays with one value per interaction are cut at the borders of these people's histories.
        split, informed = self.candidates.split, self.side_information
        entries = slice(split.train.indptr[begin], split.train.indptr[end])
        all_but_test = split.all_but_test
        some = replace(
            split,
            train=split.train.slice(begin, end),
            test=split.test[begin:end],
            times=None if split.times is None else split.times[entries],
            all_but_test=None if all_but_test is None else all_but_test.slice(begin, end),
        )
        weights = None if informed.weights is None else informed.weights[entries]
        return Holdout(
            Candidates(self.candidates.items[begin:end], some),
            SideInformation(informed.tags, weights),
        )

    def take(self, places: NDArray[np.int64]) -> Holdout:
        """Return the holdout of the people at these places, as copies."""
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
