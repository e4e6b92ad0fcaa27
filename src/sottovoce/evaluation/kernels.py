"""The loops of ranking, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mixed(word: np.uint64) -> np.uint64:
    """SplitMix64's output function."""
    word = (word ^ (word >> np.uint64(30))) * _MIX1
    word = (word ^ (word >> np.uint64(27))) * _MIX2
    return word ^ (word >> np.uint64(31))


@njit(parallel=True, cache=True)
def sample_untouched(
    indptr: Int64,
    indices: Int32,
    n_items: int,
    test: Int32,
    seed: np.uint64,
    first: np.uint64,
    out: Int32,
) -> None:
    """Distinct untouched items for each user: draw, and draw again what is touched or taken."""
    for u in prange(test.shape[0]):
        taken = np.zeros(n_items, np.uint8)
        for i in indices[indptr[u] : indptr[u + 1]]:
            taken[i] = 1
        left = n_items - (indptr[u + 1] - indptr[u])
        if test[u] >= 0:
            taken[test[u]] = 1
            left -= 1
        # SplitMix64, a stream for each user: no two users share a starting state.
        state = mixed(mixed(seed + _GOLDEN) ^ (first + np.uint64(u)))
        wanted = min(out.shape[1], left)
        if 2 * wanted > left:
            take_by_shuffling(taken, left, wanted, state, out[u])
            continue
        n = 0
        while n < wanted:
            state += _GOLDEN
            # The upper 32 bits scaled down: uniform to within n_items / 2^32.
            i = np.int64(((mixed(state) >> np.uint64(32)) * np.uint64(n_items)) >> np.uint64(32))
            if not taken[i]:
                taken[i] = 1
                out[u, n] = i
                n += 1


@njit(cache=True)
def take_by_shuffling(
    taken: NDArray[np.uint8], left: int, wanted: int, state: np.uint64, out: Int32
) -> None:
    """For users who touched nearly everything: list what is left and shuffle its beginning."""
    free = np.empty(left, np.int32)
    n = 0
    for i in range(taken.shape[0]):
        if not taken[i]:
            free[n] = i
            n += 1
    for t in range(wanted):
        state += _GOLDEN
        span = np.uint64(left - t)
        other = t + np.int64(((mixed(state) >> np.uint64(32)) * span) >> np.uint64(32))
        free[t], free[other] = free[other], free[t]
        out[t] = free[t]


@njit(parallel=True, cache=True)
def wide_vectors(
    indptr: Int64,
    indices: Int32,
    weights: Float64,
    V: Float64,
    tags: tuple[Int32, Int32, Float64],
    gram: Float64,
    ridges: Float64,
    alpha: float,
    out: Float32,
) -> None:
    """Everybody's vector over `W = [V | D]`, as `sottovoce.model.wide` solves it for one.

    `ridges` has one row for each length of a history: of the factors, and of the tags.
    """
    factors, size = V.shape[1], gram.shape[0]
    starts, columns, values = tags
    for u in prange(indptr.shape[0] - 1):
        system, x = np.zeros((size, size)), np.zeros(size)
        ridge = ridges[indptr[u + 1] - indptr[u]]
        for t in range(indptr[u], indptr[u + 1]):
            i, weight = indices[t], weights[t]
            add_outer(V[i], weight, system, x)
            for a in range(starts[i], starts[i + 1]):
                k, value = factors + columns[a], weight * values[a]
                x[k] += value
                row = system[k]
                for f in range(factors):
                    row[f] += value * V[i, f]
                for b in range(starts[i], a + 1):
                    row[factors + columns[b]] += value * values[b]
        for i in range(size):
            x[i] *= 1 + alpha
            for j in range(i + 1):
                system[i, j] = gram[i, j] + alpha * system[i, j]
            system[i, i] += ridge[0] if i < factors else ridge[1]
        solve_in_place(system, x)
        if np.isfinite(x).all():
            out[u] = x


