"""The database queries of the server."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from json import dumps, loads
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, Table, func, select, union
from sqlalchemy.dialects import postgresql, sqlite

from sottovoce.errors import StoreError
from sottovoce.protocol import MAX_PATCH_BASES, SignedShelf
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
    name_counts,
    service,
    shelf,
    sums,
    trainings,
    waiting,
)
from sottovoce.server.training import Training
from sottovoce.training.names import TABLE_ROWS

FileKind = Literal["model", "catalogue", "patch", "start"]
State = Literal["open", "closed", "applied"]
OPEN: State = "open"
CLOSED: State = "closed"
APPLIED: State = "applied"

# The largest uint32, which is how counts are stored. The cap that is applied later is far smaller
# (`training.counts`).
MAX_COUNT = 2**32 - 1
# A process without a contact for this long has ended, because a proxy makes contact at least once a
# minute.
PROCESS_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Service:
    """The row of `service`."""

    name: str
    """Random name of the database."""
    verification_key: bytes
    """Public half of the signing key that signed last."""
    newest_key: bytes
    """Public half of the newest signing key, which signs next."""
    next_epoch: int
    """Number of the next epoch."""


@dataclass(frozen=True)
class Epoch:
    """A row of `epochs`."""

    epoch: int
    state: State
    training: int
    """Number of the training."""
    manifest: bytes
    """The signed manifest, as it is served."""
    hash: bytes
    """Hash of the manifest."""
    model: bytes
    """SHA-256 of the model that the devices of this epoch report on."""
    catalogue: bytes
    """SHA-256 of the epoch's catalogue."""
    epochs_done: int
    """Number of earlier epochs of the training whose reports went into the model."""
    opens: int
    """Unix seconds when the epoch was published."""
    closes: int
    """Unix seconds before which the epoch is not closed."""
    ends: int
    """Unix seconds when the epoch is closed even if too few people have reported."""
    closed_at: float | None = None
    """Unix seconds when the epoch was closed; None if it is open or asks for no reports."""
    chunks: int = 0
    reports: int = 0
    """Number of distinct valid reports so far. For an applied epoch: those in the next model."""
    duplicates: int = 0
    """Number of reports that came again, and were dropped."""
    undecodable: int = 0
    """Number of reports that could not be opened."""
    crowdless: int = 0
    """Number of reports from proxies with too few people, dropped when the epoch was applied."""
    capped: int = 0
    """Number of reports that were dropped when the epoch was applied, because the same report came
    more often than honest people send it."""


@dataclass(frozen=True)
class ProxyContact:
    """A row of `contacts`: the last contact with a proxy."""

    proxy: str
    epoch: int
    """Epoch that the proxy shows to its clients; 0 before the first."""
    last_contact: float
    """Unix seconds of the last contact."""
    clock_ahead: float
    """Seconds by which the proxy's clock was ahead of the server's."""
    refusal: str = ""
    """Why the proxy's epoch cannot be counted here; empty if it can."""
    processes: str = "{}"
    """JSON: Unix seconds of the first and last contact with each process of this proxy, by name."""
    token_key: bytes = b""
    """Public key of the tokens for a later epoch; empty if the proxy issues none."""
    database: str = ""
    """Name of the proxy's database; empty if unknown."""
    earlier_database: str = ""
    """Name of the proxy's previous database, if that may have batches of the unfinished epoch."""

    def list_other_processes(self, process: str | None, now: float) -> list[str]:
        """Return the names of older processes that still run and use the secret of this proxy.

        Args:
            process: Name of the process to compare with. None gives an empty list.
            now: Unix seconds.
        """
        processes: dict[str, list[float]] = loads(self.processes)
        began = processes.get(process or "", [now, now])[0]
        # An older process without a contact since this one began has ended: the proxy was
        # restarted.
        return [
            name
            for name, (first, last) in processes.items()
            if first < began < last and abs(now - last) <= PROCESS_TIMEOUT_SECONDS
        ]

    @property
    def has_duplicate(self) -> bool:
        """Whether two processes use the secret of this proxy."""
        processes: dict[str, list[float]] = loads(self.processes)
        # Compare with the newest contact instead of the clock, because no process can make contact
        # while the server is down.
        newest = max((last for _, last in processes.values()), default=0.0)
        return any(self.list_other_processes(name, newest) for name in processes)

    def with_process(self, process: str | None, last: Self, now: float) -> Self:
        """Return this contact with the process that made it.

        Args:
            process: Name of the process; None for `sottovoce proxy status`, which does not count.
            last: The previous contact.
            now: Unix seconds.
        """
        processes: dict[str, list[float]] = loads(last.processes)
        if process is None:
            last_contact = last.last_contact if processes else now
            return replace(self, processes=last.processes, last_contact=last_contact)
        # The first contact stays: it tells which of two processes is older.
        first, _ = processes.pop(process, (now, now))
        recent = {
            name: times
            for name, times in processes.items()
            if abs(now - times[1]) <= PROCESS_TIMEOUT_SECONDS
        }
        return replace(self, processes=dumps({**recent, process: [first, now]}))

    def with_database(self, name: str | None, last: Self, *, is_unfinished: bool) -> Self:
        """Return this contact with the name of the proxy's database.

        A database that is replaced while its epoch is unfinished is remembered until it comes back
        or the epoch is applied.

        Args:
            name: Name of the database; None to keep the previous name.
            last: The previous contact.
            is_unfinished: Whether the proxy may still have batches of the latest epoch.
        """
        database, earlier = name or last.database, last.earlier_database
        if is_unfinished and database != last.database:
            earlier = earlier or last.database
        # The old database is back.
        if database == earlier:
            earlier = ""
        return replace(self, database=database, earlier_database=earlier)


