"""For each kind of method: the model that a server publishes, and how devices rank items by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags
from sottovoce.simulation import Engine
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors
from sottovoce.simulation.holdout import Holdout
from sottovoce.simulation.population import Part, Parts, People, WholeParts
from sottovoce_lab.baselines.models import solve_device_vectors

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PublishedModel(ABC):
    """An item matrix, and how devices use it."""

    V: Float32

    @abstractmethod
    def solve_vectors(self, histories: Histories) -> Float32:
        """Return the vectors of people with these histories, whether they reported or not."""

    @abstractmethod
    def add_tags(self, tags: Tags) -> WideModel:
        """Return the model as devices with tags use it."""

    def rank(self, tests: Sequence[Candidates]) -> list[Ranks]:
        """Return the ranks in several tests of one split."""
        # All tests are of one split, so their people have the same histories and vectors.
        X = self.solve_vectors(tests[0].split.train)
        return [rank_factors(X, self.V, candidates) for candidates in tests]


@dataclass(frozen=True, eq=False)
class PublishedFactors(PublishedModel):
    """A matrix factorisation."""

    alpha: float
    regularization: float

    def solve_vectors(self, histories: Histories) -> Float32:
        """Solve the equations of the devices."""
        return solve_device_vectors(
            self.V, histories, alpha=self.alpha, regularization=self.regularization
        )

    def add_tags(self, tags: Tags) -> WideModel:
        """Add the columns of the tags."""
        return WideModel.from_model(
            self.V, tags, alpha=self.alpha, regularization=self.regularization
        )


@dataclass(frozen=True, eq=False)
class PublishedTraining(PublishedFactors):
    """A matrix factorisation whose vectors an engine solves: faster, and bit for bit the same."""

    build_engine: Callable[[Histories | Parts], Engine]

    def solve_vectors(self, histories: Histories) -> Float32:
        """Solve the equations in the engine."""
        with self.build_engine(histories) as engine:
            return engine.solve_user_vectors(self.V)

    def rank(self, tests: Sequence[Candidates]) -> list[Ranks]:
        """Rank in the engine."""
        ranks = []
        for candidates in tests:
            people = WholeParts(
                Part(People(candidates.split.train), Holdout.from_candidates(candidates))
            )
            with self.build_engine(people) as engine:
                ranks.append(engine.compute_ranks(self.V))
        return ranks


@dataclass(frozen=True, eq=False)
class PublishedCounts(PublishedModel):
    """Popularity as a model with one factor; everybody's vector is 1."""

    people: int

    @classmethod
    def from_histories(cls, train: Histories) -> PublishedCounts:
        """Count how many people touched each item."""
        return cls(train.popularity().astype(np.float32)[:, None], train.n_users)

    def solve_vectors(self, histories: Histories) -> Float32:
        """Return the vector 1 for each person."""
        return np.ones((histories.n_users, 1), np.float32)

    def add_tags(self, tags: Tags) -> WideModel:
        """Add the columns of the tags."""
        return build_popularity_model(self.V[:, 0].astype(np.int64), self.people, tags)