@njit(cache=True)
def add_outer(v: Float64, weight: float, system: Float64, right: Float64) -> None:
    """`weight v v^T`, lower triangle, and `weight v`."""
    for i in range(v.shape[0]):
        value = weight * v[i]
        right[i] += value
        row = system[i]
        for j in range(i + 1):
            row[j] += value * v[j]


@njit(cache=True)
def solve_in_place(lower: Float64, x: Float64) -> None:
    """Cholesky of a lower triangle, row by row, then forward and back."""
    size = x.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = lower[i, j]
            for m in range(j):
                total -= lower[i, m] * lower[j, m]
            lower[i, j] = np.sqrt(total) if i == j else total / lower[j, j]
        total = x[i]
        for m in range(i):
            total -= lower[i, m] * x[m]
        x[i] = total / lower[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= lower[i, i]
        for m in range(i):
            x[m] -= lower[i, m] * x[i]


@njit(cache=True)
def score(x: Float32, row: Float32) -> np.float32:
    """`x . v`, factor by factor, as `sottovoce.model.predictions`."""
    total = x[0] * row[0]
    for f in range(1, x.shape[0]):
        total += x[f] * row[f]
    return total


@njit(parallel=True, cache=True)
def rank_sampled(
    candidates: Int32, test: Int32, X: Float32, V: Float32, better: Int64, ties: Int64
) -> None:
    """How many candidates score above each user's test item, and how many the same."""
    for u in prange(test.shape[0]):
        if test[u] < 0:
            continue
        own = score(X[u], V[test[u]])
        for i in candidates[u]:
            if i >= 0:
                other = score(X[u], V[i])
                better[u] += other > own
                ties[u] += other == own


@njit(parallel=True, cache=True)
def rank_full(
    indptr: Int64, indices: Int32, test: Int32, X: Float32, V: Float32, better: Int64, ties: Int64
) -> None:
    """The same among all items that the user did not touch: all, less their own."""
    for u in prange(test.shape[0]):
        if test[u] < 0:
            continue
        own = score(X[u], V[test[u]])
        above, same = 0, -1  # the test item ties with itself
        for i in range(V.shape[0]):
            other = score(X[u], V[i])
            above += other > own
            same += other == own
        for i in indices[indptr[u] : indptr[u + 1]]:
            other = score(X[u], V[i])
            above -= other > own
            same -= other == own
        better[u], ties[u] = above, same


@njit(parallel=True, cache=True)
def rank_several(
    known_indptr: Int64,
    known: Int32,
    indptr: Int64,
    hidden: Int32,
    X: Float32,
    V: Float32,
    better: Int64,
    ties: Int64,
) -> None:
    """The place of every hidden item among all that its user does not have: sorted once a user."""
    n_items = V.shape[0]
    for u in prange(indptr.shape[0] - 1):
        scores = np.empty(n_items, np.float32)
        for i in range(n_items):
            scores[i] = score(X[u], V[i])
        first, last = indptr[u], indptr[u + 1]
        own = scores[hidden[first:last]]
        for i in known[known_indptr[u] : known_indptr[u + 1]]:
            scores[i] = -np.inf
        scores.sort()
        for t in range(last - first):
            above = np.searchsorted(scores, own[t], side="right")
            better[first + t] = n_items - above
            ties[first + t] = above - np.searchsorted(scores, own[t], side="left") - 1


@njit(parallel=True, cache=True)
def best_untouched(indptr: Int64, indices: Int32, X: Float32, V: Float32, out: Int32) -> None:
    """The best items that each user did not touch, best first; among equals the lowest number."""
    length = out.shape[1]
    for u in prange(out.shape[0]):
        taken = np.zeros(V.shape[0], np.uint8)
        for i in indices[indptr[u] : indptr[u + 1]]:
            taken[i] = 1
        best = np.empty(length, np.float32)
        n = 0
        for i in range(V.shape[0]):
            if taken[i]:
                continue
            own = score(X[u], V[i])
            if n < length:
                n += 1
            elif own <= best[length - 1]:
                continue
            place = n - 1
            while place > 0 and best[place - 1] < own:
                best[place], out[u, place] = best[place - 1], out[u, place - 1]
                place -= 1
            best[place], out[u, place] = own, i
