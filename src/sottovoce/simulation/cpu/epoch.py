"""One federated epoch of some people. The kernels of mechanisms are plugged into its loop."""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from sottovoce.simulation.cpu.philox import Roster, fill_history, get_number, takes_part
from sottovoce.simulation.cpu.solve import make_equation_memory, solve_user
from sottovoce.simulation.evaluation.kernels import compile_inner
from sottovoce.simulation.interface import EpochConstants

Int32 = NDArray[np.int32]
# Users whose reports a kernel computes in one call, so that it reads large tables once for all.
USERS_PER_FILL = 8


def make_scratch(c: EpochConstants, m: Any, longest: int) -> Any:
    """Allocate memory that a kernel needs for one user after the other: plugged in."""
    raise NotImplementedError


def needs_history(user: int, c: EpochConstants, m: Any, k: int) -> bool:
    """Return whether any of a user's k reports depends on their history: plugged in.

    A device always solves its vector. Here it is not solved for people whose coins ignore it.
    """
    raise NotImplementedError


def fill_reports(
    users: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: Int32,
    X: NDArray[np.float32],
    c: EpochConstants,
    m: Any,
    scratch: Any,
    out: NDArray[np.uint32],
) -> None:
    """Write the k reports of the users with these numbers into `out`: plugged in."""
    raise NotImplementedError


@compile_inner
def is_always(user: int, c: EpochConstants, m: Any, k: int) -> bool:  # noqa: ARG001
    """Return True: each report of the mechanism depends on the history."""
    return True


def plug_in(constants: type, scratch_of: Any, reports_of: Any, needs_of: Any = is_always) -> None:
    """Make `run_epoch` use these functions for a mechanism with constants of this type.

    They are the mechanism's `make_scratch`, `fill_reports` and `needs_history`. numba chooses by
    the type of `m` when it compiles. So every mechanism gets its own loop from one source, with
    its kernel inlined.
    """

    def scratch(c, m, longest):  # type: ignore[no-untyped-def]
        return scratch_of(c, m, longest)

    def needs(user, c, m, k):  # type: ignore[no-untyped-def]
        return needs_of(user, c, m, k)

    def reports(users, indptr, indices, X, c, m, scratch, out):  # type: ignore[no-untyped-def]
        return reports_of(users, indptr, indices, X, c, m, scratch, out)

    # Lambdas, because numba compares signatures to the letter, including annotations.
    overload(make_scratch, inline="always")(
        lambda c, m, longest: scratch if _has_type(m, constants) else None  # noqa: ARG005
    )
    overload(needs_history, inline="always")(
        lambda user, c, m, k: needs if _has_type(m, constants) else None  # noqa: ARG005
    )
    overload(fill_reports, inline="always")(
        lambda users, indptr, indices, X, c, m, scratch, out: (  # noqa: ARG005
            reports if _has_type(m, constants) else None
        )
    )


def _has_type(m: Any, constants: type) -> bool:
    return isinstance(m, types.BaseNamedTuple) and m.instance_class is constants


@njit(nogil=True, cache=True, error_model="numpy")
def run_epoch(
    begin: int,
    end: int,
    indptr: NDArray[np.int64],
    indices: Int32,
    longest: int,
    roster: Roster,
    c: EpochConstants,
    m: Any,
    sums: Int32,
    reports: NDArray[np.uint32],
) -> int:
    """Solve and report for the people from place `begin` to `end` whose turn it is.

    Signs are added to `sums` by direction; as integers, so the order of people changes nothing.
    Reports are also written to `reports` (N x k), unless it is empty. `longest` is the length of
    the longest history.

    Returns:
        How many people reported.
    """
    k, size = c.reports, c.V.shape[1]
    equations = make_equation_memory(size)
    X = np.empty((USERS_PER_FILL, size), np.float32)
    out = np.empty((USERS_PER_FILL, k), np.uint32)
    users, places = np.empty(USERS_PER_FILL, np.int64), np.empty(USERS_PER_FILL, np.int64)
    starts = np.zeros(USERS_PER_FILL + 1, np.int64)
    items = np.empty(USERS_PER_FILL * longest, np.int32)
    scratch = make_scratch(c, m, longest)
    queued, crowd = 0, 0
    for place in range(begin, end):
        user = get_number(place, roster)
        if takes_part(c.seed, c.epoch, user, roster.turns, roster.epochs):
            start = starts[queued]
            users[queued], places[queued], starts[queued + 1] = user, place, start
            X[queued] = np.float32(0)
            if needs_history(user, c, m, k):
                n = fill_history(place, roster, c.seed, indptr, indices, items[start:])
                starts[queued + 1] = start + n
                solve_user(
                    items[start : start + n],
                    c.V,
                    c.G,
                    c.alpha,
                    c.regularization,
                    equations,
                    X[queued],
                )
            queued += 1
        if queued == USERS_PER_FILL or (queued and place == end - 1):
            fill_reports(
                users[:queued], starts[: queued + 1], items, X[:queued], c, m, scratch, out
            )
            for u in range(queued):
                for j in range(k):
                    report = out[u, j]
                    sums[report >> np.uint32(1)] += np.int32(2) * np.int32(report & 1) - np.int32(1)
                    if reports.shape[0]:
                        reports[places[u], j] = report
            crowd += queued
            queued = 0
    return crowd
