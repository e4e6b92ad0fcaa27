"""The compiled loop of one epoch, into which the kernels of mechanisms are plugged."""

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
# Number of users whose reports a kernel computes in one call. It then reads large tables only once
# for all of them.
USERS_PER_FILL = 8


def make_scratch(c: EpochConstants, m: Any, longest: int) -> Any:
    """Allocate the memory that a kernel uses again for each user. A kernel replaces this function.

    The constants of the mechanism are `m`; the length of the longest history is `longest`.
    """
    raise NotImplementedError


def needs_history(user: int, c: EpochConstants, m: Any, k: int) -> bool:
    """Return whether any of a user's k reports depends on their history. A kernel replaces this.

    A device always solves its user vector. Here no vector is solved if no report depends on it.
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
    """Write the k reports of each of these users into `out`. A kernel replaces this function.

    The items of user `users[u]` are `indices[indptr[u]:indptr[u + 1]]`, the vector is `X[u]`.
    """
    raise NotImplementedError


@compile_inner
def is_always(user: int, c: EpochConstants, m: Any, k: int) -> bool:  # noqa: ARG001
    """Return True, for mechanisms whose every report depends on the history."""
    return True


def plug_in(constants: type, scratch_of: Any, reports_of: Any, needs_of: Any = is_always) -> None:
    """Make `run_epoch` use these functions for a mechanism with constants of this type.

    numba chooses the functions by the type of `m` when it compiles `run_epoch`. So every mechanism
    gets a loop of its own, with its kernel inlined.

    Args:
        constants: The type of `m`, a named tuple.
        scratch_of: The mechanism's `make_scratch`.
        reports_of: The mechanism's `fill_reports`.
        needs_of: The mechanism's `needs_history`.
    """

    def scratch(c, m, longest):  # type: ignore[no-untyped-def]
        return scratch_of(c, m, longest)

    def needs(user, c, m, k):  # type: ignore[no-untyped-def]
        return needs_of(user, c, m, k)

    def reports(users, indptr, indices, X, c, m, scratch, out):  # type: ignore[no-untyped-def]
        return reports_of(users, indptr, indices, X, c, m, scratch, out)

    # numba requires that a lambda below and the function that it returns have the same signature,
    # including annotations. A lambda cannot have any, so the inner functions have none either.
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
    """Compute the reports of all people at places `begin` to `end - 1` who take part.

    The sign of each report is added to `sums` at its direction. Sums are integers, so the order of
    people does not change them. Reports are also written to `reports` (N x k), unless it is empty.
    `longest` is the length of the longest history.

    Returns:
        The number of people who took part.
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
