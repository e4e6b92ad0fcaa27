"""Ranks of what devices recommend: item matrix, tags and the order of a history together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DataError
from sottovoce.evaluation import kernels
from sottovoce.evaluation.ranking import rank_factors
from sottovoce.model.recency import recency_of
from sottovoce.model.tags import Tags, no_tags, tags_of
from sottovoce.model.wide import WideModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.data import Interactions, Split
    from sottovoce.evaluation.ranking import Candidates, Ranks
    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Known:
    """What devices know beside the model, and use without telling anybody."""

    tags: Tags
    weights: Float64 | None
    """Of the training entries, by their order; None: all weigh alike."""

    @classmethod
    def of(cls, data: Interactions, split: Split, *, tags: bool, time: bool | None) -> Known:
        """With `time` None the order counts where the latest item is asked for, or the next.

        A random split asks for an item of any time, which an order says nothing about.
        """
        if time and split.times is None:
            raise DataError(f"{data.name} has no timestamps: the order of items is not known")
        ordered = split.rule != "random" if time is None else time
        return cls(
            tags_of(data.tags.tolist())
            if tags and data.tags is not None
            else no_tags(data.histories.n_items),
            recency_of(split.train, split.times) if ordered and split.times is not None else None,
        )

    def __bool__(self) -> bool:
        """Whether it is anything at all."""
        return bool(self.tags.names) or self.weights is not None

    def __str__(self) -> str:
        said = [f"{len(self.tags.names)} tags"] if self.tags.names else []
        return " and ".join([*said, *(["time"] if self.weights is not None else [])])

    def ranks(
        self, V: Float32, candidates: Candidates, *, alpha: float, regularization: float
    ) -> Ranks:
        """Of an item matrix, as devices that know this much use it."""
        model = WideModel.of(V, self.tags, alpha=alpha, regularization=regularization)
        return rank_devices(model, candidates, self.weights)


def wide_vectors(model: WideModel, histories: Histories, weights: Float64 | None = None) -> Float32:
    """Everybody's vector over `[V | D]`, N x (F + K), zero where there is none.

    `weights` of the entries of the histories; None weighs all alike. What `WideModel.shares` sums
    up to, compiled.
    """
    if weights is None:
        weights = np.ones(histories.n_interactions)
    factors, tags = model.V.shape[1], model.D.shape[1]
    longest = int(np.diff(histories.indptr).max(initial=0))
    ridges = np.array([model.ridges(n) for n in range(longest + 1)])
    out = np.zeros((histories.n_users, factors + tags), np.float32)
    kernels.wide_vectors(
        histories.indptr,
        histories.indices,
        weights,
        model.V,
        (model.D.indptr, model.D.indices, model.D.data),
        model.gram,
        ridges,
        model.alpha,
        out,
    )
    return out


def rank_devices(model: WideModel, candidates: Candidates, weights: Float64 | None = None) -> Ranks:
    """Ranks under the scores that each person's device computes from the training history."""
    X = wide_vectors(model, candidates.split.train, weights)
    W = model.rows(np.arange(len(model.V))).astype(np.float32)
    return rank_factors(X, W, candidates)
