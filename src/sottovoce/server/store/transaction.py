"""What the server asks of its database, one short statement each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from sqlalchemy import func, select

from sottovoce.server.store.chosen import ChosenTables
from sottovoce.server.store.schema import (
    chunks,
    commits,
    counts,
    epoch_keys,
    epochs,
    one_at_a_time,
    sums,
    waiting,
)

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray
    from sqlalchemy import Select

State = Literal["open", "closed", "applied"]
OPEN: State = "open"
CLOSED: State = "closed"
APPLIED: State = "applied"

MOST = 2**32 - 1
"""What a count stops at: far beyond what honest people make of one report (`training.capping`)."""


@dataclass(frozen=True)
class Epoch:
    """A row of `epochs`."""

    epoch: int
    state: State
    manifest: bytes
    """Signed, as served."""
    hash: bytes
    model: bytes
    """SHA-256 of the model that this epoch's devices report on."""
    epochs_done: int
    """Epochs of its training with reports behind that model."""
    opens: int
    closes: int
    ends: int
    """`closes` and the hold of its terms: it is closed then, crowd or not."""
    closed_at: float | None = None
    """When it was really closed; None for a manifest that asks for no reports."""
    chunks: int = 0
    reports: int = 0
    """Distinct and valid so far; of an applied epoch those behind the next model."""
    duplicates: int = 0
    undecodable: int = 0
    crowdless: int = 0
    """Dropped when it was applied: those of proxies from which too few came."""
    capped: int = 0
    """Dropped when it was applied: more of one kind than honest people send."""
    training: int = 1
    """The training's number."""
    catalogue: bytes = b""
    """SHA-256 of its catalogue."""


