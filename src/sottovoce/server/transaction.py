"""What the server asks of its database, one short statement each."""

from dataclasses import asdict, dataclass, replace
from json import dumps, loads
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, Table, func, select, union
from sqlalchemy.dialects import postgresql, sqlite

from sottovoce.errors import StoreError
from sottovoce.protocol import SignedShelf
from sottovoce.server.schema import (
    acquire_setup_lock,
    catalogues,
    chunks,
    commits,
    contacts,
    counts,
    epoch_keys,
    epochs,
    files,
    service,
    shelf,
    sums,
    trainings,
    waiting,
)
from sottovoce.server.training import Training

FileKind = Literal["model", "catalogue"]
State = Literal["open", "closed", "applied"]
OPEN: State = "open"
CLOSED: State = "closed"
APPLIED: State = "applied"

MOST = 2**32 - 1
"""A count stays here: far beyond the cap, to which counts are cut later (`training.counts`)."""


@dataclass(frozen=True)
class Service:
    name: str
    """The database's, drawn when it was created."""
    verification_key: bytes
    """Of the key that signed last."""
    newest_key: bytes
    """Of the key that was made last and signs next."""
    next_epoch: int


@dataclass(frozen=True)
class Epoch:
    """A row of `epochs`."""

    epoch: int
    state: State
    training: int
    """The training's number."""
    manifest: bytes
    """Signed, as served."""
    hash: bytes
    model: bytes
    """SHA-256 of the model that this epoch's devices report on."""
    catalogue: bytes
    """SHA-256 of its catalogue."""
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


PROCESS_TIMEOUT_SECONDS = 120.0
"""Seconds after which a process that says nothing has ended: it speaks once a minute at least."""


@dataclass(frozen=True)
class ProxyContact:
    """A row of `contacts`: what a proxy said last."""

    proxy: str
    epoch: int
    """That its clients are shown; 0 before the first."""
    last_contact: float
    """When."""
    clock_ahead: float
    """Seconds that its clock was ahead of ours."""
    refusal: str = ""
    """Why that epoch cannot be counted here."""
    processes: str = "{}"
    """JSON: when each process that speaks as this proxy was heard first and last."""
    token_key: bytes = b""
    """That it can make tokens with, for an epoch to come; empty: it makes none."""
    database: str = ""
    """The name of its database; empty: not known yet."""
    earlier_database: str = ""
    """The one before, if batches of the unfinished epoch may wait there; else empty."""

    def list_other_processes(self, process: str | None, now: float) -> list[str]:
        """Processes that speak besides this one, and did so before it: two machines, one secret.

        One that was heard no more since this one began has ended: that was a restart.
        """
        known: dict[str, list[float]] = loads(self.processes)
        began = known.get(process or "", [now, now])[0]
        return [
            name
            for name, (first, last) in known.items()
            if first < began < last and abs(now - last) <= PROCESS_TIMEOUT_SECONDS
        ]

    @property
    def has_twins(self) -> bool:
        known: dict[str, list[float]] = loads(self.processes)
        newest = max((last for _, last in known.values()), default=0.0)
        return any(self.list_other_processes(name, newest) for name in known)

    def with_process(self, process: str | None, last: Self, now: float) -> Self:
        """The same, and this process was heard now; None: somebody only asks."""
        known: dict[str, list[float]] = loads(last.processes)
        if process is None:
            return replace(
                self, processes=last.processes, last_contact=last.last_contact if known else now
            )
        first, _ = known.pop(process, (now, now))
        recent = {
            name: heard
            for name, heard in known.items()
            if abs(now - heard[1]) <= PROCESS_TIMEOUT_SECONDS
        }
        return replace(self, processes=dumps({**recent, process: [first, now]}))

    def with_database(self, name: str | None, last: Self, *, is_unfinished: bool) -> Self:
        """Return the same with the name of the proxy's database, or the last one if that is None.

        A database that is replaced while its epoch is unfinished is remembered, until it comes
        back or the epoch is applied.
        """
        database, earlier = name or last.database, last.earlier_database
        if is_unfinished and database != last.database:
            earlier = earlier or last.database
        if database == earlier:
            earlier = ""
        return replace(self, database=database, earlier_database=earlier)


