"""The compiled loops of the cpu engine, each alone: user vectors, reports, ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numba import config, get_thread_id, njit, prange

from sottovoce.evaluation import rank_factors
from sottovoce.evaluation.kernels import on_threads
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.epoch import TOGETHER, fill_reports, loop_for, new_scratch
from sottovoce.simulation.cpu.solve import USERS_PER_BLOCK
from sottovoce.simulation.cpu.work import Work, ranking_work, reporting_work, solving_work
from sottovoce.simulation.preparation import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.simulation.interface import LocalEngine

    Float32 = NDArray[np.float32]

Precision = Literal["float64", "float32"]


@dataclass(frozen=True)
class Kernel:
    """One loop over everybody, and how much it has to do."""

    name: str
    work: Work
    precision: Precision
    run: Callable[[], object]


def solving(engine: LocalEngine, V: Float32) -> Kernel:
    """Everybody's vector."""
    factors = engine.settings.factors
    work = solving_work(engine.histories, factors)
    return Kernel("solving", work, "float64", lambda: engine.user_vectors(V))


def reporting(engine: LocalEngine, V: Float32, threads: int) -> Kernel:
    """Everybody's reports of the second epoch, their vectors given."""
    work = reporting_work(engine.histories, engine.settings)
    X = engine.user_vectors(V)
    return Kernel(
        engine.settings.mechanism,
        work,
        "float32",
        lambda: sums_alone(engine, V, X, threads),
    )


def ranking(engine: LocalEngine, V: Float32, threads: int) -> Kernel:
    """Everybody's test item among its candidates, their vectors given."""
    candidates, X = engine.left_out.candidates, engine.user_vectors(V)

    def run() -> None:
        with on_threads(threads):
            rank_factors(X, V, candidates)

    work = ranking_work(candidates, engine.settings.factors)
    return Kernel("ranking", work, "float32", run)


def sums_alone(
    engine: LocalEngine, V: Float32, X: Float32, threads: int, epoch: int = 1
) -> NDArray[np.int64]:
    """What `engine.collect` adds up, where everybody's vector is there already."""
    constants = prepare(engine.settings, engine.mechanism, V, epoch)
    own = engine.mechanism.constants(V)
    size = (int(config.NUMBA_NUM_THREADS), engine.mechanism.n_directions)
    sums = np.zeros(size, np.int32)
    with on_threads(threads):
        loop_for(own, report_all, report_all_uncached)(
            engine.histories.indptr, engine.histories.indices, X, constants, own, sums
        )
    return sums.sum(axis=0, dtype=np.int64)


def _report_all(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    X: Float32,
    c: Any,
    m: Any,
    sums: NDArray[np.int32],
) -> None:
    """Signs of everybody's reports, by direction and thread: `run_epoch` from the vectors on."""
    people = X.shape[0]
    longest = np.max(np.diff(indptr)) if people else 0
    per_block = max(USERS_PER_BLOCK, min(people // (16 * sums.shape[0]), 1024))
    for block in prange((people + per_block - 1) // per_block):
        own_sums = sums[get_thread_id()]
        users, out = np.empty(TOGETHER, np.int64), np.empty((TOGETHER, c.reports), np.uint32)
        scratch = new_scratch(c, m, longest)
        end = min(people, (block + 1) * per_block)
        for start in range(block * per_block, end, TOGETHER):
            some = min(TOGETHER, end - start)
            for u in range(some):
                users[u] = start + u
            said = out[:some]
            starts, vectors = indptr[start : start + some + 1], X[start : start + some]
            fill_reports(users[:some], starts, indices, vectors, c, m, scratch, said)
            for report in said.flat:
                sign = np.int32(2) * np.int32(report & 1) - np.int32(1)
                own_sums[report >> np.uint32(1)] += sign


report_all = njit(parallel=True, cache=True, error_model="numpy")(_report_all)
report_all_uncached = njit(parallel=True, error_model="numpy")(_report_all)
drop_stale(report_all)
