"""Opening sealed reports: the only work of a server that costs, so it has a seam of its own.

Opening is bound by X25519 and holds the interpreter's lock: it needs processes, not threads.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED, Opened, open_reports
from sottovoce.workers import begin_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECES = 4
"""A chunk is split into so many for each process: none waits long for the slowest."""
LEAST = 64
"""Reports in a piece: fewer are not worth the way to another process."""


class Opener(Protocol):
    """Opens chunks, from many threads at once."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> Opened:
        """As `protocol.open_reports`; `UnavailableError` if it cannot now."""


class InProcess:
    """Here and now: for small servers and tests."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> Opened:
        return open_reports(sealed, private_key, manifest_hash, n_directions)


class Pool:
    """Worker processes. One that dies costs one `UnavailableError`, never a wrong count."""

    def __init__(self, processes: int = 0):
        self.processes = processes or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._workers: ProcessPoolExecutor | None = None
        self._closed = False

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> Opened:
        workers = self._running()
        try:
            futures = [
                workers.submit(open_reports, piece, private_key, manifest_hash, n_directions)
                for piece in _pieces(sealed, self.processes)
            ]
            return _joined([future.result() for future in futures])
        except (BrokenExecutor, CancelledError) as error:
            self._drop(workers)
            raise UnavailableError("a process that opens reports ended: send it again") from error

    def close(self) -> None:
        """End the workers, when what they have begun is done."""
        with self._lock:
            self._closed, workers, self._workers = True, self._workers, None
        if workers is not None:
            workers.shutdown()

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._closed:
                raise UnavailableError("the server is stopping")
            if self._workers is None:
                # Forking a process that has threads can lock it up for ever; spawning cannot.
                self._workers = ProcessPoolExecutor(
                    self.processes, get_context("spawn"), initializer=begin_worker
                )
            return self._workers

    def _drop(self, broken: ProcessPoolExecutor) -> None:
        """The next chunk starts new ones."""
        with self._lock:
            if self._workers is broken:
                self._workers = None
        broken.shutdown(wait=False, cancel_futures=True)


def _pieces(sealed: bytes, processes: int) -> Iterator[bytes]:
    reports = len(sealed) // SEALED
    each = max(-(-reports // (PIECES * processes)), LEAST) * SEALED
    for at in range(0, max(len(sealed), 1), each):  # nothing is a piece too
        yield sealed[at : at + each]


def _joined(pieces: list[Opened]) -> Opened:
    return Opened(
        np.concatenate([piece.reports for piece in pieces]),
        np.concatenate([piece.keys for piece in pieces]),
        sum(piece.undecodable for piece in pieces),
    )
