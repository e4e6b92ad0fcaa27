"""Opening of sealed reports, which is the only expensive work of a server.

Most of the time goes into X25519. It holds the lock of the Python interpreter, so the work is
divided among processes instead of threads.
"""

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol

import numpy as np

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED_BYTES, OpenedReports, open_reports
from sottovoce.service.workers import set_up_worker

log = logging.getLogger("sottovoce")

# Number of pieces of a chunk for each process. With several small pieces, no process waits for long
# until the slowest one is done.
PIECES_PER_PROCESS = 4
# Minimum number of reports in a piece. Fewer could be opened faster than sent to another process.
MIN_PIECE_REPORTS = 64


class Opener(Protocol):
    """Opens the reports of chunks. Many threads may call it at once."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        """Open reports as `protocol.open_reports` does.

        Raises:
            UnavailableError: The reports cannot be opened now.
        """


class InProcessOpener:
    """Opens reports in this process: for small servers and tests."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        """Open reports in the calling thread."""
        return open_reports(sealed, private_key, manifest_hash, n_directions)


class OpenerPool:
    """Opens reports in several processes.

    If a process dies, `open` raises an `UnavailableError` and no report of the chunk is counted.

    Args:
        processes: Number of processes; 0 for one per processor core.
    """

    def __init__(self, processes: int = 0):
        self.processes = processes or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._workers: ProcessPoolExecutor | None = None
        self._is_closed = False

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        """Open reports in all processes."""
        workers = self._get_workers()
        try:
            futures = [
                workers.submit(open_reports, piece, private_key, manifest_hash, n_directions)
                for piece in _split(sealed, self.processes)
            ]
            pieces = [future.result() for future in futures]
        except (BrokenExecutor, CancelledError) as error:
            with self._lock:
                if self._workers is workers:
                    self._workers = None
            workers.shutdown(wait=False, cancel_futures=True)
            log.warning("a process that opens reports ended; its chunk is sent again")
            raise UnavailableError("a process that opens reports ended: send it again") from error
        return OpenedReports(
            np.concatenate([piece.reports for piece in pieces]),
            np.concatenate([piece.keys for piece in pieces]),
            sum(piece.undecodable for piece in pieces),
        )

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._is_closed, workers, self._workers = True, self._workers, None
        if workers is not None:
            workers.shutdown()

    def _get_workers(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise UnavailableError("the server is stopping")
            if self._workers is None:
                # A forked copy of a process with threads can wait for a lock for ever.
                self._workers = ProcessPoolExecutor(
                    self.processes, get_context("spawn"), initializer=set_up_worker
                )
            return self._workers


def _split(sealed: bytes, processes: int) -> Iterator[bytes]:
    """Yield the pieces of a chunk; one piece if it is empty."""
    reports, n_pieces = len(sealed) // SEALED_BYTES, PIECES_PER_PROCESS * processes
    size = max(-(-reports // n_pieces), MIN_PIECE_REPORTS) * SEALED_BYTES
    for start in range(0, max(len(sealed), 1), size):
        yield sealed[start : start + size]
