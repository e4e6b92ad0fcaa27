"""Cells that no engine computes, in processes beside the one that has the engine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Self

from sottovoce.data import Interactions
from sottovoce_lab.paper.cells import Cell, Method, Size
from sottovoce_lab.paper.methods import CellContext, run_cell
from sottovoce_lab.paper.sharing import Shared

Done = tuple[Cell, dict[str, Any], float]
"""A cell, its result and the seconds that it took."""

METHODS: tuple[Method, ...] = (
    "popularity", "private-popularity", "named-counts", "fcf", "dplcf", "dp-als", "liars",
    "attacker",
)  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables that libraries read when they are loaded."""


class Aside:
    """So many processes, each with its share of the cores; close it, or use it in a `with`."""

    def __init__(self, data: Interactions, cells: Iterable[Cell], jobs: int):
        threads = max((os.cpu_count() or 1) // jobs, 1)
        self._pool = ProcessPoolExecutor(
            jobs, get_context("spawn"), _begin, (Subsets(data), threads)
        )
        with _environment(dict.fromkeys(THREADS, str(threads))):
            self._running: dict[Future[tuple[dict[str, Any], float]], Cell] = {
                self._pool.submit(_compute, cell): cell for cell in cells
            }

    def done(self, *, wait: bool = False) -> Iterator[Done]:
        """Those that are ready and were not told of before, or all; then what failed first."""
        failed: BaseException | None = None
        for future, cell in list(self._running.items()):
            if not (wait or future.done()):
                continue
            del self._running[future]
            error = future.exception()
            if error is None:
                yield cell, *future.result()
            failed = failed or error
        if failed is not None:
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What is in hand is finished, what waits is not begun."""
        self._pool.shutdown(cancel_futures=True)


class Subsets:
    """Parts of a data set; the last one is kept."""

    def __init__(self, data: Interactions):
        self._data = data
        self._last: tuple[tuple[Size, int], Interactions] | None = None

    def of(self, cell: Cell) -> Interactions:
        if cell.size.users is None and cell.size.items is None:
            return self._data
        which = cell.size, cell.draw
        if self._last is None or self._last[0] != which:
            users, items = cell.size.users, cell.size.items
            self._last = which, self._data.subset(users=users, items=items, seed=cell.draw)
        return self._last[1]


_mine: list[tuple[Subsets, int, Shared]] = []
"""What a process was given when it began."""


def _begin(subsets: Subsets, threads: int) -> None:
    _mine.append((subsets, threads, Shared()))


def _compute(cell: Cell) -> tuple[dict[str, Any], float]:
    subsets, threads, shared = _mine[0]
    began = time.perf_counter()
    result = run_cell(cell, CellContext(subsets.of(cell), threads, shared=shared))
    return result, time.perf_counter() - began


@contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """For the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
