"""How a device recommends: the item matrix with tags, weights by recency, and ranking.

The wide item matrix is `W = [V | D]`, where V is the item matrix of the model. Each column of D
stands for a tag: it is 0 for items without the tag, and the estimated popularity of the item for
the others. So the best known horror film stands for "horror" more than any other. A user vector
over W is solved like one over V. It is used for recommending only, never for reports.

Every column of D has the mean length of V's columns. The tags have a ridge of their own, so that a
tag counts only as far as a person's own items (those of the history) confirm it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core.histories import Histories
from sottovoce.core.tags import Tag, Tags

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# Ridge of the tags: TAG_RIDGE * (1 + alpha) * mean squared length of a column
#   * (1 + RIDGE_DOUBLING_ITEMS / number of own items),
# where an own item is one of the history, and has the weight 1 + alpha.
# TAG_RIDGE was chosen on validation splits of two data sets and five budgets; 0.1 to 0.4 are as
# good. A few items do not tell which tags somebody likes, so short histories have more ridge.
TAG_RIDGE = 0.2
# Used instead of TAG_RIDGE in a training of names, whose reports name an item that was touched
# last. The first column of its item matrix is the popularity of items now, and should decide a list
# more than tags do. Chosen on Netflix data replayed by date, with seed 1003; 1 to 5 are as good.
TAG_RIDGE_WITH_SHARES = 2.0
RIDGE_DOUBLING_ITEMS = 60

# Alpha of a model that is built from counts (`build_popularity_model`) and so has no training that
# states an alpha. On validation splits, values from 0.5 to 4 give the same quality.
POPULARITY_ALPHA = 1.0

# An own item weighs LATEST_ITEM_WEIGHT / (1 + later / WEIGHT_HALVING_ITEMS), where `later` is the
# number of items touched later. If the order is not known, every item weighs 1. The formula and
# both numbers were chosen among about fifty candidates, on validation splits of two data sets.
LATEST_ITEM_WEIGHT = 10.0
WEIGHT_HALVING_ITEMS = 2.0

# Maximum number of reasons that are shown for a recommended item.
MAX_REASONS = 3

_SIGN_BIT = np.uint64(1 << 63)
_ALL_BITS = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class WideModel:
    """A model with tags, `W = [V | D]`."""

    V: Float64
    """The item matrix, M x F. Items that nobody has reported on have rows from `fill_new_items`."""
    learnt: NDArray[np.bool_]
    """True for items that somebody has reported on."""
    D: sparse.csr_array
    """M x K, one column for each tag."""
    popularity: Float64
    """The estimated popularity of each item."""
    alpha: float
    regularization: float
    """Ridge of the factors."""
    tag_ridge: float
    """Ridge of the tags for a long history."""
    has_shares: bool = False
    """Whether the first column of V is the popularity of items now (see `from_model`)."""

    @classmethod
    def from_model(
        cls,
        V: Float32,
        tags: Tags,
        *,
        alpha: float,
        regularization: float,
        has_shares: bool = False,
    ) -> WideModel:
        """Add tags to an item matrix.

        Args:
            V: The item matrix, M x F.
            tags: Tags of the items.
            alpha: The additional weight of own items.
            regularization: Ridge of the factors.
            has_shares: Whether the first column of V is the part of all reports that name each
                item, as in a training of names. If so, this column is used as the popularity.
        """
        learnt = np.asarray(V.any(axis=1))
        wide = fill_new_items(V.astype(np.float64), learnt, tags)
        popularity = wide[:, 0].copy() if has_shares and learnt.any() else estimate_popularity(wide)
        # The mean squared length of V's columns. For a model of zeros any number will do.
        squared = float((wide * wide).sum()) / wide.shape[1] or 1.0
        D = sparse.csr_array(tags.table * popularity[:, None])
        lengths = np.sqrt(np.asarray(D.multiply(D).sum(axis=0)).ravel())
        D = sparse.csr_array(D * (np.sqrt(squared) / np.where(lengths > 0, lengths, np.inf)))
        scale = TAG_RIDGE_WITH_SHARES if has_shares else TAG_RIDGE
        tag_ridge = scale * (1 + alpha) * squared
        return cls(wide, learnt, D, popularity, alpha, regularization, tag_ridge, has_shares)

    @cached_property
    def gram(self) -> Float64:
        """`W^T W`, computed without building W."""
        across = np.asarray(self.D.T @ self.V)
        return np.block([[self.V.T @ self.V, across.T], [across, (self.D.T @ self.D).toarray()]])

    def ridges(self, n_own: int) -> tuple[float, float]:
        """Return the ridges of the factors and of the tags for a history of `n_own` items."""
        return self.regularization, self.tag_ridge * (1 + RIDGE_DOUBLING_ITEMS / max(n_own, 1))

    def rows(self, items: NDArray[np.integer] | list[int]) -> Float64:
        """Return the rows of W for these items, dense."""
        return np.concatenate([self.V[items], self.D[items].toarray()], axis=1)

    def shares(self, own: list[int], weights: Float64) -> Float64:
        """Return the share of each own item in the user vector, (F + K) x n.

        The sum of the shares is the user vector
        `x = (G + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v`. All shares are zero if there
        is no finite solution.

        Args:
            own: Rows of the own items.
            weights: The weight w of each own item.
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
        """Return `W x`, the scores of all items."""
        factors = self.V.shape[1]
        return np.asarray(self.V @ x[:factors] + self.D @ x[factors:])

    def list_scores(self, x: Float64, n_own: int) -> Float64:
        """Return the scores by which a list is ranked: `W x`, or popularity without own items."""
        return self.scores(x) if n_own else self.popularity


