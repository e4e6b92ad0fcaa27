"""Compiled loops over bits, neighbours and Walsh rows."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
# Columns in a tile. Tiles are compared in pairs, and a cache has room for both tiles of a pair.
TILE_COLUMNS = 32


@intrinsic
def count_bits(typing_context: Any, word: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Count the bits that are set, by an instruction of the processor that numba does not offer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        function = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(function, arguments)

    return types.int64(types.uint64), generate


@njit(parallel=True, cache=True)
def count_common_bits(columns: NDArray[np.uint64], out: Int32) -> None:
    """Count the bits that are set in both of the columns i and j, as `out[i, j]`."""
    # The counts are symmetric, so every pair is counted once. A tile is compared with itself and
    # all earlier tiles, so later tiles have more work. Each task takes one tile from each end, so
    # all tasks have the same work.
    tiles = -(-columns.shape[0] // TILE_COLUMNS)
    for pair in prange(-(-tiles // 2)):
        _count_tile(columns, pair, out)
        if pair != tiles - 1 - pair:
            _count_tile(columns, tiles - 1 - pair, out)


@njit(cache=True)
def _count_tile(columns: NDArray[np.uint64], tile: int, out: Int32) -> None:
    """Compare the columns of a tile with the columns of this and all earlier tiles."""
    n = columns.shape[0]
    for start in range(0, (tile + 1) * TILE_COLUMNS, TILE_COLUMNS):
        for j in range(tile * TILE_COLUMNS, min((tile + 1) * TILE_COLUMNS, n)):
            for i in range(start, min(start + TILE_COLUMNS, j + 1)):
                a, b = columns[i], columns[j]
                total = 0
                for w in range(a.shape[0]):
                    total += count_bits(a[w] & b[w])
                out[i, j] = out[j, i] = total


@njit(parallel=True, cache=True)
def sum_similarities(
    indptr: Int64,
    indices: Int32,
    weights: NDArray[np.float32],
    users: Int64,
    items: Int32,
    similarity: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Sum the similarities of item `items[n, m]` to the items of user `users[n]`, as `out[n, m]`.

    Each similarity is multiplied by the weight of the user's item. A candidate of -1 is no item.
    """
    # Similarities are added in the order of the user's items. So the sums have the same bits
    # whatever the threads and the other candidates are.
    for n in prange(users.shape[0]):
        first, last = indptr[users[n]], indptr[users[n] + 1]
        for m in range(items.shape[1]):
            total = np.float32(0)
            if items[n, m] >= 0:
                row = similarity[items[n, m]]
                for t in range(first, last):
                    total += weights[t] * row[indices[t]]
            out[n, m] = total


@njit(parallel=True, cache=True)
def compute_walsh_rows(
    indptr: Int64, indices: Int32, signs: Int32, block: Int32, out: Int32
) -> None:
    """Multiply row r of a Hadamard matrix with user u's signed items, as `out[u, r]`."""
    for u in prange(out.shape[0]):
        _multiply_rows(indices[indptr[u] : indptr[u + 1]], signs, block, out[u])


@njit(cache=True)
def _multiply_rows(items: Int32, signs: Int32, block: Int32, row: Int32) -> None:
    row[:] = 0
    # The block is a Hadamard matrix of a smaller size. Each item adds one row of the block. From
    # these sums, butterflies (sums and differences of halves) compute the product with all rows.
    half = block.shape[0]
    for i in items:
        column = i & (half - 1)
        _add(signs[i], block[column], row[i - column : i - column + half])
    while half < row.shape[0]:
        for low in range(0, row.shape[0], 2 * half):
            _butterfly(row[low : low + half], row[low + half : low + 2 * half])
        half *= 2


# The next two loops are separate functions of slices, so that LLVM sees that it can vectorise them.
@njit(cache=True)
def _add(sign: np.int32, values: Int32, out: Int32) -> None:
    for c in range(out.shape[0]):
        out[c] += sign * values[c]


@njit(cache=True)
def _butterfly(first: Int32, second: Int32) -> None:
    for c in range(first.shape[0]):
        low, high = first[c], second[c]
        first[c], second[c] = low + high, low - high
