"""What this machine can do at most: bytes moved, multiply-adds, random words, each in a second.

By processor time, so that it does not matter who else uses the machine.

Multiply-adds are written in LLVM's own words, as in `simulation.cpu.tiles`: enough chains of them
side by side that no unit waits for a result, and nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from sottovoce.evaluation.kernels import on_threads
from sottovoce.experiments.bench.timing import copy_bandwidth
from sottovoce.mechanism import WORDS_PER_DRAW
from sottovoce.simulation.cpu.philox import begin_draws, fill_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

VECTOR_BITS, CHAINS = 512, 6
"""In registers of 128 bits: 16 of 32, with room for products; in wider ones fewer."""
MEGABYTES = 128
"""Copied to measure the bandwidth: beyond the caches of most machines."""
MULTIPLY_ADDS, DRAWS = 1 << 22, 1 << 19
"""Of one chain, and of one thread: some milliseconds."""
DRAWS_OF_ONE = 128
"""Draws of one person, which share their first rounds with everybody's."""


@dataclass(frozen=True)
class Limits:
    """Of all threads together, unless it says otherwise; in a second."""

    copy_alone: float
    """Bytes read and written by one thread."""
    copy: float
    float64: float
    """Multiplications and additions, each rounded: results must be equal to the bit everywhere."""
    float32: float
    fused: float
    """The same of float32 with one rounding for both, which the engine may not use."""
    words: float
    """64-bit random words."""


def measure_limits(threads: int) -> Limits:
    """Once, now; the first time it also compiles."""
    with on_threads(threads):
        return Limits(
            copy_alone=copy_bandwidth(MEGABYTES),
            copy=copy_bandwidth(MEGABYTES, threads),
            float64=_operations(multiply_adds, np.float64, threads),
            float32=_operations(multiply_adds, np.float32, threads),
            fused=_operations(fused_multiply_adds, np.float32, threads),
            words=_words(threads),
        )


def _operations(loop: Callable[..., None], kind: type, threads: int) -> float:
    lanes = CHAINS * VECTOR_BITS // (8 * np.dtype(kind).itemsize)
    out: NDArray[Any] = np.ones((threads, lanes), kind)
    return (
        2
        * lanes
        * MULTIPLY_ADDS
        * threads
        / _best(lambda: loop(MULTIPLY_ADDS, kind(0), out), threads)
    )


def _words(threads: int) -> float:
    out = np.zeros(threads, np.uint64)
    return WORDS_PER_DRAW * DRAWS * threads / _best(lambda: _draw(DRAWS, out), threads)


def _best(run: Callable[[], None], threads: int, times: int = 3) -> float:
    """The shortest: others on the machine can only make it longer."""
    run()
    return min(processor_seconds(run, threads) for _ in range(times))


def processor_seconds(run: Callable[[], object], threads: int) -> float:
    """How long so many threads are at work on it, each on a core of its own.

    Time in which others have the cores does not count, nor that in which a thread waits.
    """
    began = time.process_time()
    run()
    return (time.process_time() - began) / threads


def _chains(*flags: str) -> Any:
    """With these flags of LLVM; `contract` allows one rounding for product and sum."""

    @intrinsic
    def chains(typing_context: Any, n: Any, factor: Any, out: Any) -> Any:  # noqa: ARG001
        """`out += factor out`, n times, n at least 1."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            n, factor, array = arguments
            lanes = VECTOR_BITS // signature.args[1].bitwidth
            kind = ir.VectorType(factor.type, lanes)
            data = context.make_array(signature.args[2])(context, builder, array).data

            def place(chain: int) -> Any:
                at = ir.Constant(ir.IntType(64), chain * lanes)
                return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())

            def everywhere(value: Any) -> Any:
                one = builder.insert_element(
                    ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
                )
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                return builder.shuffle_vector(one, one, zeros)

            def load(chain: int) -> Any:
                loaded = builder.load(place(chain))
                loaded.align = 4
                return loaded

            factors = everywhere(factor)
            before = [load(chain) for chain in range(CHAINS)]
            entry, loop = builder.block, builder.append_basic_block("chains")
            builder.branch(loop)
            builder.position_at_end(loop)
            t = builder.phi(ir.IntType(64))
            held = [builder.phi(kind) for _ in range(CHAINS)]
            after = [
                builder.fadd(value, builder.fmul(value, factors, flags=flags), flags=flags)
                for value in held
            ]
            following = builder.add(t, ir.Constant(ir.IntType(64), 1))
            for phi, first, later in zip(
                [t, *held],
                [ir.Constant(ir.IntType(64), 0), *before],
                [following, *after],
                strict=True,
            ):
                phi.add_incoming(first, entry)
                phi.add_incoming(later, loop)
            done = builder.append_basic_block("done")
            builder.cbranch(builder.icmp_signed("<", following, n), loop, done)
            builder.position_at_end(done)
            for chain, value in enumerate(after):
                builder.store(value, place(chain)).align = 4
            return context.get_dummy_value()

        return types.void(types.intp, factor, out), generate

    return chains


def _on_all_threads(chains: Any) -> Any:
    @njit(parallel=True)
    def loop(n: int, factor: Any, out: NDArray[Any]) -> None:
        for thread in prange(out.shape[0]):
            chains(n, factor, out[thread])

    return loop


multiply_adds, fused_multiply_adds = (
    _on_all_threads(_chains(*flags)) for flags in ((), ("contract",))
)


@njit(parallel=True)
def _draw(n: int, out: NDArray[np.uint64]) -> None:
    for thread in prange(out.shape[0]):
        begun, words = begin_draws(DRAWS_OF_ONE), np.empty((DRAWS_OF_ONE, 3), np.uint64)
        total = np.uint64(0)
        for user in range(n // DRAWS_OF_ONE):
            fill_words(np.uint64(0), thread, user, begun, words)
            total += words[user % DRAWS_OF_ONE, 0]
        out[thread] = total
