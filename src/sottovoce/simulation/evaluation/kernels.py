"""Compiled loops of ranking, and the threads of all compiled loops.

A loop computes the people from `begin` to `end` without Python's lock; `run_in_threads` gives every
thread some at a time. (numba's own parallel loops take longer to compile.)
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core import event
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# Compiles a function that only compiled loops call: a wrapper for Python takes a quarter longer.
# With numpy's error model a division by 0 gives inf, and no exception.
compile_inner = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
# Users that a thread takes: few enough for an even load, enough to call Python rarely.
USERS_PER_TASK = 256


class CompileNotice(event.Listener):  # type: ignore[misc]
    """Logs once that a loop is compiled in this process, and not read from a cache."""

    was_logged = False

    def on_start(self, _: Any) -> None:
        if not self.was_logged:
            self.was_logged = True
            logging.getLogger("sottovoce").warning(
                "compiling loops for this machine, once: up to half a minute"
            )

    def on_end(self, _: Any) -> None:
        pass


event.register("numba:compile", CompileNotice())


def check_threads(n: int | None) -> int:
    """Return this number of threads; None: all that numba has.

    Raises:
        SettingsError: This machine has fewer.
    """
    max_threads = int(numba.config.NUMBA_NUM_THREADS)
    if n is not None and not 1 <= n <= max_threads:
        raise SettingsError(f"threads must be from 1 to {max_threads} on this machine, got {n}")
    return n or max_threads


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Limit the threads of compiled loops."""
    before = numba.get_num_threads()
    numba.set_num_threads(n)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def run_in_threads(
    n: int, run: Callable[[int, int, int], None], per_task: int = USERS_PER_TASK
) -> None:
    """Call `run(begin, end, thread)` for all of n, on the threads of `use_threads`."""
    # All threads share one iterator, so that each start is taken once.
    starts = iter(range(0, n, per_task))
    errors: list[BaseException] = []

    def run_tasks(thread: int) -> None:
        try:
            for begin in starts:
                run(begin, min(begin + per_task, n), thread)
        except BaseException as error:  # raised below, in the thread of the caller
            errors.append(error)

    n_threads = min(int(numba.get_num_threads()), -(-n // per_task))
    others = [
        Thread(target=run_tasks, args=(number,), daemon=True) for number in range(1, n_threads)
    ]
    for thread in others:
        thread.start()
    run_tasks(0)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]


@njit(nogil=True, cache=True, error_model="numpy")
def solve_wide_vectors(
    begin: int,
    end: int,
    indptr: Int64,
    indices: Int32,
    weights: Float64,
    V: Float64,
    starts: Int64,
    columns: Int64,
    values: Float64,
    gram: Float64,
    ridges: Float64,
    alpha: float,
    out: Float32,
) -> None:
    """Solve everybody's vector over `W = [V | D]`, as `sottovoce.core.recommending` does for one.

    The rows of D are `starts`, `columns` and `values`. A row of `ridges` is for one length of a
    history: the ridge of the factors, and that of the tags.
    """
    factors, size = V.shape[1], gram.shape[0]
    system, x = np.empty((size, size)), np.empty(size)
    for u in range(begin, end):
        # Only the lower triangle is written: the solver reads nothing else.
        for i in range(size):
            x[i] = 0.0
            for j in range(i + 1):
                system[i, j] = 0.0
        for t in range(indptr[u], indptr[u + 1]):
            item, weight = indices[t], weights[t]
            for i in range(factors):
                x[i] += weight * V[item, i]
                for j in range(i + 1):
                    system[i, j] += weight * (V[item, i] * V[item, j])
            for a in range(starts[item], starts[item + 1]):
                k, value = factors + columns[a], values[a]
                x[k] += weight * value
                for f in range(factors):
                    system[k, f] += weight * (value * V[item, f])
                for b in range(starts[item], a + 1):
                    system[k, factors + columns[b]] += weight * (value * values[b])
        n = indptr[u + 1] - indptr[u]
        for i in range(size):
            x[i] *= 1 + alpha
            for j in range(i + 1):
                system[i, j] = gram[i, j] + alpha * system[i, j]
            system[i, i] += ridges[n, 0] if i < factors else ridges[n, 1]
        # The row of a system without a solution stays 0.
        if solve_in_place(system, x):
            for i in range(size):
                out[u, i] = x[i]


@compile_inner
def solve_in_place(lower: Float64, x: Float64) -> bool:
    """Solve a system by the Cholesky factor of its lower triangle; return whether x is finite."""
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
    finite = True
    for i in range(size - 1, -1, -1):
        for m in range(i + 1, size):
            x[i] -= lower[m, i] * x[m]
        x[i] /= lower[i, i]
        finite &= np.isfinite(x[i])
    return finite


@compile_inner
def score(x: Float32, row: Float32) -> np.float32:
    """Compute `x . v`, factor by factor, as `sottovoce.core.predict` does."""
    total = x[0] * row[0]
    for f in range(1, x.shape[0]):
        total += x[f] * row[f]
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def rank_sampled(
    begin: int,
    end: int,
    candidates: Int32,
    test: Int32,
    X: Float32,
    V: Float32,
    better: Int64,
    ties: Int64,
) -> None:
    """Count the candidates that score above each user's test item, and those that score alike."""
    for u in range(begin, end):
        if test[u] < 0:
            continue
        own = score(X[u], V[test[u]])
        for i in candidates[u]:
            if i >= 0:
                other = score(X[u], V[i])
                better[u] += other > own
                ties[u] += other == own


@njit(nogil=True, cache=True, error_model="numpy")
def rank_several(
    begin: int,
    end: int,
    own_indptr: Int64,
    own_items: Int32,
    indptr: Int64,
    hidden: Int32,
    X: Float32,
    V: Float32,
    better: Int64,
    ties: Int64,
) -> None:
    """Rank every hidden item among all that its user does not have."""
    scores = np.empty(V.shape[0], np.float32)
    for u in range(begin, end):
        if indptr[u] == indptr[u + 1]:
            continue
        for i in range(V.shape[0]):
            scores[i] = score(X[u], V[i])
        for t in range(own_indptr[u], own_indptr[u + 1]):
            scores[own_items[t]] = -np.inf
        for t in range(indptr[u], indptr[u + 1]):
            # An item ties with itself, which does not count.
            own, above, same = scores[hidden[t]], 0, -1
            for i in range(V.shape[0]):
                above += scores[i] > own
                same += scores[i] == own
            better[t], ties[t] = above, same


@njit(nogil=True, cache=True, error_model="numpy")
def find_best_untouched(
    begin: int, end: int, indptr: Int64, indices: Int32, X: Float32, V: Float32, out: Int32
) -> None:
    """List the best items that each user did not touch; among equals the lowest number first."""
    # Insertion into a sorted list: an equal score stays behind, so the lower number comes first.
    length = out.shape[1]
    taken, best = np.zeros(V.shape[0], np.uint8), np.empty(length, np.float32)
    for u in range(begin, end):
        for t in range(indptr[u], indptr[u + 1]):
            taken[indices[t]] = 1
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
        for t in range(indptr[u], indptr[u + 1]):
            taken[indices[t]] = 0
