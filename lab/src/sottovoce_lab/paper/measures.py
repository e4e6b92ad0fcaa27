"""What a published model is worth to people who come late, and who gets how much of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import Tags, WideModel, counts_model, tags_of
from sottovoce.data import Late
from sottovoce.simulation import Engine
from sottovoce.simulation.evaluation import (
    Candidates,
    coverage,
    exposure,
    gini,
    hits,
    rank_factors,
    rank_hidden,
    summary,
    summary_of_several,
    who_is_tested,
    wide_vectors,
)
from sottovoce_lab.baselines.devices import device_vectors

Float32 = NDArray[np.float32]

CUTOFF = 10
FIFTHS = 5
MOST_LATE = 5_000


@dataclass(frozen=True, eq=False)
class Published(ABC):
    """What everybody may have; a device makes the rest from its own history."""

    V: Float32

    @abstractmethod
    def vectors(self, histories: Histories) -> Float32:
        """Of people with these histories, whether they reported or not."""

    @abstractmethod
    def with_tags(self, tags: Tags) -> WideModel:
        """As devices use it that know tags."""


@dataclass(frozen=True, eq=False)
class PublishedFactors(Published):
    alpha: float
    regularization: float

    def vectors(self, histories: Histories) -> Float32:
        return device_vectors(
            self.V, histories, alpha=self.alpha, regularization=self.regularization
        )

    def with_tags(self, tags: Tags) -> WideModel:
        return WideModel.of(self.V, tags, alpha=self.alpha, regularization=self.regularization)


@dataclass(frozen=True, eq=False)
class PublishedTraining(PublishedFactors):
    """Of ours: an engine solves the same vectors to the bit, and sooner."""

    engine: Callable[[Histories], Engine]

    def vectors(self, histories: Histories) -> Float32:
        with self.engine(histories) as engine:
            return engine.user_vectors(self.V)


@dataclass(frozen=True, eq=False)
class PublishedCounts(Published):
    """Popularity: one factor, of which everybody has 1."""

    people: int

    @classmethod
    def of(cls, train: Histories) -> PublishedCounts:
        return cls(train.popularity().astype(np.float32)[:, None], train.n_users)

    def vectors(self, histories: Histories) -> Float32:
        return np.ones((histories.n_users, 1), np.float32)

    def with_tags(self, tags: Tags) -> WideModel:
        return counts_model(self.V[:, 0].astype(np.int64), self.people, tags)


def how_many_late(people: int) -> int:
    """Of so many: 5,000, or a fifth where that is less."""
    return min(MOST_LATE, people // FIFTHS)


def measure_late(model: Published, late: Late) -> dict[str, Any]:
    """Recall and NDCG of people whom the model has never heard of, without and with tags."""
    known, hidden = late.known, late.hidden
    alone = rank_hidden(model.vectors(known), model.V, known, hidden)
    result: dict[str, Any] = {"final": summary_of_several(alone, hidden), "known": {}}
    if late.others.tags is not None:
        wide = model.with_tags(tags_of(late.others.tags.tolist()))
        W = wide.rows(np.arange(len(wide.V))).astype(np.float32)
        ranks = rank_hidden(wide_vectors(wide, known), W, known, hidden)
        result["known"]["tags"] = summary_of_several(ranks, hidden)
    return result


def measure_people(model: Published, candidates: Candidates) -> dict[str, Any]:
    """HR@10 by how much people touched and by how popular the item is, and who sees what."""
    train, test = candidates.split.train, candidates.split.test
    X, V = model.vectors(train), model.V
    ranks, asked = rank_factors(X, V, candidates), who_is_tested(candidates)
    hit, lengths, counts = hits(ranks, CUTOFF), np.diff(train.indptr)[asked], train.popularity()
    by_history = fifths(lengths, np.ones(len(lengths)))
    by_item = fifths(counts, counts)
    exposed = exposure(X, V, train, CUTOFF)
    return {
        "final": {
            **summary(ranks),
            **_by_fifth("history", hit, by_history),
            **_by_fifth("item", hit, by_item[test[asked]]),
            f"coverage@{CUTOFF}": coverage(exposed),
            f"gini@{CUTOFF}": gini(exposed),
        },
        "fifths": {
            "history": [_range(lengths[by_history == fifth]) for fifth in range(FIFTHS)],
            "item": np.bincount(by_item, minlength=FIFTHS).tolist(),
        },
    }


def fifths(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Which fifth of the weight each belongs to, the smallest values first.

    Each is in one as a whole: where its middle lies. Equal values come in their present order, so
    that equal weights give fifths of equal size.

    >>> fifths(np.array([9, 1, 1, 1, 1, 1]), np.array([5, 1, 1, 1, 1, 1])).tolist()
    [3, 0, 0, 1, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    heavy = weights[order].astype(np.float64)
    middle = np.cumsum(heavy) - heavy / 2
    found = np.empty(len(values), np.int64)
    found[order] = np.minimum(FIFTHS * middle / max(heavy.sum(), 1.0), FIFTHS - 1)
    return found


def _by_fifth(name: str, hit: NDArray[np.float64], of: NDArray[np.int64]) -> dict[str, float]:
    """A fifth that nobody is in has no number."""
    return {
        fifth_name(name, fifth): float(hit[of == fifth].mean())
        for fifth in range(FIFTHS)
        if (of == fifth).any()
    }


def fifth_name(name: str, fifth: int) -> str:
    """Under which it stands among the metrics."""
    return f"hr@{CUTOFF} {name} {fifth + 1}"


def _range(lengths: NDArray[np.int64]) -> tuple[int, int]:
    return int(lengths.min(initial=lengths.max(initial=0))), int(lengths.max(initial=0))
