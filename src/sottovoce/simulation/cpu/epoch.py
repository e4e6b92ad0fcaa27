"""One federated epoch of some people; mechanisms are plugged in by their kernels."""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from sottovoce.simulation.cpu.philox import Gathering, history_of, number_of, takes_part
from sottovoce.simulation.cpu.solve import new_room, solve_user
from sottovoce.simulation.evaluation.kernels import compile_inner
from sottovoce.simulation.interface import EpochConstants

Int32 = NDArray[np.int32]
TOGETHER = 8
"""Users whose reports a kernel may compute at once, so that it reads large tables once for all."""


def new_scratch(c: EpochConstants, m: Any, longest: int) -> Any:
    """Memory that a kernel needs for a user and may use again for the next: plugged in."""
    raise NotImplementedError


def looks(user: int, c: EpochConstants, m: Any, k: int) -> bool:
    """Whether any of a user's k reports depends on their history: plugged in.

    A device computes the same every time; here people whose coins leave no room for it are not.
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
    """The k reports of some users, by number, into `out`: plugged in."""
    raise NotImplementedError


@compile_inner
def always(user: int, c: EpochConstants, m: Any, k: int) -> bool:  # noqa: ARG001
    """What `looks` is for a mechanism whose every report depends on the history."""
    return True


def plug_in(constants: type, scratch_of: Any, reports_of: Any, looks_of: Any = always) -> None:
    """Make `run_epoch` compute these reports for a mechanism with constants of this type.

    They stand for the three functions above. numba chooses by the type of `m` when it compiles, so
    every mechanism gets a loop of its own, with its kernel inlined, from one source.
    """

    def scratch(c, m, longest):  # type: ignore[no-untyped-def]
        return scratch_of(c, m, longest)

    def looking(user, c, m, k):  # type: ignore[no-untyped-def]
        return looks_of(user, c, m, k)

    def reports(users, indptr, indices, X, c, m, scratch, out):  # type: ignore[no-untyped-def]
        return reports_of(users, indptr, indices, X, c, m, scratch, out)

    # Lambdas, since numba compares signatures to the letter, annotations included.
    overload(new_scratch, inline="always")(
        lambda c, m, longest: scratch if _is(m, constants) else None  # noqa: ARG005
    )
    overload(looks, inline="always")(
        lambda user, c, m, k: looking if _is(m, constants) else None  # noqa: ARG005
    )
    overload(fill_reports, inline="always")(
        lambda users, indptr, indices, X, c, m, scratch, out: (  # noqa: ARG005
            reports if _is(m, constants) else None
        )
    )


def _is(m: Any, constants: type) -> bool:
    return isinstance(m, types.BaseNamedTuple) and m.instance_class is constants


@njit(nogil=True, cache=True, error_model="numpy")
def run_epoch(
    begin: int,
    end: int,
    indptr: NDArray[np.int64],
    indices: Int32,
    longest: int,
    who: Gathering,
    c: EpochConstants,
    m: Any,
    sums: Int32,
    kept: NDArray[np.uint32],
) -> int:
    """Solve and report for those from one place to another whose turn it is; how many they are.

    Signs are added to `sums`: integers, so the order of users changes nothing. Reports are written
    to `kept` (N x k) too, unless it is empty. No history is longer than the longest.
    """
    k, size = c.reports, c.V.shape[1]
    room = new_room(size)
    X = np.empty((TOGETHER, size), np.float32)
    out = np.empty((TOGETHER, k), np.uint32)
    users, places = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64)
    starts = np.zeros(TOGETHER + 1, np.int64)
    items = np.empty(TOGETHER * longest, np.int32)
    scratch = new_scratch(c, m, longest)
    some, crowd = 0, 0
    for place in range(begin, end):
        user = number_of(place, who)
        if takes_part(c.seed, c.epoch, user, who.turns, who.epochs):
            start = starts[some]
            users[some], places[some], starts[some + 1] = user, place, start
            X[some] = np.float32(0)
            if looks(user, c, m, k):
                n = history_of(place, who, c.seed, indptr, indices, items[start:])
                starts[some + 1] = start + n
                solve_user(
                    items[start : start + n], c.V, c.G, c.alpha, c.regularization, room, X[some]
                )
            some += 1
        if some == TOGETHER or (some and place == end - 1):
            fill_reports(users[:some], starts[: some + 1], items, X[:some], c, m, scratch, out)
            for u in range(some):
                for j in range(k):
                    report = out[u, j]
                    sums[report >> np.uint32(1)] += np.int32(2) * np.int32(report & 1) - np.int32(1)
                    if kept.shape[0]:
                        kept[places[u], j] = report
            crowd += some
            some = 0
    return crowd
