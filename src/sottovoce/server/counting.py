"""Counting: each report once, whatever is sent twice and by whom; by proxy, whose crowd it is.

A chunk is known by its name, a report by the first eight bytes of its encapsulated key: also one
that does not open, or copies of garbage would each cost as much as a report. Every worker remembers
the keys of the chunks that it has seen and asks the database only for others; it counts while it
holds the epoch's lock, so what it compares with is complete.
"""

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import count_reports
from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED_BYTES, Chunk, OpenedReports, open_reports, read_key_prefixes
from sottovoce.server.epochs import check_closed, check_not_committed
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import Transaction
from sottovoce.service.workers import set_up_worker

log = logging.getLogger("sottovoce")


class KeySet:
    """A set of keys that only grows: sorted runs, each at least twice as long as the next.

    Adding costs a merge now and then, looking up a binary search in a few runs: next to nothing
    compared with opening a report.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> None:
        self._runs.append(np.sort(keys))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")
            self._runs.append(merged)

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found = np.zeros(len(keys), bool)
        for run in self._runs:
            if len(run):
                at = np.minimum(np.searchsorted(run, keys), len(run) - 1)
                found |= run[at] == keys
        return found


class Counter:
    """Adds opened chunks to the counts of an epoch. One for each worker."""

    def __init__(self, store: ServerStore):
        self._store = store
        self._lock = threading.Lock()
        self._epoch = 0
        self._counted = 0
        """Chunks of the epoch, as far as they are known here."""
        self._chunks: set[str] = set()
        self._seen = KeySet()

    def select_unseen(self, chunk: Chunk) -> bytes:
        """Its reports without repeats, in it or of what is counted: only these need to be opened.

        What another worker counts at the same time is dropped by `count`.
        """
        keys = read_key_prefixes(chunk.sealed)
        with self._lock:
            with self._store.read() as transaction:
                self._catch_up(transaction, chunk.epoch)
            first = self._new(keys)
        if len(first) == len(keys):
            return chunk.sealed
        rows = np.frombuffer(chunk.sealed, np.uint8).reshape(-1, SEALED_BYTES)
        return rows[np.sort(first)].tobytes()

    def count(
        self, proxy: str, chunk: Chunk, opened: OpenedReports, n_directions: int, now: float
    ) -> bool:
        """In one transaction; False if the chunk was counted before. `opened` is of `unseen`."""
        keys = read_key_prefixes(chunk.sealed)
        with self._lock:
            with self._store.write() as transaction:
                check_closed(transaction.find_epoch(chunk.epoch, lock=True), chunk.epoch)
                if transaction.has_chunk(chunk.epoch, chunk.name):
                    _note(transaction, proxy, chunk)
                    return False
                check_not_committed(transaction, chunk.epoch, proxy)
                self._catch_up(transaction, chunk.epoch)
                valid = opened.reports[self._new(opened.keys)]
                found = count_reports(valid, n_directions)
                transaction.add_counts(chunk.epoch, proxy, found, now)
                new = keys[self._new(keys)]
                transaction.add_chunk(chunk.epoch, chunk.name, proxy, chunk.reports, new)
                transaction.add_to_totals(
                    chunk.epoch,
                    reports=len(valid),
                    duplicates=len(keys) - len(new),
                    undecodable=len(new) - len(valid),
                )
            # Only what is committed is remembered: after a failure the same reports must count.
            self._remember(chunk.name, new)
            self._counted += 1
        return True

    def record_repeat(self, proxy: str, chunk: Chunk) -> None:
        """A chunk that was counted before has come again."""
        with self._store.write() as transaction:
            check_closed(transaction.find_epoch(chunk.epoch, lock=True), chunk.epoch)
            _note(transaction, proxy, chunk)

    def _catch_up(self, transaction: Transaction, epoch: int) -> None:
        """Know the keys of all chunks that are counted, by any process."""
        if epoch != self._epoch:
            self._epoch, self._counted, self._chunks, self._seen = epoch, 0, set(), KeySet()
        row = transaction.find_epoch(epoch)
        if row is None or row.chunks == self._counted:
            return  # nobody else counted any: names of all are not asked for with every chunk
        for name in transaction.list_chunk_names(epoch) - self._chunks:
            self._remember(name, transaction.get_chunk_keys(epoch, name))
        self._counted = row.chunks

    def _remember(self, name: str, keys: NDArray[np.uint64]) -> None:
        self._chunks.add(name)
        self._seen.add(keys)

    def _new(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Where the first of each key stands that was never counted."""
        _, first = np.unique(keys, return_index=True)
        return first[~self._seen.contains(keys[first])]


def _note(transaction: Transaction, proxy: str, chunk: Chunk) -> None:
    """One that another proxy handed in first counts no more, but this one did hand it in.

    Otherwise its commit would name a chunk more than it is known for, for ever.
    """
    if transaction.find_sender(chunk.epoch, chunk.name) == proxy:
        return
    again = f"{chunk.name} {proxy}"
    if not (
        transaction.has_chunk(chunk.epoch, again) or transaction.find_commit(chunk.epoch, proxy)
    ):
        no_keys = np.empty(0, np.uint64)
        transaction.add_chunk(chunk.epoch, again, proxy, chunk.reports, no_keys)


# Opening sealed reports: the only work of a server that costs, so it has a seam of its own.
#
# Opening is bound by X25519 and holds the interpreter's lock: it needs processes, not threads.

PIECES = 4
"""A chunk is split into so many for each process: none waits long for the slowest."""
LEAST = 64
"""Reports in a piece: fewer are not worth the way to another process."""


class Opener(Protocol):
    """Opens chunks, from many threads at once."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        """As `protocol.open_reports`; `UnavailableError` if it cannot now."""


class InProcessOpener:
    """Here and now: for small servers and tests."""

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        return open_reports(sealed, private_key, manifest_hash, n_directions)


class OpenerPool:
    """Worker processes. One that dies costs one `UnavailableError`, never a wrong count."""

    def __init__(self, processes: int = 0):
        self.processes = processes or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._workers: ProcessPoolExecutor | None = None
        self._closed = False

    def open(
        self, sealed: bytes, private_key: bytes, manifest_hash: bytes, n_directions: int
    ) -> OpenedReports:
        workers = self._running()
        try:
            futures = [
                workers.submit(open_reports, piece, private_key, manifest_hash, n_directions)
                for piece in _pieces(sealed, self.processes)
            ]
            return _joined([future.result() for future in futures])
        except (BrokenExecutor, CancelledError) as error:
            self._drop(workers)
            log.warning("a process that opens reports ended; its chunk is sent again")
            raise UnavailableError("a process that opens reports ended: send it again") from error

    def close(self) -> None:
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
                    self.processes, get_context("spawn"), initializer=set_up_worker
                )
            return self._workers

    def _drop(self, broken: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._workers is broken:
                self._workers = None
        broken.shutdown(wait=False, cancel_futures=True)


def _pieces(sealed: bytes, processes: int) -> Iterator[bytes]:
    reports = len(sealed) // SEALED_BYTES
    each = max(-(-reports // (PIECES * processes)), LEAST) * SEALED_BYTES
    for at in range(0, max(len(sealed), 1), each):  # nothing is a piece too
        yield sealed[at : at + each]


def _joined(pieces: list[OpenedReports]) -> OpenedReports:
    return OpenedReports(
        np.concatenate([piece.reports for piece in pieces]),
        np.concatenate([piece.keys for piece in pieces]),
        sum(piece.undecodable for piece in pieces),
    )
