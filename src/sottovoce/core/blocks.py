"""The directions of `loudest`, each made of a row of a Hadamard matrix and one factor.

A public permutation puts every item at a place, and b consecutive places form a block; b is a power
of two. There are R = b ceil(M / b) places, and those beyond the M items stay empty. H is the b x b
Hadamard matrix, and s_i a public sign of item i.

There are as many rows as places. Row r belongs to the block of place r, and is a vector over the
items of that block: item i has the entry `s_i H[r mod b, place of i mod b]`. The direction (r, f)
is row r in column f of an M x F matrix, and 0 elsewhere.

A person's gradient is `-2 e x^T`, where e has a residual for each item and x is the user vector
(`sottovoce.core.model`). So its inner product with (r, f) is `-2 a_r x_f`, where a_r is the inner
product of row r with e. This module computes a for all rows at once.

A direction agrees with a gradient if their inner product is large. The size of the blocks controls
how agreement is distributed over directions. In one block of all items, the inner products would be
nearly normally distributed, and hardly any would be far larger than the rest. At a large epsilon,
the few directions that agree most should agree a lot, so blocks are small. At a small epsilon,
agreement must be spread over many directions, so blocks are large.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import walsh
from sottovoce.core.histories import Histories
from sottovoce.core.mechanism import Shape
from sottovoce.core.model import predict

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MAX_BLOCK_SIZE = 1024
# `transform_history` divides larger blocks into parts of this many places. It adds the items of
# each part one by one, and then combines the parts by a transform.
MAX_DIRECT_PLACES = 128
# The largest number of values that are added at once. They take some megabytes.
NUMBERS_PER_PIECE = 1 << 20


@dataclass(frozen=True)
class Blocks:
    """All directions of one model; (r, f) has the index `r * F + f`."""

    shape: Shape
    seed: int
    """Public seed of the permutation and the signs."""
    size: int
    """b, a power of two."""

    @property
    def rows(self) -> int:
        """R: the number of items, rounded up to whole blocks."""
        return -(-self.shape.n_items // self.size) * self.size

    @property
    def n_directions(self) -> int:
        """The number of directions without signs, n = R F."""
        return self.rows * self.shape.factors

    @property
    def length(self) -> float:
        """The square root of n / b, a factor that makes steps equally long for every b."""
        # A direction has b entries of +-1.
        return float(np.sqrt(self.n_directions / self.size))

    @cached_property
    def signs(self) -> Float32:
        """The public sign s_i of each item, +1 or -1."""
        return walsh.compute_public_signs(self.seed, self.shape.n_items)

    @cached_property
    def inner_signs(self) -> Float32:
        """The first rows and columns of H, at most `MAX_DIRECT_PLACES`.

        The rest of H consists of copies of this part, each with a sign.
        """
        inner = np.arange(min(self.size, MAX_DIRECT_PLACES))
        return walsh.compute_hadamard_signs(inner[:, None], inner[None, :])

    @cached_property
    def places(self) -> Int64:
        """The place of each item, in a random order that separates neighbours in the catalogue."""
        order = np.argsort(compute_public_keys(self.seed, self.shape.n_items), kind="stable")
        places = np.empty(self.shape.n_items, np.int64)
        places[order] = np.arange(self.shape.n_items)
        return places

    def compute_item_rows(self, V: Float32) -> Float32:
        """Return W, R x F: the inner product of each row with each column of V."""
        # Without touched items, `e` is `-V x`. So `-W x` is the part of `a` that does not depend on
        # the history. W is computed in float64 once in an epoch, and rounded once.
        laid = np.zeros((self.rows, V.shape[1]))
        laid[self.places] = self.signs[:, None] * V.astype(np.float64)
        in_blocks = laid.reshape(-1, self.size, V.shape[1])
        return walsh.transform(in_blocks, 1).reshape(laid.shape).astype(np.float32)

    def compute_history_weights(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Return for each history entry, item i, how much `s_i e_i` changes because it is touched.

        The change is `s_i ((1 + alpha) - alpha x.v_i)`.
        """
        alpha = np.float32(self.shape.alpha)
        rows, items = X[histories.users_of_entries()], histories.indices
        weight = (np.float32(1) + alpha) - alpha * predict(rows, V[items])
        return np.asarray(self.signs[items] * weight, dtype=np.float32)

    def compute_rows(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Return `a`, N x R: the part that depends on the touched items, minus `W x`."""
        weights = self.compute_history_weights(V, X, histories)
        touched = self.transform_history(weights, histories)
        a = touched - predict(X[:, None, :], self.compute_item_rows(V)[None, :, :])
        return np.asarray(a, dtype=np.float32)

    def transform_history(self, weights: Float32, histories: Histories) -> Float32:
        """Return the product of `H` and each user's weights in every block, N x R.

        Args:
            weights: A weight for each entry of the histories.
            histories: The items that the users touched.
        """
        n, signs = histories.n_users, self.inner_signs
        inner = len(signs)
        parts = np.zeros((n, self.rows // inner, inner), np.float32)
        for users, entries in iterate_pieces(histories, inner):
            outer, column = np.divmod(self.places[histories.indices[entries]], inner)
            np.add.at(parts, (users, outer), weights[entries][:, None] * signs[column])
        in_blocks = parts.reshape(n, self.rows // self.size, self.size // inner, inner)
        return np.asarray(walsh.transform(in_blocks, 2).reshape(n, self.rows), np.float32)

    def forward(self, gradients: Float64) -> Float64:
        """Return the inner products of gradients (..., M, F) with all directions (..., R, F)."""
        laid = np.zeros((*gradients.shape[:-2], self.rows, self.shape.factors))
        laid[..., self.places, :] = gradients * self.signs[:, None]
        return self._transform_blocks(laid)

    def backward(self, shares: Float64) -> Float64:
        """Return the sum of all directions, each multiplied by its share.

        This is b times the inverse of `forward`.
        """
        return np.asarray(self._transform_blocks(shares)[..., self.places, :] * self.signs[:, None])

    def mean_direction(self, sums: NDArray[np.integer], n_reports: int, gain: float) -> Float64:
        """Estimate the mean of the people's gradients, each scaled to unit length."""
        # A report says where a gradient points and not how long it is. Dividing by `gain` corrects
        # for the reports that are random.
        shares = sums.astype(np.float64).reshape(self.rows, self.shape.factors)
        return np.asarray(self.backward(shares) * (self.length / (max(n_reports, 1) * gain)))

    def _transform_blocks(self, laid: Float64) -> Float64:
        """Multiply the rows of every block by `H`."""
        blocks = laid.reshape(*laid.shape[:-2], -1, self.size, laid.shape[-1])
        return np.asarray(walsh.transform(blocks, -2).reshape(laid.shape), np.float64)


def compute_public_keys(seed: int, n: int) -> NDArray[np.uint32]:
    """Derive a public sort key for each of `n` items. Their places follow the order of the keys.

    Keys are little-endian numbers of 32 bits, eight from each SHA-256 of the public stream.
    """
    return np.frombuffer(walsh.compute_public_stream(seed, "order", 4 * n), "<u4").astype(np.uint32)


def iterate_pieces(histories: Histories, width: int) -> Iterator[tuple[Int64, slice]]:
    """Yield pieces of the entries: the user of each entry in a piece, and the slice of the piece.

    Args:
        histories: The histories whose entries are divided.
        width: Numbers that are added for each entry; a piece has `NUMBERS_PER_PIECE / width`
            entries.
    """
    # `np.add.at` adds the entries of a piece one after the other, so every user's items are added
    # in order. One call for a piece is much faster than a Python loop over its entries.
    users, size = histories.users_of_entries(), max(NUMBERS_PER_PIECE // width, 1)
    for start in range(0, len(users), size):
        piece = slice(start, start + size)
        yield users[piece], piece
