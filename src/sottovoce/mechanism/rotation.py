"""The rotated directions that `hadamard` and `loudest` share.

A gradient `g = -2 e x^T` is rotated on both axes: direction (r, q) is the +-1 matrix
`s_i H[r, i] * t_f H'[q, f]`, with H the Walsh-Hadamard matrix of size R = 2^m >= M, H' that of
size Q = 2^n >= F, and public signs s, t. The gradient's share along it factorises into
`-2 a_r b_q` with `a_r = sum_i s_i H[r, i] e_i` and `b_q = sum_f t_f H'[q, f] x_f`.

Why rotate: a sampled coordinate costs variance M*F whatever the gradient is. A rotated one costs
about the gradient's squared norm, and most of its entries are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import walsh
from sottovoce.model import predictions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sottovoce.mechanism.base import Shape
    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]


PIECE = 1 << 20
"""Numbers that are added at once: some megabytes."""
BLOCK_BITS = 7
"""`history_rows` adds items within blocks of 2^7 one by one, then blocks by butterflies."""


@dataclass(frozen=True)
class Rotation:
    """Directions (r, q), index `r * Q + q`."""

    shape: Shape
    seed: int
    """Public; it stands in the manifest."""

    @property
    def rows(self) -> int:
        """R."""
        return walsh.next_power_of_two(self.shape.n_items)

    @property
    def columns(self) -> int:
        """Q."""
        return walsh.next_power_of_two(self.shape.factors)

    @property
    def n_directions(self) -> int:
        """R * Q, a power of two: a direction is drawn from bits, exactly uniformly."""
        return self.rows * self.columns

    @cached_property
    def item_signs(self) -> Float32:
        """s, one for each item."""
        return walsh.public_signs(self.seed, "items", self.shape.n_items)

    @cached_property
    def factor_signs(self) -> Float32:
        """t, one for each factor."""
        return walsh.public_signs(self.seed, "factors", self.shape.factors)

    def item_rows(self, V: Float32) -> Float32:
        """`H (s * V)`, R x F, once an epoch: what everybody's `-V x` looks like when rotated."""
        signed = self.item_signs[:, None] * V.astype(np.float64)
        return walsh.transform(walsh.padded(signed, 0), 0).astype(np.float32)

    def user_columns(self, X: Float32) -> Float32:
        """`b`, N x Q."""
        b = walsh.transform(walsh.padded(self.factor_signs * X, 1), 1)
        return np.asarray(b, dtype=np.float32)

    def history_weights(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """For every entry of a history `s_i ((1 + alpha) - alpha x.v_i)`.

        `e` is dense only through `-V x`; this is what a touched item adds to that, so a rotated row
        of `e` costs O(n_u + F) and never O(M).
        """
        alpha = np.float32(self.shape.alpha)
        rows, items = X[histories.users_of_entries()], histories.indices
        weight = (np.float32(1) + alpha) - alpha * predictions(rows, V[items])
        return np.asarray(self.item_signs[items] * weight, dtype=np.float32)

    def all_rows(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """`a`, N x R: every row, by one transform for each user."""
        weights = self.history_weights(V, X, histories)
        own = history_rows(weights, histories, self.rows)
        a = own - predictions(X[:, None, :], self.item_rows(V)[None, :, :])
        return np.asarray(a, dtype=np.float32)

    def some_rows(
        self, V: Float32, X: Float32, histories: Histories, rows: NDArray[np.integer]
    ) -> Float32:
        """`a` at the given rows (N x k) alone, item after item."""
        weights = self.history_weights(V, X, histories)
        own = np.zeros(rows.shape, np.float32)
        for users, entries in pieces(histories, rows.shape[1]):
            signs = walsh.hadamard_signs(rows[users], histories.indices[entries][:, None])
            np.add.at(own, users, weights[entries][:, None] * signs)
        a = own - predictions(X[:, None, :], self.item_rows(V)[rows])
        return np.asarray(a, dtype=np.float32)

    def forward(self, gradients: Float64) -> Float64:
        """The exact shares of dense gradients (..., M, F) along every direction (..., R, Q)."""
        signed = gradients * self.item_signs[:, None] * self.factor_signs
        wide = walsh.padded(walsh.padded(signed, -2), -1)
        return walsh.transform(walsh.transform(wide, -2), -1)

    def backward(self, shares: Float64) -> Float64:
        """The sum of directions, each times its share: `n_directions` times `forward`'s inverse."""
        wide = walsh.transform(walsh.transform(shares, -2), -1)
        inner = wide[..., : self.shape.n_items, : self.shape.factors]
        return np.asarray(inner * self.item_signs[:, None] * self.factor_signs, dtype=np.float64)

    def mean_direction(self, sums: NDArray[np.integer], n_reports: int, gain: float) -> Float64:
        """Mean of the reported directions over `gain`, which undoes what the coin took.

        It estimates the mean of the people's gradients, each brought to unit length: one sign says
        where a gradient points and never how long it is.
        """
        shares = sums.astype(np.float64).reshape(self.rows, self.columns)
        return self.backward(shares) / (max(n_reports, 1) * gain)


def history_rows(weights: Float32, histories: Histories, rows: int) -> Float32:
    """`H` times each user's sparse weights, N x R."""
    block = min(1 << BLOCK_BITS, rows)
    inner = walsh.hadamard_signs(np.arange(block)[:, None], np.arange(block)[None, :])
    parts = np.zeros((histories.n_users, rows // block, block), np.float32)
    for users, entries in pieces(histories, block):
        outer, column = np.divmod(histories.indices[entries], block)
        np.add.at(parts, (users, outer), weights[entries][:, None] * inner[column])
    return np.asarray(walsh.transform(parts, 1).reshape(histories.n_users, rows))


def pieces(histories: Histories, width: int) -> Iterator[tuple[NDArray[np.int64], slice]]:
    """All entries in order, with their users: so many at once that `width` times as many fit.

    `np.add.at` adds them one after the other, so every user's items are added in their order. How
    long it takes hardly depends on how many there are: a step of Python for each would show it.
    """
    users, size = histories.users_of_entries(), max(PIECE // width, 1)
    for start in range(0, len(users), size):
        piece = slice(start, start + size)
        yield users[piece], piece
