"""Random words, whose turn it is and what they touched: `simulation.random_words`, compiled."""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sottovoce.core import WORDS_PER_DRAW
from sottovoce.simulation.evaluation.kernels import compile_inner
from sottovoce.simulation.population import DROPPED_OF_65536, ITEMS_PER_DRAW
from sottovoce.simulation.random_words import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    REPORTS_KEY,
    RESAMPLING_KEY,
    TURNS_KEY,
)

_M0, _M1 = (np.uint64(m) for m in PHILOX_MULTIPLIERS)
_W0, _W1 = (np.uint64(w) for w in PHILOX_KEY_STEPS)
_REPORTS, _TURNS, _RESAMPLED = (
    np.uint64(REPORTS_KEY),
    np.uint64(TURNS_KEY),
    np.uint64(RESAMPLING_KEY),
)
_DROPPED, _PIECE = np.uint64(DROPPED_OF_65536), np.uint64(0xFFFF)


@intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The upper half of a 128-bit product: one instruction, which numba has no name for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        wide = ir.IntType(128)
        first, second = (builder.zext(value, wide) for value in arguments)
        product = builder.mul(first, second)
        shifted = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(shifted, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit
def philox(seed: np.uint64, purpose: np.uint64, c0: int, c1: int, c2: int) -> Any:
    """Four words for the counter (c0, c1, c2, 0)."""
    counter = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(0)
    return mix(counter, seed, purpose, PHILOX_ROUNDS)


@compile_inner
def mix(state: Any, k0: np.uint64, k1: np.uint64, rounds: int) -> Any:
    """So many rounds, with these keys first."""
    x0, x1, x2, x3 = state
    for _ in range(rounds):
        high0, low0 = multiply_high(x0, _M0), x0 * _M0
        high1, low1 = multiply_high(x2, _M1), x2 * _M1
        x0, x1 = high1 ^ x1 ^ k0, low1
        x2, x3 = high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + _W0, k1 + _W1
    return x0, x1, x2, x3


@compile_inner
def report_words(seed: np.uint64, epoch: int, user: int, draw: int) -> Any:
    """The words of one report; draw k breaks ties."""
    return philox(seed, _REPORTS, draw, user, epoch)


@njit
def begin_draws(draws: int) -> NDArray[np.uint64]:
    """What two rounds make of the draws 0, 1, ... alone: the same for everybody, in all epochs."""
    begun = np.empty((draws, 3), np.uint64)
    for draw in range(draws):
        product = np.uint64(draw) * _M0
        second = multiply_high(np.uint64(draw), _M0) ^ _REPORTS
        begun[draw, 0] = multiply_high(second, _M1)
        begun[draw, 1] = second * _M1
        begun[draw, 2] = product
    return begun


@njit
def fill_words(
    seed: np.uint64,
    epoch: int,
    user: int,
    begun: NDArray[np.uint64],
    random_words: NDArray[np.uint64],
) -> None:
    """Three words of `report_words` for each draw, with two rounds of ten done beforehand.

    There a draw meets neither user nor epoch but in exclusive ors, and products are what costs.
    """
    first = multiply_high(np.uint64(epoch), _M1) ^ np.uint64(user) ^ seed
    own0 = np.uint64(epoch) * _M1 ^ (seed + _W0)
    own2, own3 = multiply_high(first, _M0) ^ (_REPORTS + _W1), first * _M0
    k0, k1 = seed + _W0 + _W0, _REPORTS + _W1 + _W1
    for j in range(random_words.shape[0]):
        state = begun[j, 0] ^ own0, begun[j, 1], begun[j, 2] ^ own2, own3
        random_words[j, 0], random_words[j, 1], random_words[j, 2], _ = mix(
            state, k0, k1, PHILOX_ROUNDS - 2
        )


@compile_inner
def takes_part(seed: np.uint64, epoch: int, user: int, turns: int, epochs: int) -> bool:
    """`sottovoce.simulation.random_words.draw_participants` of one user."""
    if turns == epochs:
        return True
    left, takes = np.uint64(turns), False
    random_words = philox(seed, _TURNS, 0, user, 0)
    for each in range(epoch + 1):
        if each and each % WORDS_PER_DRAW == 0:
            random_words = philox(seed, _TURNS, each // WORDS_PER_DRAW, user, 0)
        takes = multiply_high(random_words[each % WORDS_PER_DRAW], np.uint64(epochs - each)) < left
        if takes:
            left -= np.uint64(1)
        elif left == 0:
            return False
    return takes


class Gathering(NamedTuple):
    """Public numbers of an epoch: who there is, and how often they take part."""

    first: int
    chosen: NDArray[np.int64]
    """The numbers of people; empty: consecutive from the first."""
    people: int
    resampled: bool
    turns: int
    epochs: int


@compile_inner
def number_of(place: int, who: Gathering) -> int:
    """`People.numbers` of one."""
    return who.chosen[place] if who.chosen.shape[0] else who.first + place


@compile_inner
def history_of(
    place: int,
    who: Gathering,
    seed: np.uint64,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """The items of somebody, into `out`; how many there are."""
    if not who.resampled:
        items = indices[indptr[place] : indptr[place + 1]]
        for t in range(items.shape[0]):
            out[t] = items[t]
        return items.shape[0]
    user = number_of(place, who)
    random_words = philox(seed, _RESAMPLED, 0, user, 0)
    row = np.int64(multiply_high(random_words[0], np.uint64(indptr.shape[0] - 1)))
    items = indices[indptr[row] : indptr[row + 1]]
    n = 0
    for t in range(items.shape[0]):
        if t % ITEMS_PER_DRAW == 0:
            random_words = philox(seed, _RESAMPLED, 1 + t // ITEMS_PER_DRAW, user, 0)
        piece = t % ITEMS_PER_DRAW
        word = random_words[piece // 4] >> np.uint64(16 * (piece % 4))
        if word & _PIECE >= _DROPPED:
            out[n] = items[t]
            n += 1
    return n