def build_popularity_model(
    counts: NDArray[np.int64] | Float64, people: int, tags: Tags
) -> WideModel:
    """Build a model whose only factor is the fraction of people who touched each item.

    It shows what tags and the order of a history achieve without a learnt model.

    Args:
        counts: Number of people who touched each item.
        people: Number of people.
        tags: Tags of the items.
    """
    share = counts.astype(np.float32)[:, None] / np.float32(max(people, 1))
    return WideModel.from_model(share, tags, alpha=POPULARITY_ALPHA, regularization=1e-6)


def estimate_popularity(V: Float64) -> Float64:
    """Estimate how popular each item is: `V (V^T 1)`, but at least 0."""
    # A device knows no counts. But `V V^T` estimates which items are touched together, in any basis
    # of the factors. So its row sums are large for items that are touched together with many
    # others. Before anything is learnt, all items are equally popular.
    if not V.any():
        return np.ones(len(V))
    return np.asarray(np.maximum(V @ V.sum(axis=0), 0.0))


def fill_new_items(V: Float64, learnt: NDArray[np.bool_], tags: Tags) -> Float64:
    """Return V with estimated rows for new items, on which nobody has reported.

    The mean row of a tag is the mean over the learnt items with this tag. The row of a new item is
    the mean over the mean rows of its tags. So a new item is as popular, and as near to somebody's
    taste, as items with the same tags are on average. A new item without such tags gets the mean
    row of all learnt items.
    """
    # In a model of zeros there are no rows to average.
    if learnt.all() or not learnt.any():
        return V
    learnt_table = tags.table.multiply(learnt[:, None]).tocsr()
    counts = np.asarray(learnt_table.sum(axis=0)).ravel()
    new_table = tags.table[~learnt][:, counts > 0]
    tag_means = np.asarray(learnt_table.T @ V)[counts > 0] / counts[counts > 0][:, None]
    n_tags = np.asarray(new_table.sum(axis=1)).ravel()[:, None]
    by_tags = np.asarray(new_table @ tag_means) / np.maximum(n_tags, 1)
    filled = V.copy()
    rows = np.where(n_tags > 0, by_tags, V[learnt].mean(axis=0))
    # Learnt rows were float32, so new rows get the same precision.
    filled[~learnt] = rows.astype(np.float32)
    return filled


