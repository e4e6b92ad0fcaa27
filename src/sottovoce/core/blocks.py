"""The directions of `loudest`: rows of a Hadamard matrix within blocks of items, times one factor.

A public permutation puts every item at a place, and consecutive places form blocks of b, a power of
two. Blocks are full, so there are R = b ceil(M / b) places; those beyond the M items stay empty. H
is the b x b Hadamard matrix, and s_i a public sign of item i.

There are as many rows as places. Row r belongs to the block of place r, and is a vector over the
items of that block: item i has the entry `s_i H[r mod b, place of i mod b]`. The direction (r, f)
is row r in column f of an M x F matrix, and 0 elsewhere.

A person's gradient is `-2 e x^T`, so its inner product with (r, f) is `-2 a_r x_f`, where a_r is
the inner product of row r with e. Everything here computes a, for all rows at once.

Why blocks: a transform over all items makes every gradient look normal, and normal tails are light.
At a large epsilon the few directions that agree most should agree a lot, so blocks are small. At a
small epsilon agreement must be spread over many directions, so blocks are large.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import walsh
from sottovoce.core.mechanism import Shape
from sottovoce.core.model import Histories, predictions

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MOST_BLOCK = 1024
ONE_BY_ONE = 128
"""Within this many places, `history_rows` adds item by item; it joins them by butterflies."""
PIECE = 1 << 20
"""Numbers that are added at once: some megabytes."""


@dataclass(frozen=True)
class Blocks:
    """All directions for one model; (r, f) has the index `r * F + f`."""

    shape: Shape
    seed: int
    """Of the permutation and the signs; public, in the manifest."""
    size: int
    """b, a power of two."""

    @property
    def rows(self) -> int:
        """R: the number of items, rounded up to whole blocks."""
        return -(-self.shape.n_items // self.size) * self.size

    @property
    def n_directions(self) -> int:
        """R F, called n."""
        return self.rows * self.shape.factors

    @property
    def length(self) -> float:
        """The root of n / b, with which a step means the same for every b.

        A direction has b entries of +-1.
        """
        return float(np.sqrt(self.n_directions / self.size))

    @cached_property
    def signs(self) -> Float32:
        """s: +1 or -1 for each item."""
        return walsh.public_signs(self.seed, self.shape.n_items)

    @cached_property
    def inner_signs(self) -> Float32:
        """The entries of H that are added one by one; H has the same in every such part."""
        inner = np.arange(min(self.size, ONE_BY_ONE))
        return walsh.hadamard_signs(inner[:, None], inner[None, :])

    @cached_property
    def places(self) -> Int64:
        """The place of each item, by random keys: neighbours in the catalogue are parted."""
        order = np.argsort(public_keys(self.seed, self.shape.n_items), kind="stable")
        places = np.empty(self.shape.n_items, np.int64)
        places[order] = np.arange(self.shape.n_items)
        return places

    def item_rows(self, V: Float32) -> Float32:
        """W, R x F: row r's inner product with each column of V, in float64 and rounded once.

        `e` is `-V x` where nothing is touched, so `-W x` is the part of `a` that needs no history.
        W is computed once an epoch.
        """
        laid = np.zeros((self.rows, V.shape[1]))
        laid[self.places] = self.signs[:, None] * V.astype(np.float64)
        in_blocks = laid.reshape(-1, self.size, V.shape[1])
        return walsh.transform(in_blocks, 1).reshape(laid.shape).astype(np.float32)

    def history_weights(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """What touching item i adds to `s_i e_i`: `s_i ((1 + alpha) - alpha x.v_i)`, by entry."""
        alpha = np.float32(self.shape.alpha)
        rows, items = X[histories.users_of_entries()], histories.indices
        weight = (np.float32(1) + alpha) - alpha * predictions(rows, V[items])
        return np.asarray(self.signs[items] * weight, dtype=np.float32)

    def all_rows(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """`a`, N x R: what the touched items add, less `W x`."""
        touched = self.history_rows(self.history_weights(V, X, histories), histories)
        a = touched - predictions(X[:, None, :], self.item_rows(V)[None, :, :])
        return np.asarray(a, dtype=np.float32)

    def history_rows(self, weights: Float32, histories: Histories) -> Float32:
        """`H` times each user's sparse weights, block by block, N x R."""
        n, signs = histories.n_users, self.inner_signs
        inner = len(signs)
        parts = np.zeros((n, self.rows // inner, inner), np.float32)
        for users, entries in pieces(histories, inner):
            outer, column = np.divmod(self.places[histories.indices[entries]], inner)
            np.add.at(parts, (users, outer), weights[entries][:, None] * signs[column])
        in_blocks = parts.reshape(n, self.rows // self.size, self.size // inner, inner)
        return np.asarray(walsh.transform(in_blocks, 2).reshape(n, self.rows), np.float32)

    def forward(self, gradients: Float64) -> Float64:
        """The inner products of dense gradients (..., M, F) with every direction (..., R, F)."""
        laid = np.zeros((*gradients.shape[:-2], self.rows, self.shape.factors))
        laid[..., self.places, :] = gradients * self.signs[:, None]
        return self._in_blocks(laid)

    def backward(self, shares: Float64) -> Float64:
        """The sum of all directions, each times its share: b times the inverse of `forward`."""
        return np.asarray(self._in_blocks(shares)[..., self.places, :] * self.signs[:, None])

    def mean_direction(self, sums: NDArray[np.integer], n_reports: int, gain: float) -> Float64:
        """The mean of the reported directions, divided by `gain`, which undoes what chance took.

        It estimates the mean of the people's gradients, each brought to unit length: a report says
        where a gradient points and never how long it is.
        """
        shares = sums.astype(np.float64).reshape(self.rows, self.shape.factors)
        return np.asarray(self.backward(shares) * (self.length / (max(n_reports, 1) * gain)))

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
    """All entries in order, with their users, in pieces of which `width` times as many fit memory.

    `np.add.at` adds a piece one after the other, so every user's items are added in their order.
    How long that takes hardly depends on how many there are; a Python loop over them would.
    """
    users, size = histories.users_of_entries(), max(PIECE // width, 1)
    for start in range(0, len(users), size):
        piece = slice(start, start + size)
        yield users[piece], piece
