"""Counting of reports. Each report counts once, even if it is sent twice or by two proxies.

A repeated chunk is recognised by its name, and a repeated report by its key: the first eight bytes
of the encapsulated key. This includes reports that cannot be opened, because otherwise each copy of
garbage would take as long as a report. A worker remembers the keys of the chunks that it knows, and
reads only those of other chunks from the database. It counts a chunk while it holds the lock of the
epoch, so that no other worker adds keys meanwhile.
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
    """A set of keys that only grows, stored as sorted arrays (runs).

    Each run is at least twice as long as the next. `add` merges runs now and then, and `contains`
    does a binary search in each of a few runs. Both take much less time than opening reports.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Add keys."""
        self._runs.append(np.sort(keys))
        # Merging only runs of similar lengths copies each key a logarithmic number of times.
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")
            self._runs.append(merged)

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each key whether it is in the set."""
        is_member = np.zeros(len(keys), bool)
        for run in self._runs:
            if len(run):
                # For a key larger than all others, `searchsorted` returns the length of the run.
                places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
                is_member |= run[places] == keys
        return is_member


class Counter:
    """Adds opened chunks to the counts of an epoch. Each worker has one counter."""

    def __init__(self, store: ServerStore):
        self._store = store
        self._lock = threading.Lock()
        self._epoch = 0
        """Epoch of the chunks below."""
        self._n_chunks = 0
        """Number of counted chunks that this worker knows."""
        self._chunk_names: set[str] = set()
        self._counted_keys = KeySet()

    def select_unseen(self, chunk: Chunk) -> bytes:
        """Return the sealed reports of a chunk that have not been counted, each of them once.

        Only these need to be opened. Reports that another worker counts before `count` is called
        are dropped there.
        """
        keys = read_key_prefixes(chunk.sealed)
        with self._lock:
            with self._store.read() as transaction:
                self._catch_up(transaction, chunk.epoch)
            places = self._find_new(keys)
        if len(places) == len(keys):
            return chunk.sealed
        rows = np.frombuffer(chunk.sealed, np.uint8).reshape(-1, SEALED_BYTES)
        # `places` is in the order of the keys, and the reports stay in the order of the chunk.
        return rows[np.sort(places)].tobytes()

    def count(
        self, proxy: str, chunk: Chunk, opened: OpenedReports, n_directions: int, now: float
    ) -> bool:
        """Count a chunk in one transaction.

        Args:
            proxy: The proxy that sent it.
            chunk: The chunk.
            opened: The reports that `select_unseen` returned, opened.
            n_directions: Number of directions of the epoch's mechanism.
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
                # A commit says how many reports a proxy has sent: further ones would contradict it.
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
                    # A new report that is not counted is one that could not be opened.
                    undecodable=len(new_keys) - len(valid),
                )
            # Remember the keys only after the transaction: if it fails, these reports must still
            # count when they are sent again.
            self._remember(chunk.name, new_keys)
            self._n_chunks += 1
        return True

    def record_repeat(self, proxy: str, chunk: Chunk) -> None:
        """Record that a proxy has handed in a chunk that was counted before."""
        with self._store.write() as transaction:
            check_closed(transaction.find_epoch(chunk.epoch, lock=True), chunk.epoch)
            _record_repeat(transaction, proxy, chunk)

    def _catch_up(self, transaction: Transaction, epoch: int) -> None:
        """Read the keys of chunks that other workers have counted."""
        if epoch != self._epoch:
            self._epoch, self._n_chunks = epoch, 0
            self._chunk_names, self._counted_keys = set(), KeySet()
        row = transaction.find_epoch(epoch)
        # If other workers have counted no chunk since, there is nothing to read.
        if row is None or row.chunks == self._n_chunks:
            return
        for name in transaction.list_chunk_names(epoch) - self._chunk_names:
            self._remember(name, transaction.get_chunk_keys(epoch, name))
        self._n_chunks = row.chunks

    def _remember(self, name: str, keys: NDArray[np.uint64]) -> None:
        self._chunk_names.add(name)
        self._counted_keys.add(keys)

    def _find_new(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the index of the first occurrence of each key that has not been counted."""
        _, places = np.unique(keys, return_index=True)
        return places[~self._counted_keys.contains(keys[places])]


def _record_repeat(transaction: Transaction, proxy: str, chunk: Chunk) -> None:
    # A chunk that another proxy handed in first does not count again. It is still recorded as a
    # chunk of this proxy, under another name, because the proxy includes it in the number of chunks
    # that its commit states. Without the record, the commit would never agree with the database.
    if transaction.find_sender(chunk.epoch, chunk.name) == proxy:
        return
    name = f"{chunk.name} {proxy}"
    if not (
        transaction.has_chunk(chunk.epoch, name) or transaction.find_commit(chunk.epoch, proxy)
    ):
        no_keys = np.empty(0, np.uint64)
        transaction.add_chunk(chunk.epoch, name, proxy, chunk.reports, no_keys)
