"""The directions of `loudest`: Hadamard rows inside blocks of items, times single factors.

Items are laid by a public permutation into blocks of b, a power of two; R = b ceil(M / b) rows. The
direction (r, f) is the matrix with `s_i H[r mod b, place of i in its block]` in column f for the
items of row r's block, and 0 elsewhere; s are public signs. A gradient `-2 e x^T` agrees with it by
`-2 a_r x_f`, with `a_r = sum_i s_i H[r mod b, place of i] e_i` over the items of the block.

Why blocks: a transform over all items makes every gradient look normal, and normal tails are light.
At a large epsilon one wants the few directions that agree most to agree a lot: small blocks. At a
small one agreement must be spread over many: large blocks.
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
    Int64 = NDArray[np.int64]

MOST_BLOCK = 1024
ONE_BY_ONE = 128
"""`history_rows` adds items within so many rows one by one, the rest of a block by butterflies."""
PIECE = 1 << 20
"""Numbers that are added at once: some megabytes."""


@dataclass(frozen=True)
class Blocks:
    """Directions (r, f), index `r * F + f`."""

    shape: Shape
    seed: int
    """Public; it stands in the manifest."""
    size: int
    """b, a power of two."""

    @property
    def rows(self) -> int:
        """R."""
        return -(-self.shape.n_items // self.size) * self.size

    @property
    def n_directions(self) -> int:
        """R F."""
        return self.rows * self.shape.factors

    @cached_property
    def signs(self) -> Float32:
        """s, one for each item."""
        return walsh.public_signs(self.seed, self.shape.n_items)

    @cached_property
    def places(self) -> Int64:
        """For each item its place among all, so that neighbours in a catalogue are none here."""
        order = np.argsort(public_keys(self.seed, self.shape.n_items), kind="stable")
        places = np.empty(self.shape.n_items, np.int64)
        places[order] = np.arange(self.shape.n_items)
        return places

    def item_rows(self, V: Float32) -> Float32:
        """`H (s * V)`, R x F, once an epoch: everybody's `-V x`, in blocks; rounded once."""
        laid = np.zeros((self.rows, V.shape[1]))
        laid[self.places] = self.signs[:, None] * V.astype(np.float64)
        in_blocks = laid.reshape(-1, self.size, V.shape[1])
        return walsh.transform(in_blocks, 1).reshape(laid.shape).astype(np.float32)

    def history_weights(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """For every entry of a history `s_i ((1 + alpha) - alpha x.v_i)`.

        `e` is dense only through `-V x`; this is what a touched item adds to that.
        """
        alpha = np.float32(self.shape.alpha)
        rows, items = X[histories.users_of_entries()], histories.indices
        weight = (np.float32(1) + alpha) - alpha * predictions(rows, V[items])
        return np.asarray(self.signs[items] * weight, dtype=np.float32)

    def all_rows(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """`a`, N x R: what touched items add, item after item, less everybody's part."""
        own = self.history_rows(self.history_weights(V, X, histories), histories)
        a = own - predictions(X[:, None, :], self.item_rows(V)[None, :, :])
        return np.asarray(a, dtype=np.float32)

    def history_rows(self, weights: Float32, histories: Histories) -> Float32:
        """`H` times each user's sparse weights, block by block, N x R."""
        n, inner = histories.n_users, min(self.size, ONE_BY_ONE)
        signs = walsh.hadamard_signs(np.arange(inner)[:, None], np.arange(inner)[None, :])
        parts = np.zeros((n, self.rows // inner, inner), np.float32)
        for users, entries in pieces(histories, inner):
            outer, column = np.divmod(self.places[histories.indices[entries]], inner)
            np.add.at(parts, (users, outer), weights[entries][:, None] * signs[column])
        in_blocks = parts.reshape(n, self.rows // self.size, self.size // inner, inner)
        return np.asarray(walsh.transform(in_blocks, 2).reshape(n, self.rows), np.float32)

    def forward(self, gradients: Float64) -> Float64:
        """The exact shares of dense gradients (..., M, F) along every direction (..., R, F)."""
        laid = np.zeros((*gradients.shape[:-2], self.rows, self.shape.factors))
        laid[..., self.places, :] = gradients * self.signs[:, None]
        return self._in_blocks(laid)

    def backward(self, shares: Float64) -> Float64:
        """The sum of directions, each times its share: b times `forward`'s inverse."""
        return np.asarray(self._in_blocks(shares)[..., self.places, :] * self.signs[:, None])

    def mean_direction(self, sums: NDArray[np.integer], n_reports: int, gain: float) -> Float64:
        """Mean of the reported directions over `gain`, which undoes what chance took.

        It estimates the mean of the people's gradients, each brought to unit length: a report says
        where a gradient points and never how long it is. A direction has b entries of +-1, so the
        root of `n / b` is what makes a step mean the same for every b.
        """
        shares = sums.astype(np.float64).reshape(self.rows, self.shape.factors)
        length = np.sqrt(self.n_directions / self.size)
        return np.asarray(self.backward(shares) * (length / (max(n_reports, 1) * gain)))

    def _in_blocks(self, laid: Float64) -> Float64:
        """`H` along the rows of every block."""
        blocks = laid.reshape(*laid.shape[:-2], -1, self.size, laid.shape[-1])
        return np.asarray(walsh.transform(blocks, -2).reshape(laid.shape), np.float64)


def public_keys(seed: int, n: int) -> NDArray[np.uint32]:
    """`n` numbers by which everybody puts the items into the same order.

    Little-endian numbers of 32 bits, eight from each SHA-256 of `walsh.public_stream`.
    """
    return np.frombuffer(walsh.public_stream(seed, "order", 4 * n), "<u4").astype(np.uint32)


def pieces(histories: Histories, width: int) -> Iterator[tuple[Int64, slice]]:
    """All entries in order, with their users: so many at once that `width` times as many fit.

    `np.add.at` adds them one after the other, so every user's items are added in their order. How
    long it takes hardly depends on how many there are: a step of Python for each would show it.
    """
    users, size = histories.users_of_entries(), max(PIECE // width, 1)
    for start in range(0, len(users), size):
        piece = slice(start, start + size)
        yield users[piece], piece
