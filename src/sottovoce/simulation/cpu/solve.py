"""The compiled `sottovoce.core.solve_user_vectors`, with the same order of operations.

numba lets LLVM choose vector instructions, but LLVM finds none for the outer product of two rows.
So the code that sums outer products is generated as LLVM instructions, for tiles of four by four
entries. It multiplies and adds in the same order as plain loops, so the result has the same bits.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_USER_ENTRY
from sottovoce.simulation.evaluation.kernels import compile_inner

Float64 = NDArray[np.float64]

# Number of users that a thread takes at a time: few enough that all threads finish at about the
# same time, and enough that the cost of a call does not matter.
USERS_PER_BLOCK = 64
# Number of rows of V that are converted to float64 and added up at a time. They fit the first
# cache.
ITEMS_PER_BLOCK = 64
# Number of rows and of columns of a tile, whose sixteen sums stay in registers.
TILE_SIDE = 4
# LLVM types.
_INDEX_TYPE = ir.IntType(64)
_FOUR_DOUBLES = ir.VectorType(ir.DoubleType(), TILE_SIDE)


@compile_inner
def pad_to_tiles(size: int) -> int:
    """Round up to a multiple of TILE_SIDE."""
    return -(-size // TILE_SIDE) * TILE_SIDE


@compile_inner
def add_tile(rows: Any, n: int, i: int, j: int, lines: int, sums: Any) -> None:
    """Add `rows[t, i:i+lines] rows[t, j:j+4]^T` to `sums[i:i+lines, j:j+4]`, for t from 0 to n - 1.

    Nothing is checked. Both arrays must be float64, in C order and equally wide; n must be at least
    1, and `lines` from 1 to 4.
    """
    if lines == 4:
        _add_four_lines(rows, n, i, j, sums)
    elif lines == 3:
        _add_three_lines(rows, n, i, j, sums)
    elif lines == 2:
        _add_two_lines(rows, n, i, j, sums)
    else:
        _add_one_line(rows, n, i, j, sums)


def _make_tile_adder(count: int) -> Any:
    """Return `add_tile` for this number of lines."""

    def add(typing_context: Any, rows: Any, n: Any, i: Any, j: Any, sums: Any) -> Any:  # noqa: ARG001 - numba's signature
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _generate_tile(count, context, builder, signature, arguments)

        return types.void(rows, types.intp, types.intp, types.intp, sums), generate

    return intrinsic(add)


def _generate_tile(count: int, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    read, total = (
        context.make_array(signature.args[place])(context, builder, arguments[place])
        for place in (0, 4)
    )
    n, i, j = arguments[1:4]
    width = builder.extract_value(read.shape, 1)

    def four(start: Any, row: Any, column: Any) -> Any:
        place = builder.add(builder.mul(row, width), column)
        return builder.bitcast(builder.gep(start, [place]), _FOUR_DOUBLES.as_pointer())

    def load(start: Any, row: Any, column: Any) -> Any:
        loaded = builder.load(four(start, row, column))
        loaded.align = 8
        return loaded

    places = [builder.add(i, ir.Constant(_INDEX_TYPE, line)) for line in range(count)]
    before = [load(total.data, line, j) for line in places]
    entry = builder.block
    loop = builder.append_basic_block("tile")
    builder.branch(loop)

    builder.position_at_end(loop)
    t = builder.phi(_INDEX_TYPE)
    totals = [builder.phi(_FOUR_DOUBLES) for _ in range(count)]
    down, across = load(read.data, t, i), load(read.data, t, j)
    after = []
    for line in range(count):
        same = ir.Constant(ir.VectorType(ir.IntType(32), TILE_SIDE), [line] * TILE_SIDE)
        entries = builder.shuffle_vector(down, down, same)
        after.append(builder.fadd(totals[line], builder.fmul(entries, across)))
    following = builder.add(t, ir.Constant(_INDEX_TYPE, 1))
    for value, first, later in zip(
        [t, *totals], [ir.Constant(_INDEX_TYPE, 0), *before], [following, *after], strict=True
    ):
        value.add_incoming(first, entry)
        value.add_incoming(later, loop)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", following, n), loop, done)

    builder.position_at_end(done)
    for line, value in zip(places, after, strict=True):
        builder.store(value, four(total.data, line, j)).align = 8
    return context.get_dummy_value()


_add_one_line = _make_tile_adder(1)
_add_two_lines = _make_tile_adder(2)
_add_three_lines = _make_tile_adder(3)
_add_four_lines = _make_tile_adder(4)


class EquationMemory(NamedTuple):
    """Memory for the equations of one user, which is used again for the next user."""

    rows: Float64
    lower: Float64
    column: Float64
    solution: Float64


@compile_inner
def make_equation_memory(size: int) -> EquationMemory:
    """Allocate the memory for vectors of this length."""
    width = pad_to_tiles(size)
    rows = np.zeros((ITEMS_PER_BLOCK, width), np.float64)
    # The product of this column with a row is the row itself: see `add_items`.
    rows[:, size : size + 1] = 1.0
    return EquationMemory(
        rows,
        np.empty((width, width), np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
    )


@compile_inner
def add_items(
    items: NDArray[np.int32], V: NDArray[np.float32], rows: Float64, sums: Float64, right: Float64
) -> None:
    """Write `sum v v^T` (at least the lower triangle) into `sums` and `sum v` into `right`.

    The sums run over the items in their order; v is the row of V of an item.
    """
    # The product of two float32 is exact in float64. If rows are padded, the first entry of the
    # padding is 1. Its products with a row are the row itself, so `sums` then contains `sum v` too.
    size, width = right.shape[0], rows.shape[1]
    used = min(size + 1, width)
    sums[:] = 0.0
    right[:] = 0.0
    for start in range(0, items.shape[0], ITEMS_PER_BLOCK):
        n = min(ITEMS_PER_BLOCK, items.shape[0] - start)
        for t in range(n):
            v, row = V[items[start + t]], rows[t]
            for i in range(size):
                row[i] = v[i]
        if used == size:
            for t in range(n):
                for i in range(size):
                    right[i] += rows[t, i]
        for i in range(0, width, TILE_SIDE):
            for j in range(0, i + TILE_SIDE, TILE_SIDE):
                add_tile(rows, n, i, j, min(TILE_SIDE, used - i), sums)
    if used > size:
        for i in range(size):
            right[i] = sums[size, i]


@compile_inner
def solve_user(
    items: NDArray[np.int32],
    V: NDArray[np.float32],
    G: Float64,
    alpha: float,
    regularization: float,
    memory: EquationMemory,
    x: NDArray[np.float32],
) -> None:
    """Solve equation (4) for one user and write the vector into `x`.

    An unusable vector becomes zero, as in `sottovoce.core.bounds.zero_unusable_vectors`.
    """
    rows, lower, column, solution = memory
    size = x.shape[0]
    add_items(items, V, rows, lower, solution)
    for i in range(size):
        solution[i] = (1.0 + alpha) * solution[i]
        for j in range(i + 1):
            lower[i, j] = G[i, j] + alpha * lower[i, j]
        lower[i, i] += regularization
    # Cholesky decomposition: each column is subtracted from all later columns. The same numbers are
    # subtracted from every entry as in the reference, in the same order; but neighbouring entries
    # can be computed at once.
    for k in range(size):
        lower[k, k] = np.sqrt(lower[k, k])
        for i in range(k + 1, size):
            lower[i, k] /= lower[k, k]
            column[i] = lower[i, k]
        for i in range(k + 1, size):
            factor, row = column[i], lower[i]
            for j in range(k + 1, i + 1):
                row[j] -= factor * column[j]
    for i in range(size):
        for k in range(i):
            solution[i] -= lower[i, k] * solution[k]
        solution[i] /= lower[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            solution[i] -= lower[k, i] * solution[k]
        solution[i] /= lower[i, i]
        x[i] = np.float32(solution[i])
    for i in range(size):
        if not np.abs(x[i]) <= MAX_USER_ENTRY:
            x[:] = np.float32(0)
            break


@njit(nogil=True, cache=True, error_model="numpy")
def solve_users(
    begin: int,
    end: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    V: NDArray[np.float32],
    G: Float64,
    alpha: float,
    regularization: float,
    X: NDArray[np.float32],
) -> None:
    """Write the vectors of the users from `begin` to `end - 1` into `X`."""
    memory = make_equation_memory(X.shape[1])
    for u in range(begin, end):
        items = indices[indptr[u] : indptr[u + 1]]
        solve_user(items, V, G, alpha, regularization, memory, X[u])