class Transaction(ChosenTables):
    """One transaction; locks are held to its end."""

    def one_at_a_time(self) -> None:
        """No other worker passes here until this transaction ends."""
        one_at_a_time(self._connection)

    def epoch(self, number: int, *, lock: bool = False) -> Epoch | None:
        """The epoch of that number. Locked, nobody else counts in it."""
        return self._epoch(select(epochs).where(epochs.c.epoch == number), lock=lock)

    def latest(self, *, lock: bool = False) -> Epoch | None:
        return self._epoch(select(epochs).order_by(epochs.c.epoch.desc()).limit(1), lock=lock)

    def last_applied(self) -> Epoch | None:
        """The newest epoch whose reports are in a model."""
        over = (epochs.c.state == APPLIED) & epochs.c.closed_at.is_not(None)
        return self._epoch(select(epochs).where(over).order_by(epochs.c.epoch.desc()).limit(1))

    def all_epochs(self) -> list[Epoch]:
        """Oldest first."""
        rows = self._connection.execute(select(epochs).order_by(epochs.c.epoch))
        return [Epoch(*row) for row in rows]

    def first_and_last(self, training: int) -> list[Epoch]:
        """Of one training; nothing if it has not begun."""
        query = select(epochs).where(epochs.c.training == training)
        found = [
            self._epoch(query.order_by(order).limit(1))
            for order in (epochs.c.epoch, epochs.c.epoch.desc())
        ]
        return [epoch for epoch in found if epoch is not None]

    def _epoch(self, query: Select[*tuple[Any, ...]], *, lock: bool = False) -> Epoch | None:
        row = self._connection.execute(query.with_for_update() if lock else query).one_or_none()
        return None if row is None else Epoch(*row)

    def add_epoch(self, epoch: Epoch, wrapped: bytes | None) -> None:
        """Publish: from here on it is the latest. Without a key it asks for no reports."""
        self._connection.execute(epochs.insert().values(**asdict(epoch)))
        if wrapped is not None:
            row = {"epoch": epoch.epoch, "wrapped": wrapped}
            self._connection.execute(epoch_keys.insert().values(**row))

    def close(self, epoch: int, now: float) -> None:
        """No more reports are taken by proxies."""
        changes = epochs.update().where(epochs.c.epoch == epoch)
        self._connection.execute(changes.values(state=CLOSED, closed_at=now))

    def apply(self, epoch: int, *, reports: int, crowdless: int, capped: int) -> None:
        """Only the sums stay: the key, what came from whom and what waited are forgotten."""
        found = {"reports": reports, "crowdless": crowdless, "capped": capped}
        self._connection.execute(
            epochs.update().where(epochs.c.epoch == epoch).values(state=APPLIED, **found)
        )
        for table in (epoch_keys, chunks, counts, waiting):
            self._connection.execute(table.delete().where(table.c.epoch == epoch))

    def wrapped_key(self, epoch: int) -> bytes | None:
        """None when it is destroyed."""
        query = select(epoch_keys.c.wrapped).where(epoch_keys.c.epoch == epoch)
        return self._connection.scalar(query)

    def counts(self, epoch: int) -> dict[str, NDArray[np.int64]]:
        """How often each report came so far, by proxy; nothing once the epoch is applied."""
        query = select(counts.c.proxy, counts.c.counts).where(counts.c.epoch == epoch)
        return {proxy: _counts(content) for proxy, content in self._connection.execute(query)}

    def add_counts(self, epoch: int, proxy: str, more: NDArray[np.int64], now: float) -> None:
        """To those of this proxy; the epoch must be locked."""
        same = (counts.c.epoch == epoch) & (counts.c.proxy == proxy)
        before = self._connection.scalar(select(counts.c.counts).where(same))
        total = more if before is None else _counts(before) + more
        content = np.minimum(total, MOST).astype("<u4").tobytes()
        found = {"counts": content, "counted_at": now}
        if before is None:
            self._connection.execute(counts.insert().values(epoch=epoch, proxy=proxy, **found))
        else:
            self._connection.execute(counts.update().where(same).values(**found))

    def last_counted(self, epoch: int) -> dict[str, float]:
        """When the last chunk was counted of each proxy of which there is one."""
        query = select(counts.c.proxy, counts.c.counted_at).where(counts.c.epoch == epoch)
        return {row.proxy: row.counted_at for row in self._connection.execute(query)}

    def sums(self, epoch: int) -> NDArray[np.int64]:
        """Of an applied epoch; empty if it counted nothing."""
        found = self._connection.scalar(select(sums.c.sums).where(sums.c.epoch == epoch))
        return np.frombuffer(found or b"", dtype="<i8").astype(np.int64)

    def add_sums(self, epoch: int, values: NDArray[np.int64]) -> None:
        """For good."""
        content = values.astype("<i8").tobytes()
        self._connection.execute(sums.insert().values(epoch=epoch, sums=content))

    def has_chunk(self, epoch: int, name: str) -> bool:
        query = select(chunks.c.name).where(chunks.c.epoch == epoch, chunks.c.name == name)
        return self._connection.scalar(query) is not None

    def sender_of(self, epoch: int, name: str) -> str | None:
        """The proxy that handed it in first."""
        query = select(chunks.c.proxy).where(chunks.c.epoch == epoch, chunks.c.name == name)
        return self._connection.scalar(query)

    def chunk_names(self, epoch: int) -> set[str]:
        return set(self._connection.scalars(select(chunks.c.name).where(chunks.c.epoch == epoch)))

    def chunk_keys(self, epoch: int, name: str) -> NDArray[np.uint64]:
        """The key prefixes that were counted with it."""
        query = select(chunks.c.prefixes).where(chunks.c.epoch == epoch, chunks.c.name == name)
        return np.frombuffer(self._connection.scalar(query) or b"", dtype="<u8").astype(np.uint64)

    def add_chunk(
        self, epoch: int, name: str, proxy: str, reports: int, keys: NDArray[np.uint64]
    ) -> None:
        content = keys.astype("<u8").tobytes()
        self._connection.execute(
            chunks.insert().values(
                epoch=epoch, name=name, proxy=proxy, reports=reports, prefixes=content
            )
        )

    def count(self, epoch: int, *, reports: int, duplicates: int, undecodable: int) -> None:
        """One more chunk with so many of each."""
        self._connection.execute(
            epochs.update()
            .where(epochs.c.epoch == epoch)
            .values(
                chunks=epochs.c.chunks + 1,
                reports=epochs.c.reports + reports,
                duplicates=epochs.c.duplicates + duplicates,
                undecodable=epochs.c.undecodable + undecodable,
            )
        )

    def received(self, epoch: int, proxy: str) -> tuple[int, int]:
        """Chunks of this proxy, and the reports that were in them."""
        query = select(func.count(), func.coalesce(func.sum(chunks.c.reports), 0)).where(
            chunks.c.epoch == epoch, chunks.c.proxy == proxy
        )
        number, reports = self._connection.execute(query).one()
        return int(number), int(reports)

    def commit_of(self, epoch: int, proxy: str) -> tuple[int, int] | None:
        """What the proxy said was all, if it has."""
        query = select(commits.c.chunks, commits.c.reports).where(
            commits.c.epoch == epoch, commits.c.proxy == proxy
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else (int(row[0]), int(row[1]))

    def add_commit(self, epoch: int, proxy: str, chunks: int, reports: int) -> None:
        row = {"epoch": epoch, "proxy": proxy, "chunks": chunks, "reports": reports}
        self._connection.execute(commits.insert().values(**row))

    def committed(self, epoch: int) -> set[str]:
        """The proxies that have handed in all that they had."""
        query = select(commits.c.proxy).where(commits.c.epoch == epoch)
        return set(self._connection.scalars(query))

    def set_crowd(self, epoch: int, proxy: str, crowd: str) -> None:
        same = (waiting.c.epoch == epoch) & (waiting.c.proxy == proxy)
        self._connection.execute(waiting.delete().where(same))
        row = {"epoch": epoch, "proxy": proxy, "crowd": crowd}
        self._connection.execute(waiting.insert().values(**row))

    def crowds(self, epoch: int) -> dict[str, str]:
        """What each proxy said last that has said something."""
        query = select(waiting.c.proxy, waiting.c.crowd).where(waiting.c.epoch == epoch)
        return {row.proxy: row.crowd for row in self._connection.execute(query)}


def _counts(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content, dtype="<u4").astype(np.int64)