class Transaction:
    """One transaction; locks are held to its end."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def acquire_setup_lock(self) -> None:
        acquire_setup_lock(self._connection)

    # What the operator chose: key, trainings, catalogues

    def get_service(self, *, lock: bool = False) -> Service:
        """While it is locked nobody else moves on or chooses."""
        found = self.find_service(lock=lock)
        if found is None:
            raise StoreError("the database is not set up: `sottovoce server init` does it")
        return found

    def find_service(self, *, lock: bool = False) -> Service | None:
        """None before it is set up."""
        columns = ("name", "verification_key", "newest_key", "next_epoch")
        row = self._row(select(*(service.c[name] for name in columns)), lock=lock)
        return None if row is None else Service(*row)

    def begin_service(self, name: str, verification_key: bytes) -> None:
        row = {"verification_key": verification_key, "newest_key": verification_key, "name": name}
        self._add(service, id=1, next_epoch=1, **row)

    def set_service(self, verification_key: bytes, next_epoch: int) -> None:
        row = {"verification_key": verification_key, "next_epoch": next_epoch}
        self._connection.execute(service.update().values(**row))

    def set_newest_key(self, verification_key: bytes) -> None:
        """The key that is to sign next; the service must be locked."""
        self._connection.execute(service.update().values(newest_key=verification_key))

    def find_training(self, number: int | None = None) -> Training | None:
        """The one of this number; without a number the newest, which is that of the next epoch."""
        query = select(trainings).order_by(trainings.c.number.desc()).limit(1)
        if number is not None:
            query = query.where(trainings.c.number == number)
        row = self._row(query)
        return None if row is None else Training.from_row(*row)

    def set_training(self, training: Training) -> None:
        self.drop_training(training.number)
        self._add(trainings, **training.as_row())

    def drop_training(self, number: int) -> None:
        self._connection.execute(trainings.delete().where(trainings.c.number == number))

    def find_catalogue(self) -> Any:
        """Version and sha256 of the newest, which is that of the next epoch; None before."""
        return self._row(select(catalogues).order_by(catalogues.c.version.desc()).limit(1))

    def set_catalogue(self, version: int, sha256: bytes, content: bytes) -> None:
        self._connection.execute(catalogues.delete().where(catalogues.c.version == version))
        self._add(catalogues, version=version, sha256=sha256)
        self.add_file(sha256, "catalogue", content)

    def find_shelf(self) -> Any:
        """The newest; None before the first."""
        return self._row(select(shelf))

    def set_shelf(self, signed: SignedShelf, most: int) -> None:
        """In the place of the one before; the service must be locked."""
        self._connection.execute(shelf.delete())
        said = signed.shelf
        row = {"published": said.published, "catalogue": said.catalogue, "most": most}
        self._add(shelf, id=1, signed=signed.encode(), **row)

    def find_file(self, sha256: bytes, kind: FileKind) -> bytes | None:
        query = select(files.c.content).where(files.c.sha256 == sha256, files.c.kind == kind)
        return self._connection.scalar(query)

    def add_file(self, sha256: bytes, kind: FileKind, content: bytes) -> None:
        """Does nothing if the file is there already."""
        if self.find_file(sha256, kind) is None:
            self._add(files, sha256=sha256, kind=kind, content=content)

    # Epochs

    def find_epoch(self, number: int, *, lock: bool = False) -> Epoch | None:
        """The epoch of that number. While it is locked nobody else counts in it."""
        return self._epoch(select(epochs).where(epochs.c.epoch == number), lock=lock)

    def find_latest_epoch(self, *, lock: bool = False) -> Epoch | None:
        return self._epoch(select(epochs).order_by(epochs.c.epoch.desc()).limit(1), lock=lock)

    def find_last_applied(self) -> Epoch | None:
        """The newest epoch whose reports are in a model."""
        over = (epochs.c.state == APPLIED) & epochs.c.closed_at.is_not(None)
        return self._epoch(select(epochs).where(over).order_by(epochs.c.epoch.desc()).limit(1))

    def list_epochs(self) -> list[Epoch]:
        """Oldest first."""
        rows = self._connection.execute(select(epochs).order_by(epochs.c.epoch))
        return [Epoch(*row) for row in rows]

    def list_first_and_last(self, training: int) -> list[Epoch]:
        """Epochs of one training; an empty list if it has not begun."""
        query = select(epochs).where(epochs.c.training == training)
        orders = epochs.c.epoch, epochs.c.epoch.desc()
        found = [self._epoch(query.order_by(order).limit(1)) for order in orders]
        return [epoch for epoch in found if epoch is not None]

    def add_epoch(self, epoch: Epoch, wrapped: bytes | None) -> None:
        """Publish: from here on it is the latest. Without a key it asks for no reports."""
        self._add(epochs, **asdict(epoch))
        if wrapped is not None:
            self._add(epoch_keys, epoch=epoch.epoch, wrapped=wrapped)

    def close_epoch(self, epoch: int, now: float) -> None:
        """Proxies take no more reports for it."""
        self._change_epoch(epoch, state=CLOSED, closed_at=now)

    def apply_epoch(self, epoch: int, *, reports: int, crowdless: int, capped: int) -> None:
        """Only the sums stay: the key, what came from which proxy and what waited are deleted.

        What waits in a proxy's earlier database is lost from here on.
        """
        found = {"reports": reports, "crowdless": crowdless, "capped": capped}
        self._change_epoch(epoch, state=APPLIED, **found)
        for table in (epoch_keys, chunks, counts, waiting):
            self._connection.execute(table.delete().where(table.c.epoch == epoch))
        self._connection.execute(contacts.update().values(earlier_database=""))

    def find_wrapped_key(self, epoch: int) -> bytes | None:
        """None when it is deleted."""
        query = select(epoch_keys.c.wrapped).where(epoch_keys.c.epoch == epoch)
        return self._connection.scalar(query)

    def delete_before(self, epoch: int) -> None:
        """Drop what only epochs before this one needed: their sums, models and catalogues."""
        self._connection.execute(sums.delete().where(sums.c.epoch < epoch))
        later = epochs.c.epoch >= epoch
        needed = union(select(epochs.c.model).where(later), select(epochs.c.catalogue).where(later))
        newest = self.find_catalogue()
        wanted = b"" if newest is None else newest.sha256  # by the next epoch
        unused = files.c.sha256.not_in(needed) & (files.c.sha256 != wanted)
        self._connection.execute(files.delete().where(unused))

    # Counts, chunks and commits of an epoch

    def get_counts(self, epoch: int) -> dict[str, NDArray[np.int64]]:
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
            self._add(counts, epoch=epoch, proxy=proxy, **found)
        else:
            self._connection.execute(counts.update().where(same).values(**found))

    def get_count_times(self, epoch: int) -> dict[str, float]:
        """When the last chunk of each proxy was counted; without proxies that sent none."""
        query = select(counts.c.proxy, counts.c.counted_at).where(counts.c.epoch == epoch)
        return {row.proxy: row.counted_at for row in self._connection.execute(query)}

    def get_sums(self, epoch: int) -> NDArray[np.int64]:
        """Of an applied epoch; empty if it counted nothing."""
        found = self._connection.scalar(select(sums.c.sums).where(sums.c.epoch == epoch))
        return np.frombuffer(found or b"", dtype="<i8").astype(np.int64)

    def add_sums(self, epoch: int, values: NDArray[np.int64]) -> None:
        self._add(sums, epoch=epoch, sums=values.astype("<i8").tobytes())

    def has_chunk(self, epoch: int, name: str) -> bool:
        return self.find_sender(epoch, name) is not None

    def find_sender(self, epoch: int, name: str) -> str | None:
        query = select(chunks.c.proxy).where(chunks.c.epoch == epoch, chunks.c.name == name)
        return self._connection.scalar(query)

    def list_chunk_names(self, epoch: int) -> set[str]:
        return set(self._connection.scalars(select(chunks.c.name).where(chunks.c.epoch == epoch)))

    def get_chunk_keys(self, epoch: int, name: str) -> NDArray[np.uint64]:
        query = select(chunks.c.prefixes).where(chunks.c.epoch == epoch, chunks.c.name == name)
        return np.frombuffer(self._connection.scalar(query) or b"", dtype="<u8").astype(np.uint64)

    def add_chunk(
        self, epoch: int, name: str, proxy: str, reports: int, keys: NDArray[np.uint64]
    ) -> None:
        content = keys.astype("<u8").tobytes()
        self._add(chunks, epoch=epoch, name=name, proxy=proxy, reports=reports, prefixes=content)

    def add_to_totals(self, epoch: int, *, reports: int, duplicates: int, undecodable: int) -> None:
        self._change_epoch(
            epoch,
            chunks=epochs.c.chunks + 1,
            reports=epochs.c.reports + reports,
            duplicates=epochs.c.duplicates + duplicates,
            undecodable=epochs.c.undecodable + undecodable,
        )

    def count_received(self, epoch: int, proxy: str) -> tuple[int, int]:
        """Chunks of this proxy, and the reports that were in them."""
        query = select(func.count(), func.coalesce(func.sum(chunks.c.reports), 0)).where(
            chunks.c.epoch == epoch, chunks.c.proxy == proxy
        )
        number, reports = self._connection.execute(query).one()
        return int(number), int(reports)

    def find_commit(self, epoch: int, proxy: str) -> tuple[int, int] | None:
        """Chunks and reports that were all, as the proxy said; None before."""
        same = (commits.c.epoch == epoch) & (commits.c.proxy == proxy)
        row = self._row(select(commits.c.chunks, commits.c.reports).where(same))
        return None if row is None else (row[0], row[1])

    def add_commit(self, epoch: int, proxy: str, chunks: int, reports: int) -> None:
        self._add(commits, epoch=epoch, proxy=proxy, chunks=chunks, reports=reports)

    def list_committed(self, epoch: int) -> set[str]:
        query = select(commits.c.proxy).where(commits.c.epoch == epoch)
        return set(self._connection.scalars(query))

    def set_crowd(self, epoch: int, proxy: str, crowd: str) -> None:
        same = (waiting.c.epoch == epoch) & (waiting.c.proxy == proxy)
        self._connection.execute(waiting.delete().where(same))
        self._add(waiting, epoch=epoch, proxy=proxy, crowd=crowd)

    def get_crowds(self, epoch: int) -> dict[str, str]:
        """What each proxy said last about its crowd; without proxies that have said nothing."""
        query = select(waiting.c.proxy, waiting.c.crowd).where(waiting.c.epoch == epoch)
        return {row.proxy: row.crowd for row in self._connection.execute(query)}

    def set_contact(self, said: ProxyContact) -> None:
        """In one statement: a proxy and `sottovoce proxy status` may speak at once."""
        dialect: Any = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        row, key = asdict(said), [contacts.c.proxy]
        insert = dialect.insert(contacts).values(row)
        self._connection.execute(insert.on_conflict_do_update(index_elements=key, set_=row))

    def get_contacts(self) -> dict[str, ProxyContact]:
        """What each proxy said last."""
        rows = self._connection.execute(select(contacts).order_by(contacts.c.proxy))
        return {row.proxy: ProxyContact(*row) for row in rows}

    def _row(self, query: Select[Any], *, lock: bool = False) -> Any:
        return self._connection.execute(query.with_for_update() if lock else query).one_or_none()

    def _epoch(self, query: Select[Any], *, lock: bool = False) -> Epoch | None:
        row = self._row(query, lock=lock)
        return None if row is None else Epoch(*row)

    def _add(self, table: Table, **row: object) -> None:
        self._connection.execute(table.insert().values(**row))

    def _change_epoch(self, epoch: int, **changes: object) -> None:
        self._connection.execute(epochs.update().where(epochs.c.epoch == epoch).values(**changes))


def _counts(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content, dtype="<u4").astype(np.int64)
