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


TOGETHER = 8
"""Users whose reports a kernel may compute at once, so that it reads large tables once for all."""


def new_scratch(c: EpochConstants, m: Any, longest: int) -> Any:
    """Memory that a kernel needs for a user and may use again for the next: plugged in."""
    raise NotImplementedError


def fill_reports(
    first: int,
    indptr: NDArray[np.int64],
    indices: Int32,
    X: NDArray[np.float32],
    c: EpochConstants,
    m: Any,
    scratch: Any,
    out: NDArray[np.uint32],
) -> None:
    """The k reports of some users from number `first` on, into `out`: plugged in."""
    raise NotImplementedError


def plug_in(constants: type, scratch_of: Any, reports_of: Any) -> None:
    """Make `run_epoch` compute these reports for a mechanism with constants of this type.

    `reports_of(user, items, x, c, m, scratch, out)` is for one user. numba chooses by the type of
    `m` when it compiles, so every mechanism gets a loop of its own, with its kernel inlined, from
    one source.
    """

    @njit(error_model="numpy")
    def one_by_one(first, indptr, indices, X, c, m, scratch, out):  # type: ignore[no-untyped-def]
        for u in range(X.shape[0]):
            items = indices[indptr[u] : indptr[u + 1]]
            reports_of(first + u, items, X[u], c, m, scratch, out[u])

    plug_in_groups(constants, scratch_of, one_by_one)


def plug_in_groups(constants: type, scratch_of: Any, reports_of: Any) -> None:
    """The same for a kernel that takes some users at once, as `fill_reports` is given them."""

    def scratch(c, m, longest):  # type: ignore[no-untyped-def]
        return scratch_of(c, m, longest)

    def reports(first, indptr, indices, X, c, m, scratch, out):  # type: ignore[no-untyped-def]
        return reports_of(first, indptr, indices, X, c, m, scratch, out)

    # Lambdas, since numba compares signatures to the letter, annotations included.
    overload(new_scratch)(
        lambda c, m, longest: scratch if _is(m, constants) else None  # noqa: ARG005
    )
    overload(fill_reports)(
        lambda first, indptr, indices, X, c, m, scratch, out: (  # noqa: ARG005
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
        lower = np.empty((size, size), np.float64)
        column, solution = np.empty(size, np.float64), np.empty(size, np.float64)
        X = np.empty((TOGETHER, size), np.float32)
        out = np.empty((TOGETHER, k), np.uint32)
        scratch = new_scratch(c, m, longest)
        end = min(n, (block + 1) * USERS_PER_BLOCK)
        for first in range(block * USERS_PER_BLOCK, end, TOGETHER):
            last = min(first + TOGETHER, end)
            for u in range(first, last):
                items = indices[indptr[u] : indptr[u + 1]]
                solve_user(
                    items, c.G, c.wide, c.alpha, c.regularization, lower, column, solution,
                    X[u - first],
                )  # fmt: skip
            some, said = X[: last - first], out[: last - first]
            fill_reports(
                first_user + first, indptr[first : last + 1], indices, some, c, m, scratch, said
            )
            for report in said.flat:
                own_sums[report >> np.uint32(1)] += np.int32(2) * np.int32(report & 1) - np.int32(1)
            if kept.shape[0]:
                kept[first:last] = said


run_epoch = njit(parallel=True, cache=True, error_model="numpy")(_run_epoch)
run_epoch_uncached = njit(parallel=True, error_model="numpy")(_run_epoch)
"""For mechanisms from outside: a cache that names their types cannot be read without them."""


def loop_for(constants: object) -> Any:
    """The loop for constants of this type."""
    ours = type(constants).__module__.startswith("sottovoce.")
    return run_epoch if ours else run_epoch_uncached
