"""User vectors, compiled: `sottovoce.core.solve_user_vectors` in the same order of operations.

numba leaves vector instructions to LLVM, which finds none where four entries of one row meet four
of another. So sums of outer products, four by four entries at a time, are written in LLVM's own
words. Products and sums are those of plain loops, in the same order: bits do not change.
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

USERS_PER_BLOCK = 64
"""What one thread takes at a time: small enough to share out evenly, large enough to amortise."""

ITEMS_PER_BLOCK = 64
"""Rows of V that are read, widened and added up before the next: they stay in the nearest cache."""
SIDE = 4
"""Rows and columns of a tile, whose sixteen sums stay in registers."""
_INDEX, _FOUR = ir.IntType(64), ir.VectorType(ir.DoubleType(), SIDE)


@compile_inner
def padded(size: int) -> int:
    """The next multiple of `SIDE`."""
    return -(-size // SIDE) * SIDE


@compile_inner
def add_tile(rows: Any, n: int, i: int, j: int, lines: int, sums: Any) -> None:
    """Add `rows[t, i:i+lines] rows[t, j:j+4]^T` to `sums[i:i+lines, j:j+4]`, for t < n.

    One after the other from t = 0 on. Both are float64, in C order, and equally wide; n and lines
    (at most four) are at least 1. Nothing is checked.
    """
    if lines == 4:
        _four_lines(rows, n, i, j, sums)
    elif lines == 3:
        _three_lines(rows, n, i, j, sums)
    elif lines == 2:
        _two_lines(rows, n, i, j, sums)
    else:
        _one_line(rows, n, i, j, sums)


def _of_lines(count: int) -> Any:
    """The tile with so many lines."""

    def tile(typing_context: Any, rows: Any, n: Any, i: Any, j: Any, sums: Any) -> Any:  # noqa: ARG001 - numba's signature
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _generate(count, context, builder, signature, arguments)

        return types.void(rows, types.intp, types.intp, types.intp, sums), generate

    return intrinsic(tile)


def _generate(count: int, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    read, total = (
        context.make_array(signature.args[place])(context, builder, arguments[place])
        for place in (0, 4)
    )
    n, i, j = arguments[1:4]
    width = builder.extract_value(read.shape, 1)

    def four(start: Any, row: Any, column: Any) -> Any:
        place = builder.add(builder.mul(row, width), column)
        return builder.bitcast(builder.gep(start, [place]), _FOUR.as_pointer())

    def load(start: Any, row: Any, column: Any) -> Any:
        loaded = builder.load(four(start, row, column))
        loaded.align = 8
        return loaded

    places = [builder.add(i, ir.Constant(_INDEX, line)) for line in range(count)]
    before = [load(total.data, line, j) for line in places]
    entry = builder.block
    loop = builder.append_basic_block("tile")
    builder.branch(loop)

    builder.position_at_end(loop)
    t = builder.phi(_INDEX)
    held = [builder.phi(_FOUR) for _ in range(count)]
    down, across = load(read.data, t, i), load(read.data, t, j)
    after = []
    for line in range(count):
        same = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [line] * SIDE)
        entries = builder.shuffle_vector(down, down, same)
        after.append(builder.fadd(held[line], builder.fmul(entries, across)))
    following = builder.add(t, ir.Constant(_INDEX, 1))
    for value, first, later in zip(
        [t, *held], [ir.Constant(_INDEX, 0), *before], [following, *after], strict=True
    ):
        value.add_incoming(first, entry)
        value.add_incoming(later, loop)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", following, n), loop, done)

    builder.position_at_end(done)
    for line, value in zip(places, after, strict=True):
        builder.store(value, four(total.data, line, j)).align = 8
    return context.get_dummy_value()


_one_line, _two_lines, _three_lines, _four_lines = (_of_lines(count) for count in (1, 2, 3, 4))


class Room(NamedTuple):
    """Memory for one user's equations, used again for the next."""

    rows: Float64
    lower: Float64
    column: Float64
    solution: Float64


@compile_inner
def new_room(size: int) -> Room:
    """For vectors of so many factors."""
    width = padded(size)
    rows = np.zeros((ITEMS_PER_BLOCK, width), np.float64)
    rows[:, size : size + 1] = 1.0  # times which a row is itself
    return Room(
        rows,
        np.empty((width, width), np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
    )


@compile_inner
def add_items(
    items: NDArray[np.int32], V: NDArray[np.float32], rows: Float64, sums: Float64, right: Float64
) -> None:
    """`sum v v^T` (the lower triangle, and some more) and `sum v`, item after item.

    The product of two float32 is exact in float64, so nothing is gained by keeping products in a
    table, which would not fit a cache. Where rows are padded, the first of the padding is 1, and
    its products are `v` itself.
    """
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
        for i in range(0, width, SIDE):
            for j in range(0, i + SIDE, SIDE):
                add_tile(rows, n, i, j, min(SIDE, used - i), sums)
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
    room: Room,
    x: NDArray[np.float32],
) -> None:
    """Equation (4) for one user, into `x`.

    A vector that is not usable becomes zero, as in `sottovoce.core.bounds.zero_unusable_vectors`.
    """
    rows, lower, column, solution = room
    size = x.shape[0]
    add_items(items, V, rows, lower, solution)
    for i in range(size):
        solution[i] = (1.0 + alpha) * solution[i]
        for j in range(i + 1):
            lower[i, j] = G[i, j] + alpha * lower[i, j]
        lower[i, i] += regularization
    # Column after column, each taken off all that follow: every entry sees the same differences in
    # the same order as in the reference, but neighbours at once.
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
    """The vectors of some, from one place to another, into `X`."""
    room = new_room(X.shape[1])
    for u in range(begin, end):
        items = indices[indptr[u] : indptr[u + 1]]
        solve_user(items, V, G, alpha, regularization, room, X[u])