@dataclass(frozen=True, eq=False)
class Taste:
    """A model and one person's history, which together give every item a score and reasons."""

    model: WideModel
    tags: Tags
    rows: list[int]
    """Rows of the own items in the model, ascending."""
    shares: Float64
    """Share of each own item in the user vector, (F + K) x n: see `WideModel.shares`."""

    def scores(self) -> Float64:
        """Return the score of every item; without a history, it is the item's popularity."""
        return self.model.list_scores(self.shares.sum(axis=1), len(self.rows))

    def split_score(self, item: int) -> tuple[Float64, Float64, float]:
        """Split the score of an item into parts, which add up to it exactly.

        Returns:
            One part for each own item: its contribution through the factors. One part for each tag:
            the contribution of all own items through this tag. One part for popularity now: the
            contribution of all own items through the shares of names, 0 if the model has none.
        """
        factors, n_shares = self.model.V.shape[1], int(self.model.has_shares)
        row = self.model.rows([item])[0]
        own = row[n_shares:factors] @ self.shares[n_shares:factors]
        tags = row[factors:] * self.shares[factors:].sum(1)
        return own, tags, float(row[:n_shares] @ self.shares[:n_shares].sum(1))

    def list_reasons(
        self, item: int, max_reasons: int = MAX_REASONS
    ) -> list[tuple[int | Tag | None, float]]:
        """Return the largest positive parts of a score, as fractions of all positive parts.

        A reason is an own item, a tag that an own item has, or None if the reason is that many
        people touch the item now.
        """
        reasons = sorted(self._positive_parts(item), key=lambda reason: -reason[1])
        total = sum(part for _, part in reasons)
        return [(reason, part / total) for reason, part in reasons[:max_reasons]]

    def _positive_parts(self, item: int) -> Iterator[tuple[int | Tag | None, float]]:
        own, tags, now = self.split_score(item)
        if now > 0 and self.model.learnt[item]:
            yield None, now
        for row, part in zip(self.rows, own.tolist(), strict=True):
            # The factors of a new item come from its tags, so only tags are reasons for it.
            if part > 0 and self.model.learnt[item]:
                yield row, part
        own_counts = self.tags.table[self.rows].sum(axis=0)
        for tag, part, count in zip(self.tags.names, tags.tolist(), own_counts, strict=True):
            if part > 0 and count:
                yield tag, part


def weigh_history(moments: NDArray[np.integer]) -> NDArray[np.float64]:
    """Weigh the items of one history by the moments when they were touched; later is larger.

    What somebody did last says most about what they do next. Only the order of moments counts, not
    their distance. Items of the same moment have the same weight. If all items have the same
    moment, their order is unknown and all weights are 1.

    >>> weigh_history(np.array([7, 3, 5])).round(2).tolist()
    [10.0, 5.0, 6.67]
    >>> weigh_history(np.array([4, 4])).tolist()
    [1.0, 1.0]
    """
    return _compute_weights(np.array([0, len(moments)]), np.asarray(moments, np.int64))


def weigh_histories(histories: Histories, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weigh the items of many histories at once, in the order of their entries."""
    return _compute_weights(histories.indptr, times)


def _compute_weights(indptr: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float64]:
    users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((times, users))
    # A run consists of the items that one person touched at the same moment.
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(times[order]) != 0) | (np.diff(users[order]) != 0)
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(order))
    user_of_run = users[order][first]
    # Number of later items; on average, half of the other items of the same run are later.
    later = indptr[user_of_run + 1] - (first + size) + (size - 1) / 2
    run_weights = LATEST_ITEM_WEIGHT / (1 + later / WEIGHT_HALVING_ITEMS)
    run_weights[size == np.diff(indptr)[user_of_run]] = 1.0
    weights = np.empty(len(order))
    weights[order] = np.repeat(run_weights, size)
    return weights


def find_best_rows(scores: NDArray[np.float64], own: list[int], n: int) -> NDArray[np.intp]:
    """Return the rows of the n best scores, best first, without `own`.

    Rows with equal scores stay in their order. A NaN counts as the lowest score. The time does not
    depend on the scores.

    Args:
        scores: Score of every row.
        own: Rows that are left out.
        n: Number of rows to return, if there are as many.
    """
    keys = _to_descending_keys(scores)
    keys[own] = _ALL_BITS
    return _sort_rows(keys)[: min(n, len(keys) - len(own))]


def _to_descending_keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Convert scores to integers that are smaller for better scores."""
    numbers = np.where(np.isnan(scores), -np.inf, scores) + 0.0  # turns -0.0 into 0.0
    bits = numbers.view(np.uint64)
    return ~(bits ^ np.where(bits & _SIGN_BIT, _ALL_BITS, _SIGN_BIT))


def _sort_rows(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the rows ordered by key, by a radix sort of four passes over 16 bits."""
    # A comparison sort is many times faster if its input is almost sorted, so its time would reveal
    # something about a person's taste. numpy sorts digits of 16 bits by counting instead.
    order = np.arange(len(keys))
    # Two digits in descending order come first. Without them, numpy would notice input that is
    # already sorted and skip the work, so the time would depend on the scores.
    digits = np.empty(len(keys) + 2, np.uint16)
    digits[:2] = 2**16 - 1, 0
    for shift in range(0, 64, 16):
        digits[2:] = (keys[order] >> np.uint64(shift)) & np.uint64(2**16 - 1)
        places = np.argsort(digits, kind="stable")
        order = order[places[places >= 2] - 2]
    return order
