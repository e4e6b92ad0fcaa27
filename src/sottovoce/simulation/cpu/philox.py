"""Compiled functions of `simulation.random_words` and `simulation.population`."""

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
    REPORTS_PURPOSE,
    RESAMPLING_PURPOSE,
    TURNS_PURPOSE,
)

# The constants of `simulation.random_words` as unsigned words: numba treats Python integers as
# signed.
_MULTIPLIER_0 = np.uint64(PHILOX_MULTIPLIERS[0])
_MULTIPLIER_1 = np.uint64(PHILOX_MULTIPLIERS[1])
_KEY_STEP_0 = np.uint64(PHILOX_KEY_STEPS[0])
_KEY_STEP_1 = np.uint64(PHILOX_KEY_STEPS[1])
_REPORTS_PURPOSE = np.uint64(REPORTS_PURPOSE)
_TURNS_PURPOSE = np.uint64(TURNS_PURPOSE)
_RESAMPLING_PURPOSE = np.uint64(RESAMPLING_PURPOSE)
_DROP_BELOW = np.uint64(DROPPED_OF_65536)
# Selects the 16 bits of a word that decide whether a resampled history drops an item.
_PIECE_MASK = np.uint64(0xFFFF)


@intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the upper half of a 128-bit product."""
    # numba has no function for this, but LLVM compiles it to one instruction.

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        wide = ir.IntType(128)
        first, second = (builder.zext(value, wide) for value in arguments)
        product = builder.mul(first, second)
        shifted = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(shifted, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit
def draw_words(seed: np.uint64, purpose: np.uint64, c0: int, c1: int, c2: int) -> Any:
    """Return the four words for the counter (c0, c1, c2, 0)."""
    counter = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(0)
    return mix_rounds(counter, seed, purpose, PHILOX_ROUNDS)


@compile_inner
def mix_rounds(state: Any, k0: np.uint64, k1: np.uint64, rounds: int) -> Any:
    """Apply rounds of Philox, of which the first has the keys `k0` and `k1`."""
    x0, x1, x2, x3 = state
    for _ in range(rounds):
        high0, low0 = multiply_high(x0, _MULTIPLIER_0), x0 * _MULTIPLIER_0
        high1, low1 = multiply_high(x2, _MULTIPLIER_1), x2 * _MULTIPLIER_1
        x0, x1 = high1 ^ x1 ^ k0, low1
        x2, x3 = high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + _KEY_STEP_0, k1 + _KEY_STEP_1
    return x0, x1, x2, x3


@compile_inner
def draw_report_words(seed: np.uint64, epoch: int, user: int, draw: int) -> Any:
    """Return the words of one draw. Draws 0 to k - 1 are for the k reports; draw k breaks ties."""
    return draw_words(seed, _REPORTS_PURPOSE, draw, user, epoch)


@njit
def compute_draw_products(draws: int) -> NDArray[np.uint64]:
    """Return the products of the first two rounds that depend only on the draw.

    They are the same for all users and epochs. See `fill_words`.
    """
    draw_products = np.empty((draws, 3), np.uint64)
    for draw in range(draws):
        product = np.uint64(draw) * _MULTIPLIER_0
        second = multiply_high(np.uint64(draw), _MULTIPLIER_0) ^ _REPORTS_PURPOSE
        draw_products[draw, 0] = multiply_high(second, _MULTIPLIER_1)
        draw_products[draw, 1] = second * _MULTIPLIER_1
        draw_products[draw, 2] = product
    return draw_products


@njit
def fill_words(
    seed: np.uint64,
    epoch: int,
    user: int,
    draw_products: NDArray[np.uint64],
    random_words: NDArray[np.uint64],
) -> None:
    """Fill in three words of each draw, equal to those of `draw_report_words`.

    Args:
        seed: Seed of the simulation.
        epoch: Number of the epoch.
        user: Number of the user.
        draw_products: Result of `compute_draw_products`.
        random_words: Output, with one row for each draw.
    """
    # Multiplications are the slow part of Philox. In the first two of its ten rounds, the products
    # of the draw are combined with those of user and epoch by XOR only. So the products of the draw
    # are computed once for all users, and those of user and epoch once for all draws of a user.
    first = multiply_high(np.uint64(epoch), _MULTIPLIER_1) ^ np.uint64(user) ^ seed
    mask0 = np.uint64(epoch) * _MULTIPLIER_1 ^ (seed + _KEY_STEP_0)
    mask2, word3 = (
        multiply_high(first, _MULTIPLIER_0) ^ (_REPORTS_PURPOSE + _KEY_STEP_1),
        first * _MULTIPLIER_0,
    )
    k0, k1 = seed + _KEY_STEP_0 + _KEY_STEP_0, _REPORTS_PURPOSE + _KEY_STEP_1 + _KEY_STEP_1
    for j in range(random_words.shape[0]):
        x0, x1, x2 = draw_products[j, 0], draw_products[j, 1], draw_products[j, 2]
        state = x0 ^ mask0, x1, x2 ^ mask2, word3
        random_words[j, 0], random_words[j, 1], random_words[j, 2], _ = mix_rounds(
            state, k0, k1, PHILOX_ROUNDS - 2
        )


@compile_inner
def takes_part(seed: np.uint64, epoch: int, user: int, turns: int, epochs: int) -> bool:
    """Return whether a user takes part, like `simulation.random_words.draw_participants`."""
    if turns == epochs:
        return True
    turns_left, is_turn = np.uint64(turns), False
    random_words = draw_words(seed, _TURNS_PURPOSE, 0, user, 0)
    for past_epoch in range(epoch + 1):
        if past_epoch and past_epoch % WORDS_PER_DRAW == 0:
            random_words = draw_words(seed, _TURNS_PURPOSE, past_epoch // WORDS_PER_DRAW, user, 0)
        word = random_words[past_epoch % WORDS_PER_DRAW]
        is_turn = multiply_high(word, np.uint64(epochs - past_epoch)) < turns_left
        if is_turn:
            turns_left -= np.uint64(1)
        elif turns_left == 0:
            return False
    return is_turn


class Roster(NamedTuple):
    """The simulated people without their histories: their numbers, and how often they report."""

    first: int
    """Number of the first person."""
    chosen: NDArray[np.int64]
    """Number of each person; empty if the numbers are consecutive."""
    people: int
    """How many people there are."""
    resampled: bool
    """Whether the histories are drawn from the data with replacement (`People.resampled`)."""
    turns: int
    """Number of epochs that each person takes part in."""
    epochs: int


@compile_inner
def get_number(place: int, roster: Roster) -> int:
    """Return the number of the person at this place, like `People.get_numbers`."""
    return roster.chosen[place] if roster.chosen.shape[0] else roster.first + place


@compile_inner
def fill_history(
    place: int,
    roster: Roster,
    seed: np.uint64,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Write the items of the person at this place to `out`, and return how many there are."""
    if not roster.resampled:
        items = indices[indptr[place] : indptr[place + 1]]
        for t in range(items.shape[0]):
            out[t] = items[t]
        return items.shape[0]
    user = get_number(place, roster)
    random_words = draw_words(seed, _RESAMPLING_PURPOSE, 0, user, 0)
    row = np.int64(multiply_high(random_words[0], np.uint64(indptr.shape[0] - 1)))
    items = indices[indptr[row] : indptr[row + 1]]
    n = 0
    for t in range(items.shape[0]):
        if t % ITEMS_PER_DRAW == 0:
            random_words = draw_words(seed, _RESAMPLING_PURPOSE, 1 + t // ITEMS_PER_DRAW, user, 0)
        piece = t % ITEMS_PER_DRAW
        word = random_words[piece // 4] >> np.uint64(16 * (piece % 4))
        if word & _PIECE_MASK >= _DROP_BELOW:
            out[n] = items[t]
            n += 1
    return n
