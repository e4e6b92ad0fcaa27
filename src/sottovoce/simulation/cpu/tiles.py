"""Sums of outer products, four by four entries at a time.

numba leaves vector instructions to LLVM, which finds none where four entries of one row meet four
of another. So this one loop is written in LLVM's own words. Products and sums are those of plain
loops, in the same order: bits do not change.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

SIDE = 4
"""Rows and columns of a tile, whose sixteen sums stay in registers."""
_INDEX, _FOUR = ir.IntType(64), ir.VectorType(ir.DoubleType(), SIDE)


@njit
def padded(size: int) -> int:
    """The next multiple of `SIDE`."""
    return -(-size // SIDE) * SIDE


@njit
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
