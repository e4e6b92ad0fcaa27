"""What must be true of the sums at the end, computed from what the senders know.

Every report of a test has a direction of its own, so a sum is 0 or one sign. A report that was lost
shows as a 0, one that was counted twice as a 2, and one from nowhere as a sign that nobody sent.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray


class SentBatches:
    """Remembers batches by their bytes, for each proxy."""

    def __init__(self, least: int):
        self._least = least
        self._directions: dict[bytes, frozenset[int]] = {}
        self._tried: dict[tuple[int, str], set[bytes]] = defaultdict(set)
        self._acknowledged: dict[tuple[int, str], set[bytes]] = defaultdict(set)

    def add(self, batch: bytes, directions: Iterable[int]) -> None:
        """Add a sealed batch, which is not sent yet. One that cannot open has no directions."""
        self._directions[batch] = frozenset(directions)

    def __contains__(self, batch: bytes) -> bool:
        return batch in self._directions

    def note_attempt(self, proxy: str, batch: bytes) -> None:
        """Note that it may have reached the proxy."""
        self._tried[get_epoch(batch), proxy].add(batch)

    def note_acknowledgement(self, proxy: str, batch: bytes) -> None:
        """Note that the proxy acknowledged it."""
        self._acknowledged[get_epoch(batch), proxy].add(batch)

    def count_acknowledged(self) -> int:
        """Return the number of acknowledged batches, over all proxies and epochs."""
        return sum(map(len, self._acknowledged.values()))

    def has_any(self, epoch: int) -> bool:
        """Return whether anybody has tried to report in it."""
        return any(tried for (number, _), tried in self._tried.items() if number == epoch)

    def check(
        self, epoch: int, sums: NDArray[np.int64], proxies: Collection[str], late: Collection[str]
    ) -> None:
        """Check the sums of an epoch; reports of `late` proxies may be lost."""
        twice = np.flatnonzero(np.abs(sums) > 1)
        assert not len(twice), f"epoch {epoch}: counted twice: directions {twice.tolist()}"
        counted = set(np.flatnonzero(sums).tolist())
        crowds = [self._select_valid(self._tried[epoch, proxy]) for proxy in proxies]
        allowed = [self._join_directions(crowd) for crowd in crowds if len(crowd) >= self._least]
        extra = counted.difference(*allowed)
        assert not extra, f"epoch {epoch}: from nowhere or from too few: directions {sorted(extra)}"
        for proxy in set(proxies) - set(late):
            self._check_proxy(epoch, proxy, proxies, counted)

    def check_number(self, epoch: int, reports: int, proxies: Collection[str]) -> None:
        """Check a count in which dummies hide reports: all of a proxy's crowd, or none of it."""
        sure, possible = (
            [self._select_valid(batches_sent[epoch, proxy]) for proxy in proxies]
            for batches_sent in (self._acknowledged, self._tried)
        )
        least, most = (
            sum(len(self._join_directions(crowd)) for crowd in crowds if len(crowd) >= self._least)
            for crowds in (sure, possible)
        )
        assert least <= reports <= most, f"epoch {epoch}: {reports}, not from {least} to {most}"

    def _check_proxy(
        self, epoch: int, proxy: str, proxies: Collection[str], counted: set[int]
    ) -> None:
        """Check that all acknowledged reports count, or none, because the crowd was too small.

        What came through another proxy as well counts there, and may be too little there.
        """
        tried, acknowledged = self._tried[epoch, proxy], self._acknowledged[epoch, proxy]
        others = set().union(*(self._tried[epoch, other] for other in proxies if other != proxy))
        own = self._select_valid(acknowledged - others)
        forwarded = len(own) >= self._least or counted & self._join_directions(tried - others)
        lost = self._join_directions(own) - counted if forwarded else set()
        assert not lost, f"epoch {epoch}: {proxy} lost what it acknowledged: {sorted(lost)}"
        for batch in tried:
            arrived = self._directions[batch] & counted
            assert arrived in (set(), self._directions[batch]), f"epoch {epoch}: half a batch"

    def _select_valid(self, batches: Collection[bytes]) -> set[bytes]:
        """Return the batches whose reports open: only they make a crowd."""
        return {batch for batch in batches if self._directions[batch]}

    def _join_directions(self, batches: Collection[bytes]) -> set[int]:
        return set().union(*(self._directions[batch] for batch in batches))


def get_epoch(batch: bytes) -> int:
    """Return the epoch in its header."""
    return int.from_bytes(batch[4:8], "little")
