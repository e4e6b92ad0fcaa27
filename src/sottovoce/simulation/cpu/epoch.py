"""One federated epoch of everybody, on all cores; mechanisms are plugged in by their kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_thread_id, njit, prange, types
from numba.extending import overload

from sottovoce.simulation.cpu.solve import USERS_PER_BLOCK, solve_user

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.preparation import EpochConstants

    Int32 = NDArray[np.int32]


def new_scratch(c: EpochConstants, m: Any, longest: int) -> Any:
    """Memory that a kernel needs for a user and may use again for the next: plugged in."""
    raise NotImplementedError


def fill_reports(
    user: int,
    items: Int32,
    x: NDArray[np.float32],
    c: EpochConstants,
    m: Any,
    scratch: Any,
    out: NDArray[np.uint32],
) -> None:
    """One user's k reports, into `out`: plugged in."""
    raise NotImplementedError


def plug_in(constants: type, scratch_of: Any, reports_of: Any) -> None:
    """Make `run_epoch` compute these reports for a mechanism with constants of this type.

    numba chooses by the type of `m` when it compiles, so every mechanism gets a loop of its own,
    with its kernel inlined, from one source.
    """

    def scratch(c, m, longest):  # type: ignore[no-untyped-def]
        return scratch_of(c, m, longest)

    def reports(user, items, x, c, m, scratch, out):  # type: ignore[no-untyped-def]
        return reports_of(user, items, x, c, m, scratch, out)

    # Lambdas, since numba compares signatures to the letter, annotations included.
    overload(new_scratch)(
        lambda c, m, longest: scratch if _is(m, constants) else None  # noqa: ARG005
    )
    overload(fill_reports)(
        lambda user, items, x, c, m, scratch, out: (  # noqa: ARG005
            reports if _is(m, constants) else None
        )
    )


def _is(m: Any, constants: type) -> bool:
    return isinstance(m, types.BaseNamedTuple) and m.instance_class is constants


def _run_epoch(
    indptr: NDArray[np.int64],
    indices: Int32,
    first_user: int,
    c: EpochConstants,
    m: Any,
    sums: Int32,
    kept: NDArray[np.uint32],
) -> None:
    """Solve and report for every user.

    Signs are added to `sums[thread]`; integers, so the order of users changes nothing. Reports are
    written to `kept` (N x k) too, unless it is empty.
    """
    n, k, size = indptr.shape[0] - 1, c.reports, c.V.shape[1]
    longest = np.max(np.diff(indptr)) if n else 0
    for block in prange((n + USERS_PER_BLOCK - 1) // USERS_PER_BLOCK):
        own_sums = sums[get_thread_id()]
        equations = np.empty(c.table.shape[1], np.float64)
        lower = np.empty((size, size), np.float64)
        solution = np.empty(size, np.float64)
        x = np.empty(size, np.float32)
        out = np.empty(k, np.uint32)
        scratch = new_scratch(c, m, longest)
        for u in range(block * USERS_PER_BLOCK, min(n, (block + 1) * USERS_PER_BLOCK)):
            items = indices[indptr[u] : indptr[u + 1]]
            solve_user(
                items, c.G, c.table, c.alpha, c.regularization, equations, lower, solution, x
            )
            fill_reports(first_user + u, items, x, c, m, scratch, out)
            for j in range(k):
                own_sums[out[j] >> np.uint32(1)] += np.int32(2) * np.int32(out[j] & 1) - np.int32(1)
            if kept.shape[0]:
                kept[u] = out


run_epoch = njit(parallel=True, cache=True, error_model="numpy")(_run_epoch)
run_epoch_uncached = njit(parallel=True, error_model="numpy")(_run_epoch)
"""For mechanisms from outside: a cache that names their types cannot be read without them."""


def loop_for(constants: object) -> Any:
    """The loop for constants of this type."""
    ours = type(constants).__module__.startswith("sottovoce.")
    return run_epoch if ours else run_epoch_uncached
