"""The compiled loop of evaluation, and the threads of all compiled loops.

A loop computes the people from `begin` to `end` without Python's lock. `run_in_threads` gives each
thread some people at a time. numba's own parallel loops would take longer to compile.
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

# Compiles a function that only compiled loops call, and so needs no wrapper for Python. With a
# wrapper, compiling takes a quarter longer. With numpy's error model, a division by 0 gives inf and
# raises no exception.
compile_inner = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
# Lets the compiler reorder sums, so that it can vectorise them. Their last digits then depend on
# the machine. Evaluation allows this; the loops that compute reports add in a fixed order.
REORDERED_SUMS = {"reassoc", "contract", "nsz"}
# Users that a thread takes at a time: few enough that all threads end at nearly the same time, and
# enough that Python is called rarely.
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
    """Return a valid number of threads. None means all threads that numba has.

    Raises:
        SettingsError: This machine has fewer threads.
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
    """Call `run(begin, end, thread)` for pieces of `range(n)`, on the threads of `use_threads`."""
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


@njit(nogil=True, cache=True, error_model="numpy", fastmath=REORDERED_SUMS)
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

    The rows of D are `starts`, `columns` and `values`. Row n of `ridges` is for histories of n
    items, and has the ridge of the factors and that of the tags.
    """
    factors, size, longest = V.shape[1], gram.shape[0], ridges.shape[0]
    system, x = np.empty((size, size)), np.empty(size)
    # The rows of V for a person's items, transposed, so that sums run through memory in order.
    own, weighted = np.empty((factors, longest)), np.empty((factors, longest))
    for u in range(begin, end):
        # Only the lower triangle is written: the solver reads nothing else.
        for i in range(factors, size):
            x[i] = 0.0
            for j in range(i + 1):
                system[i, j] = 0.0
        n = indptr[u + 1] - indptr[u]
        for t in range(n):
            item, weight = indices[indptr[u] + t], weights[indptr[u] + t]
            for f in range(factors):
                own[f, t], weighted[f, t] = V[item, f], weight * V[item, f]
            for a in range(starts[item], starts[item + 1]):
                k, value = factors + columns[a], weight * values[a]
                x[k] += value
                for f in range(factors):
                    system[k, f] += value * V[item, f]
                for b in range(starts[item], a + 1):
                    system[k, factors + columns[b]] += value * values[b]
        for i in range(factors):
            x[i] = weighted[i, :n].sum()
            for j in range(i + 1):
                system[i, j] = multiply(weighted[i], own[j], n)
        for i in range(size):
            x[i] *= 1 + alpha
            for j in range(i + 1):
                system[i, j] = gram[i, j] + alpha * system[i, j]
            system[i, i] += ridges[n, 0] if i < factors else ridges[n, 1]
        # The row of a system without a solution stays 0.
        if solve_in_place(system, x):
            for i in range(size):
                out[u, i] = x[i]


@njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath=REORDERED_SUMS)
def multiply(a: Float64, b: Float64, n: int) -> float:
    """Return the inner product of the first n entries."""
    total = 0.0
    for t in range(n):
        total += a[t] * b[t]
    return total


@njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath=REORDERED_SUMS)
def solve_in_place(lower: Float64, x: Float64) -> bool:
    """Solve a system by the Cholesky factor of its lower triangle; return whether x is finite."""
    size = x.shape[0]
    for i in range(size):
        for j in range(i):
            lower[i, j] = (lower[i, j] - multiply(lower[i], lower[j], j)) / lower[j, j]
        lower[i, i] = np.sqrt(lower[i, i] - multiply(lower[i], lower[i], i))
        x[i] = (x[i] - multiply(lower[i], x, i)) / lower[i, i]
    finite = True
    for i in range(size - 1, -1, -1):
        x[i] /= lower[i, i]
        for m in range(i):
            x[m] -= lower[i, m] * x[i]
        finite &= np.isfinite(x[i])
    return finite


@compile_inner
def score(x: Float32, row: Float32) -> np.float32:
    """Compute `x . v`, factor by factor, as `sottovoce.core.predict` does."""
    total = x[0] * row[0]
    for f in range(1, x.shape[0]):
        total += x[f] * row[f]
    return total
