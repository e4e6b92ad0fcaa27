"""The model as a device uses it to recommend: the item matrix beside the tags, and weights.

`W = [V | D]`. A column of D is a tag: 0 for items without it, else the item's popularity as the
model knows it, so that the best known horror film stands for "horror" more than any other. A user
vector over W is solved as over V alone; nothing of it is reported, and training does not know it.

The columns of D are as long as V's on average, and have a ridge of their own, so that a tag is
believed only as far as the own items bear it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model.histories import Histories
    from sottovoce.model.tags import Tags

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

TAG_RIDGE = 0.2
"""In squared lengths of a column, times `1 + alpha`: a tag is held back by as much as the own items
push it. Chosen on validation splits of two data sets and five budgets; 0.1 to 0.4 are as good."""
SURE_AFTER = 60
"""So many own items double the ridge, half as many make it three times as large: from a few items
nobody can tell which tags their owner likes."""

POPULARITY_ALPHA = 1.0
"""Of counts as a model, which have none of their own; on validation splits 0.5 to 4 are alike."""


@dataclass(frozen=True, eq=False)
class WideModel:
    V: Float64
    """M x F, with a row for items that nobody has reported yet."""
    learnt: NDArray[np.bool_]
    """Which items are not new."""
    D: sparse.csr_array
    """M x K."""
    popularity: Float64
    """Of each item, as the model knows it."""
    alpha: float
    regularization: float
    """Ridge of the factors."""
    tag_ridge: float
    """Ridge of the tags, of somebody with a long history."""

    @classmethod
    def of(cls, V: Float32, tags: Tags, *, alpha: float, regularization: float) -> WideModel:
        learnt = np.asarray(V.any(axis=1))
        wide = with_companions(V.astype(np.float64), learnt, tags)
        popularity = popularity_of(wide)
        # Of the mean column; a model that knows nothing yet leaves any length to the tags.
        squared = float((wide * wide).sum()) / wide.shape[1] or 1.0
        D = sparse.csr_array(tags.table * popularity[:, None])
        lengths = np.sqrt(np.asarray(D.multiply(D).sum(axis=0)).ravel())
        D = sparse.csr_array(D * (np.sqrt(squared) / np.where(lengths > 0, lengths, np.inf)))
        tag_ridge = TAG_RIDGE * (1 + alpha) * squared
        return cls(wide, learnt, D, popularity, alpha, regularization, tag_ridge)

    @cached_property
    def gram(self) -> Float64:
        """`W^T W`, without W ever being made whole."""
        across = np.asarray(self.D.T @ self.V)
        return np.block([[self.V.T @ self.V, across.T], [across, (self.D.T @ self.D).toarray()]])

    def ridges(self, n_own: int) -> tuple[float, float]:
        """Of the factors and of the tags, for somebody with so many own items."""
        return self.regularization, self.tag_ridge * (1 + SURE_AFTER / max(n_own, 1))

    def rows(self, items: NDArray[np.integer] | list[int]) -> Float64:
        """Of W."""
        return np.concatenate([self.V[items], self.D[items].toarray()], axis=1)

    def shares(self, own: list[int], weights: Float64) -> Float64:
        """What each own item adds to the user vector, (F + K) x n: their sum is the vector.

        `x = (G + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v`. Zero where that has no finite
        solution: such a model says nothing.
        """
        rows, sizes = self.rows(own), (self.V.shape[1], self.D.shape[1])
        ridge = np.diag(np.repeat(self.ridges(len(own)), sizes))
        system = self.gram + self.alpha * (rows.T * weights) @ rows + ridge
        try:
            shares = np.linalg.solve(system, (1 + self.alpha) * rows.T * weights)
        except np.linalg.LinAlgError:
            return np.zeros(rows.T.shape)
        return np.asarray(shares if np.isfinite(shares).all() else np.zeros(rows.T.shape))

    def scores(self, x: Float64) -> Float64:
        """`W x`."""
        factors = self.V.shape[1]
        return np.asarray(self.V @ x[:factors] + self.D @ x[factors:])

    def list_scores(self, x: Float64, n_own: int) -> Float64:
        """By which a list is made: `W x`; for somebody without own items, how popular items are."""
        return self.scores(x) if n_own else self.popularity


def popularity_model(histories: Histories, tags: Tags) -> WideModel:
    """Everybody's counts as the only factor: what tags and an order do without any learnt taste."""
    return counts_model(histories.popularity(), histories.n_users, tags)


def counts_model(counts: NDArray[np.int64], people: int, tags: Tags) -> WideModel:
    """The same from how many of so many people touched each item."""
    share = counts.astype(np.float32)[:, None] / np.float32(max(people, 1))
    return WideModel.of(share, tags, alpha=POPULARITY_ALPHA, regularization=1e-6)


def popularity_of(V: Float64) -> Float64:
    """How popular each item is as far as the model knows: `V (V^T 1)`, never below 0.

    A device knows no counts. But `V V^T` is the model's idea of which items are touched together,
    so its row sums say which are touched together with many, in any basis of the factors. A model
    that knows nothing takes all items for equally popular.
    """
    if not V.any():
        return np.ones(len(V))
    return np.asarray(np.maximum(V @ V.sum(axis=0), 0.0))


def with_companions(V: Float64, learnt: NDArray[np.bool_], tags: Tags) -> Float64:
    """V with rows for new items: the mean over an item's tags of the mean row of the tag's items.

    So a new item is as popular, and as near to somebody's taste, as those that share its tags are
    on average. Without tags the mean is over all items. Nothing is made of a model of zeros.
    """
    if learnt.all() or not learnt.any():
        return V
    known = tags.table.multiply(learnt[:, None]).tocsr()
    counts = np.asarray(known.sum(axis=0)).ravel()
    counted = tags.table[~learnt][:, counts > 0]
    means = np.asarray(known.T @ V)[counts > 0] / counts[counts > 0][:, None]
    n_tags = np.asarray(counted.sum(axis=1)).ravel()[:, None]
    of_tags = np.asarray(counted @ means) / np.maximum(n_tags, 1)
    filled = V.copy()
    rows = np.where(n_tags > 0, of_tags, V[learnt].mean(axis=0))
    filled[~learnt] = rows.astype(np.float32)  # as precise as all others
    return filled
