"""Counting: each report once, even if it is sent twice or by two proxies.

A chunk is known by its name, a report by the first eight bytes of its encapsulated key. That holds
for reports that do not open too: otherwise each copy of garbage would cost as much as a report. A
worker remembers the keys of the chunks that it has seen, and asks the database only for others. It
counts while it holds the epoch's lock, so what it compares with is complete.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import count_reports
from sottovoce.protocol import SEALED_BYTES, Chunk, OpenedReports, read_key_prefixes
from sottovoce.server.epochs import check_closed, check_not_committed
from sottovoce.server.store import ServerStore
from sottovoce.server.transaction import Transaction


class KeySet:
    """A set of keys that only grows: sorted runs, each at least twice as long as the next.

    Adding costs a merge now and then, and looking up a binary search in a few runs. That is
    negligible compared with opening a report.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Add keys."""
        self._runs.append(np.sort(keys))
        # Like the digits of a number: each key is merged a logarithmic number of times.
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")
            self._runs.append(merged)

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each key whether it is in the set."""
        is_member = np.zeros(len(keys), bool)
        for run in self._runs:
            if len(run):
                # A key beyond the last one would be searched outside of the run.
                places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
                is_member |= run[places] == keys
        return is_member


class Counter:
    """Adds opened chunks to the counts of an epoch. Each worker has one."""

    def __init__(self, store: ServerStore):
        self._store = store
        self._lock = threading.Lock()
        self._epoch = 0
        self._n_chunks = 0
        """Chunks of the epoch that this worker knows."""
        self._chunk_names: set[str] = set()
        self._counted_keys = KeySet()

    def select_unseen(self, chunk: Chunk) -> bytes:
        """Return a chunk's reports without repeats and without those that are counted already.

        Only these need to be opened. What another worker counts meanwhile is dropped by `count`.
        """
        keys = read_key_prefixes(chunk.sealed)
        with self._lock:
            with self._store.read() as transaction:
                self._catch_up(transaction, chunk.epoch)
            places = self._find_new(keys)
        if len(places) == len(keys):
            return chunk.sealed
        rows = np.frombuffer(chunk.sealed, np.uint8).reshape(-1, SEALED_BYTES)
        # In the order of the chunk: `np.unique` returned them in that of the keys.
        return rows[np.sort(places)].tobytes()

    def count(
        self, proxy: str, chunk: Chunk, opened: OpenedReports, n_directions: int, now: float
    ) -> bool:
        """Count a chunk in one transaction.

        Args:
            proxy: The proxy that sent it.
            chunk: The chunk.
            opened: The opened reports of `select_unseen`.
            n_directions: Directions of the epoch's mechanism.
            now: Unix seconds.

        Returns:
            False if the chunk was counted before.
        """
        keys = read_key_prefixes(chunk.sealed)
        with self._lock:
            with self._store.write() as transaction:
                check_closed(transaction.find_epoch(chunk.epoch, lock=True), chunk.epoch)
                if transaction.has_chunk(chunk.epoch, chunk.name):
                    _record_repeat(transaction, proxy, chunk)
                    return False
                # A commit says how much a proxy sent: more would contradict it.
                check_not_committed(transaction, chunk.epoch, proxy)
                self._catch_up(transaction, chunk.epoch)
                valid = opened.reports[self._find_new(opened.keys)]
                transaction.add_counts(chunk.epoch, proxy, count_reports(valid, n_directions), now)
                new_keys = keys[self._find_new(keys)]
                transaction.add_chunk(chunk.epoch, chunk.name, proxy, chunk.reports, new_keys)
                transaction.add_to_totals(
                    chunk.epoch,
                    reports=len(valid),
                    duplicates=len(keys) - len(new_keys),
                    # What is new and was not counted did not open.
                    undecodable=len(new_keys) - len(valid),
                )
            # Only what is committed is remembered: after a failure the same reports must count.
            self._remember(chunk.name, new_keys)
            self._n_chunks += 1
        return True

    def record_repeat(self, proxy: str, chunk: Chunk) -> None:
        """Record that a proxy has handed in a chunk that was counted before."""
        with self._store.write() as transaction:
            check_closed(transaction.find_epoch(chunk.epoch, lock=True), chunk.epoch)
            _record_repeat(transaction, proxy, chunk)

    def _catch_up(self, transaction: Transaction, epoch: int) -> None:
        """Learn the keys of all chunks that any process has counted."""
        if epoch != self._epoch:
            self._epoch, self._n_chunks = epoch, 0
            self._chunk_names, self._counted_keys = set(), KeySet()
        row = transaction.find_epoch(epoch)
        # If nobody else counted any, the names of all chunks are not needed.
        if row is None or row.chunks == self._n_chunks:
            return
        for name in transaction.list_chunk_names(epoch) - self._chunk_names:
            self._remember(name, transaction.get_chunk_keys(epoch, name))
        self._n_chunks = row.chunks

    def _remember(self, name: str, keys: NDArray[np.uint64]) -> None:
        self._chunk_names.add(name)
        self._counted_keys.add(keys)

    def _find_new(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the first place of each key that was never counted."""
        _, places = np.unique(keys, return_index=True)
        return places[~self._counted_keys.contains(keys[places])]


def _record_repeat(transaction: Transaction, proxy: str, chunk: Chunk) -> None:
    # A chunk that another proxy handed in first does not count again, but this proxy did hand it
    # in. Otherwise its commit would name one chunk more than we know of, for ever.
    if transaction.find_sender(chunk.epoch, chunk.name) == proxy:
        return
    name = f"{chunk.name} {proxy}"
    if not (
        transaction.has_chunk(chunk.epoch, name) or transaction.find_commit(chunk.epoch, proxy)
    ):
        no_keys = np.empty(0, np.uint64)
        transaction.add_chunk(chunk.epoch, name, proxy, chunk.reports, no_keys)