class Transaction:
    """One transaction. Locked rows stay locked until it ends."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def acquire_setup_lock(self) -> None:
        """Make other workers that set up the service wait until this transaction ends."""
        acquire_setup_lock(self._connection)

    # Values that the operator chooses: key, trainings and catalogues.

    def get_service(self, *, lock: bool = False) -> Service:
        """Return the service. While it is locked, no other worker or operator changes anything."""
        row = self.find_service(lock=lock)
        if row is None:
            raise StoreError("the database is not set up: `sottovoce server init` does it")
        return row

    def find_service(self, *, lock: bool = False) -> Service | None:
        """Return the service; None before it is set up."""
        columns = ("name", "verification_key", "newest_key", "next_epoch")
        row = self._fetch_row(select(*(service.c[name] for name in columns)), lock=lock)
        return None if row is None else Service(*row)

    def add_service(self, name: str, verification_key: bytes) -> None:
        row = {"verification_key": verification_key, "newest_key": verification_key, "name": name}
        self._insert(service, id=1, next_epoch=1, **row)

    def set_service(self, verification_key: bytes, next_epoch: int) -> None:
        """Set the key that signed last and the number of the next epoch."""
        row = {"verification_key": verification_key, "next_epoch": next_epoch}
        self._connection.execute(service.update().values(**row))

    def set_newest_key(self, verification_key: bytes) -> None:
        """Set the key that signs next; the service must be locked."""
        self._connection.execute(service.update().values(newest_key=verification_key))

    def find_training(self, number: int | None = None) -> Training | None:
        """Return a training; without a number the newest one, which is that of the next epoch."""
        query = select(trainings).order_by(trainings.c.number.desc()).limit(1)
        if number is not None:
            query = query.where(trainings.c.number == number)
        row = self._fetch_row(query)
        return None if row is None else Training.from_row(*row)

    def set_training(self, training: Training) -> None:
        """Add a training, or replace the one with its number."""
        self.drop_training(training.number)
        self._insert(trainings, **training.to_row())

    def drop_training(self, number: int) -> None:
        self._connection.execute(trainings.delete().where(trainings.c.number == number))

    def find_catalogue(self) -> Any:
        """Return version and SHA-256 of the newest catalogue; None before the first."""
        return self._fetch_row(select(catalogues).order_by(catalogues.c.version.desc()).limit(1))

    def set_catalogue(self, version: int, sha256: bytes, content: bytes) -> None:
        """Add a catalogue, or replace the one with its version."""
        self._connection.execute(catalogues.delete().where(catalogues.c.version == version))
        self._insert(catalogues, version=version, sha256=sha256)
        self.add_file(sha256, "catalogue", content)

    def find_shelf(self) -> Any:
        """Return the newest shelf (the signed statement of the newest catalogue), or None."""
        return self._fetch_row(select(shelf))

    def set_shelf(self, signed: SignedShelf, latest: int) -> None:
        """Replace the shelf; the service must be locked.

        Args:
            signed: The new shelf.
            latest: The latest publication time of any shelf so far, in Unix seconds.
        """
        self._connection.execute(shelf.delete())
        content = signed.shelf
        row = {
            "published": content.published,
            "catalogue": content.catalogue,
            "latest_published": latest,
        }
        self._insert(shelf, id=1, signed=signed.encode(), **row)

    def find_file(self, sha256: bytes, kind: FileKind) -> bytes | None:
        query = select(files.c.content).where(files.c.sha256 == sha256, files.c.kind == kind)
        return self._connection.scalar(query)

    def add_file(self, sha256: bytes, kind: FileKind, content: bytes) -> None:
        """Add a file, unless the database has it already."""
        if self.find_file(sha256, kind) is None:
            self._insert(files, sha256=sha256, kind=kind, content=content)

    def list_earlier_models(self) -> list[bytes]:
        """Return the models of the newest epochs, the latest first, each once."""
        query = select(epochs.c.model).order_by(epochs.c.epoch.desc()).limit(MAX_PATCH_BASES)
        return self._read_files(self._connection.scalars(query), "model")

    def list_earlier_catalogues(self) -> list[bytes]:
        """Return the newest catalogues, the latest first, each once."""
        return self._read_files(self._list_catalogue_hashes(), "catalogue")

    def _list_catalogue_hashes(self) -> list[bytes]:
        query = select(catalogues.c.sha256).order_by(catalogues.c.version.desc())
        # One more than the bases: the newest is the file that a patch leads to.
        return list(self._connection.scalars(query.limit(MAX_PATCH_BASES + 1)))

    def _read_files(self, hashes: Iterable[bytes], kind: FileKind) -> list[bytes]:
        contents = (self.find_file(sha256, kind) for sha256 in dict.fromkeys(hashes))
        return [content for content in contents if content is not None]

    def keep_patches(self, hashes: Iterable[bytes]) -> None:
        """Delete all patches but these."""
        unused = (files.c.kind == "patch") & files.c.sha256.not_in(hashes)
        self._connection.execute(files.delete().where(unused))

    # Epochs.

    def find_epoch(self, number: int, *, lock: bool = False) -> Epoch | None:
        """Return an epoch. While it is locked, no other worker counts in it."""
        return self._fetch_epoch(select(epochs).where(epochs.c.epoch == number), lock=lock)

    def find_latest_epoch(self, *, lock: bool = False) -> Epoch | None:
        return self._fetch_epoch(select(epochs).order_by(epochs.c.epoch.desc()).limit(1), lock=lock)

    def find_last_applied(self) -> Epoch | None:
        """Return the newest epoch whose reports are in a model."""
        # An epoch that asked for no reports is applied too, but was never closed.
        over = (epochs.c.state == APPLIED) & epochs.c.closed_at.is_not(None)
        return self._fetch_epoch(
            select(epochs).where(over).order_by(epochs.c.epoch.desc()).limit(1)
        )

    def list_epochs(self) -> list[Epoch]:
        """Return all epochs, oldest first."""
        rows = self._connection.execute(select(epochs).order_by(epochs.c.epoch))
        return [Epoch(*row) for row in rows]

    def list_first_and_last(self, training: int) -> list[Epoch]:
        """Return the first and the last epoch of a training; an empty list before the first."""
        query = select(epochs).where(epochs.c.training == training)
        orders = epochs.c.epoch, epochs.c.epoch.desc()
        first_and_last = [self._fetch_epoch(query.order_by(order).limit(1)) for order in orders]
        return [epoch for epoch in first_and_last if epoch is not None]

    def add_epoch(self, epoch: Epoch, wrapped: bytes | None) -> None:
        """Add the next epoch with its wrapped private key; None if it asks for no reports."""
        self._insert(epochs, **asdict(epoch))
        if wrapped is not None:
            self._insert(epoch_keys, epoch=epoch.epoch, wrapped=wrapped)

    def close_epoch(self, epoch: int, now: float) -> None:
        """Mark an epoch as closed: proxies accept no more reports for it."""
        self._change_epoch(epoch, state=CLOSED, closed_at=now)

    def apply_epoch(self, epoch: int, *, reports: int, crowdless: int, capped: int) -> None:
        """Mark an epoch as applied, and delete its key, its chunks and the counts of each proxy.

        Its sums and totals stay, and the commits: the proxies' statements that they have handed in
        everything.

        Args:
            epoch: Number of the epoch.
            reports: Number of reports in the next model.
            crowdless: Number of reports from proxies with too few people.
            capped: Number of reports that came more often than honest people send them.
        """
        totals = {"reports": reports, "crowdless": crowdless, "capped": capped}
        self._change_epoch(epoch, state=APPLIED, **totals)
        # A proxy that did not get the server's answer sends its commit again.
        for table in (epoch_keys, chunks, counts, waiting):
            self._connection.execute(table.delete().where(table.c.epoch == epoch))
        # Batches in a proxy's earlier database can no longer be counted.
        self._connection.execute(contacts.update().values(earlier_database=""))

    def find_wrapped_key(self, epoch: int) -> bytes | None:
        """Return the wrapped private key of an epoch; None if it is deleted."""
        query = select(epoch_keys.c.wrapped).where(epoch_keys.c.epoch == epoch)
        return self._connection.scalar(query)

    def delete_before(self, epoch: int) -> None:
        """Delete sums, models and catalogues that only earlier epochs than this one needed."""
        for table in (sums, name_counts):
            self._connection.execute(table.delete().where(table.c.epoch < epoch))
        later = epochs.c.epoch >= epoch
        needed = union(select(epochs.c.model).where(later), select(epochs.c.catalogue).where(later))
        # The next epoch needs the newest catalogue, and may need the start of its training.
        # Patches lead from the catalogues before it to the next one.
        training = self.find_training()
        others = [*self._list_catalogue_hashes(), (training and training.start) or b""]
        is_needed = files.c.sha256.in_(needed) | files.c.sha256.in_(others)
        unused = ~is_needed & (files.c.kind != "patch")
        self._connection.execute(files.delete().where(unused))

    # Counts, chunks and commits of an epoch.

    def get_counts(self, epoch: int) -> dict[str, NDArray[np.int64]]:
        """Return how often each report came so far, by proxy; empty if the epoch is applied."""
        query = select(counts.c.proxy, counts.c.counts).where(counts.c.epoch == epoch)
        return {
            proxy: _decode_counts(content) for proxy, content in self._connection.execute(query)
        }

    def add_counts(self, epoch: int, proxy: str, more: NDArray[np.int64], now: float) -> None:
        """Add to the counts of a proxy; the epoch must be locked."""
        same = (counts.c.epoch == epoch) & (counts.c.proxy == proxy)
        before = self._connection.scalar(select(counts.c.counts).where(same))
        total = more if before is None else _decode_counts(before) + more
        # A flood of one report stops at the largest number instead of starting again at zero.
        content = np.minimum(total, MAX_COUNT).astype("<u4").tobytes()
        row = {"counts": content, "counted_at": now}
        if before is None:
            self._insert(counts, epoch=epoch, proxy=proxy, **row)
        else:
            self._connection.execute(counts.update().where(same).values(**row))

    def get_count_times(self, epoch: int) -> dict[str, float]:
        """Return when the last chunk of each proxy was counted, without proxies that sent none."""
        query = select(counts.c.proxy, counts.c.counted_at).where(counts.c.epoch == epoch)
        return {row.proxy: row.counted_at for row in self._connection.execute(query)}

    def get_sums(self, epoch: int) -> NDArray[np.int64]:
        """Return the sums of an applied epoch; empty if it counted nothing."""
        content = self._connection.scalar(select(sums.c.sums).where(sums.c.epoch == epoch))
        return np.frombuffer(content or b"", dtype="<i8").astype(np.int64)

    def add_sums(self, epoch: int, values: NDArray[np.int64]) -> None:
        self._insert(sums, epoch=epoch, sums=values.astype("<i8").tobytes())

    def get_name_counts(self, epoch: int) -> NDArray[np.float64]:
        """Return the table of names (`NameCounts`) that an epoch began with."""
        query = select(name_counts.c.content).where(name_counts.c.epoch == epoch)
        content = np.frombuffer(self._connection.scalar(query) or b"", dtype="<f8")
        return content.astype(np.float64).reshape(TABLE_ROWS, -1)

    def add_name_counts(self, epoch: int, table: NDArray[np.float64]) -> None:
        self._insert(name_counts, epoch=epoch, content=table.astype("<f8").tobytes())

    def has_chunk(self, epoch: int, name: str) -> bool:
        return self.find_sender(epoch, name) is not None

    def find_sender(self, epoch: int, name: str) -> str | None:
        """Return the proxy that a counted chunk came from."""
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
        self._insert(chunks, epoch=epoch, name=name, proxy=proxy, reports=reports, prefixes=content)

    def add_to_totals(self, epoch: int, *, reports: int, duplicates: int, undecodable: int) -> None:
        """Add a chunk to the totals of its epoch."""
        self._change_epoch(
            epoch,
            chunks=epochs.c.chunks + 1,
            reports=epochs.c.reports + reports,
            duplicates=epochs.c.duplicates + duplicates,
            undecodable=epochs.c.undecodable + undecodable,
        )

    def count_received(self, epoch: int, proxy: str) -> tuple[int, int]:
        """Return the number of chunks that came from a proxy, and of the reports in them."""
        query = select(func.count(), func.coalesce(func.sum(chunks.c.reports), 0)).where(
            chunks.c.epoch == epoch, chunks.c.proxy == proxy
        )
        number, reports = self._connection.execute(query).one()
        return int(number), int(reports)

    def find_commit(self, epoch: int, proxy: str) -> tuple[int, int] | None:
        """Return the numbers of chunks and reports in a proxy's commit; None before it."""
        same = (commits.c.epoch == epoch) & (commits.c.proxy == proxy)
        row = self._fetch_row(select(commits.c.chunks, commits.c.reports).where(same))
        return None if row is None else (row[0], row[1])

    def add_commit(self, epoch: int, proxy: str, chunks: int, reports: int) -> None:
        """Record that a proxy has handed in everything."""
        self._insert(commits, epoch=epoch, proxy=proxy, chunks=chunks, reports=reports)

    def list_committed(self, epoch: int) -> set[str]:
        query = select(commits.c.proxy).where(commits.c.epoch == epoch)
        return set(self._connection.scalars(query))

    def set_crowd(self, epoch: int, proxy: str, crowd: str) -> None:
        same = (waiting.c.epoch == epoch) & (waiting.c.proxy == proxy)
        self._connection.execute(waiting.delete().where(same))
        self._insert(waiting, epoch=epoch, proxy=proxy, crowd=crowd)

    def get_crowds(self, epoch: int) -> dict[str, str]:
        """Return the state of each proxy's crowd, without proxies that have not reported one."""
        query = select(waiting.c.proxy, waiting.c.crowd).where(waiting.c.epoch == epoch)
        return {row.proxy: row.crowd for row in self._connection.execute(query)}

    def set_contact(self, contact: ProxyContact) -> None:
        dialect: Any = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        row, key = asdict(contact), [contacts.c.proxy]
        # Use one statement, because a proxy and `sottovoce proxy status` may make contact at the
        # same time.
        insert = dialect.insert(contacts).values(row)
        self._connection.execute(insert.on_conflict_do_update(index_elements=key, set_=row))

    def get_contacts(self) -> dict[str, ProxyContact]:
        rows = self._connection.execute(select(contacts).order_by(contacts.c.proxy))
        return {row.proxy: ProxyContact(*row) for row in rows}

    def _fetch_row(self, query: Select[Any], *, lock: bool = False) -> Any:
        return self._connection.execute(query.with_for_update() if lock else query).one_or_none()

    def _fetch_epoch(self, query: Select[Any], *, lock: bool = False) -> Epoch | None:
        row = self._fetch_row(query, lock=lock)
        return None if row is None else Epoch(*row)

    def _insert(self, table: Table, **row: object) -> None:
        self._connection.execute(table.insert().values(**row))

    def _change_epoch(self, epoch: int, **changes: object) -> None:
        self._connection.execute(epochs.update().where(epochs.c.epoch == epoch).values(**changes))


def _decode_counts(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content, dtype="<u4").astype(np.int64)
