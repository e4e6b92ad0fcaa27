"""The two files of an epoch: the stored batches, and their reports in random order.

Each file is deleted as a whole when it is no longer needed. So no row has to be overwritten, and no
deleted data stays in the folder.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from sottovoce.errors import LostError, RefusedError, StoreError, get_reason
from sottovoce.protocol import SEALED_BYTES, Batch
from sottovoce.storage.database import Database, FileIdentity
from sottovoce.storage.files import sync_folder

_TABLES = (
    # The key is a number: SQLite is slow with long rows in tables without a rowid.
    """CREATE TABLE batches (
        place INTEGER PRIMARY KEY,
        id BLOB NOT NULL,
        sealed BLOB NOT NULL
    )""",
    # Finds reports that are sent again under another id: the sealed reports of a batch begin with
    # an encapsulated key of 32 bytes, which no other batch has.
    "CREATE UNIQUE INDEX copies ON batches (substr(sealed, 1, 32))",
    # The proxy's own random reports. Each row of the table has several.
    """CREATE TABLE dummies (
        part INTEGER PRIMARY KEY,
        sealed BLOB NOT NULL
    )""",
)


# Bytes of a file of batches on the disk, as measured for 1 to 100 reports in a batch:
#   STORED_BYTES_FACTOR * bytes of sealed reports + ROW_OVERHEAD_BYTES * batches.
STORED_BYTES_FACTOR = 1.2
ROW_OVERHEAD_BYTES = 150

# Size of the row that checks whether the disk can be written. It is larger than a few batches.
PROBE_BYTES = 65_536

# Bytes that a reservation leaves free on the disk, for write-ahead logs and models.
SPARE_BYTES = 2**22

# Room for shuffled reports is reserved in multiples of this size.
RESERVATION_STEP_BYTES = 2**20

# Files that SQLite keeps next to a database: its write-ahead log and the index of the log.
DATABASE_SUFFIXES = ("-wal", "-shm", "")


def estimate_stored_bytes(n_batches: int, reports_per_batch: int, n_dummies: int = 0) -> int:
    """Return the bytes of a batch file with this content, without the shuffled reports."""
    n_reports = n_batches * reports_per_batch + n_dummies
    return int(STORED_BYTES_FACTOR * n_reports * SEALED_BYTES) + n_batches * ROW_OVERHEAD_BYTES


def estimate_disk_bytes(n_batches: int, reports_per_batch: int, n_dummies: int = 0) -> int:
    """Return the bytes that both files of an epoch take with these batches and dummies."""
    n_reports = n_batches * reports_per_batch + n_dummies
    return estimate_stored_bytes(n_batches, reports_per_batch, n_dummies) + n_reports * SEALED_BYTES


def compute_place(batch: Batch) -> int:
    """Return the key of a batch's row, which decides the order of rows.

    It is a hash of the id, because a client might choose ids that are not random.
    """
    return int.from_bytes(blake2b(batch.id, digest_size=8).digest(), "big", signed=True)


class BatchTables:
    """The tables of batches and dummies of an epoch. Batches are not in the order of arrival."""

    def __init__(self, connection: sqlite3.Connection):
        self.connection = connection

    def add_batch(self, batch: Batch) -> bool:
        """Store a batch and return whether it is new.

        Raises:
            RefusedError: The id is stored with other reports, or the reports under another id.
        """
        insert = "INSERT INTO batches VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        row = (compute_place(batch), batch.id, batch.sealed)
        if self.connection.execute(insert, row).rowcount:
            return True
        return not self.has_batch(batch)

    def has_batch(self, batch: Batch) -> bool:
        """Return whether this batch is stored.

        Raises:
            RefusedError: The id is stored with other reports, or the reports under another id.
        """
        rows = self.connection.execute(
            "SELECT id, sealed FROM batches WHERE place = ? OR substr(sealed, 1, 32) = ?",
            (compute_place(batch), batch.sealed[:32]),
        ).fetchall()
        if not rows or (batch.id, batch.sealed) in rows:
            return bool(rows)
        if batch.id in [batch_id for batch_id, _ in rows]:
            raise RefusedError("a batch with this id and other reports is here already")
        raise RefusedError("these reports are here already, under another id")

    def count_batches(self) -> int:
        (count,) = self.connection.execute("SELECT count(*) FROM batches").fetchone()
        return int(count)

    def add_dummies(self, sealed: bytes) -> None:
        """Store several sealed dummies, joined together, in one row."""
        self.connection.execute("INSERT INTO dummies (sealed) VALUES (?)", (sealed,))

    def count_dummies(self) -> int:
        query = "SELECT total(length(sealed)) FROM dummies"
        (size,) = self.connection.execute(query).fetchone()
        return int(size) // SEALED_BYTES

    def check_writable(self) -> None:
        """Write some pages and delete them, to see whether the disk takes them."""
        self.connection.execute("INSERT INTO dummies VALUES (-1, zeroblob(?))", (PROBE_BYTES,))
        self.connection.execute("DELETE FROM dummies WHERE part = -1")

    def read_reports(self) -> Iterator[bytes]:
        """Yield all sealed reports, in the same order at every call.

        Each item joins the reports of a batch, or those of a row of dummies.
        """
        for table in ("batches", "dummies"):
            query = f"SELECT sealed FROM {table} ORDER BY rowid"  # noqa: S608 - our own names
            for (sealed,) in self.connection.execute(query):
                yield sealed


class BatchFile:
    """The database of an epoch's batches, which is created if missing.

    Only one thread at a time may use it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._database = Database(path, _TABLES, wait=1.0, shared=True)
        self.tables = BatchTables(self._database.connection)
        self._file_identity = FileIdentity(path)
        self._file_identity.check()  # later checks compare the file with this first one

    @contextmanager
    def transaction(self) -> Iterator[BatchTables]:
        """Commit the changes of the block to the disk when it ends; roll back after an error."""
        with self._database.transaction():
            yield self.tables

    def check(self) -> None:
        """Raise a `LostError` if the file was removed or replaced while it is open."""
        self._file_identity.check()

    def close(self) -> None:
        self._database.close()


class ReportFile:
    """A plain file with the reports of an epoch in random order, which is created if missing.

    The proxy reserves room in this file before it acknowledges a batch, so that a disk that is full
    at the end of the epoch cannot prevent mixing. The file stays open, so it can be read even if
    the folder is gone.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._reserved = os.fstat(self._handle).st_size
        except OSError as error:
            raise self._to_store_error(error) from error

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes on the disk for the file.

        Raises:
            StoreError: There is not enough room. Earlier reservations stay.
        """
        if size <= self._reserved:
            return
        # Round up to a multiple, so that not every batch makes a reservation, which takes time.
        size = -(-size // RESERVATION_STEP_BYTES) * RESERVATION_STEP_BYTES
        missing = size - self._reserved
        try:
            if hasattr(os, "posix_fallocate"):  # not on macOS and Windows
                if self._count_free_bytes() < missing + SPARE_BYTES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.posix_fallocate(self._handle, 0, size)
        except OSError as error:
            # Some file systems cannot reserve room: on these, a full disk delays mixing.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                # When ext4 runs full, it does not release the part that it has reserved already.
                os.ftruncate(self._handle, self._reserved)
                raise self._to_store_error(error) from error
        self._reserved = size

    def write(self, runs: Iterable[bytes]) -> None:
        """Replace the content of the file by these pieces. They are on disk when this returns."""
        size = 0
        try:
            os.lseek(self._handle, 0, os.SEEK_SET)
            for run in runs:
                remaining = memoryview(run)
                while remaining:
                    remaining = remaining[os.write(self._handle, remaining) :]
                size += len(run)
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
        except OSError as error:
            raise self._to_store_error(error) from error
        self._reserved = size

    def read(self, start: int, size: int) -> bytes:
        """Return `size` bytes from the position `start`.

        Raises:
            LostError: The file is too short.
        """
        content = bytearray()
        try:
            os.lseek(self._handle, start, os.SEEK_SET)
            while len(content) < size:
                piece = os.read(self._handle, size - len(content))
                if not piece:
                    raise LostError(
                        f"{self.path}: too short, so the reports of its epoch are lost; make sure "
                        "of the disk"
                    )
                content += piece
        except OSError as error:
            raise self._to_store_error(error) from error
        return bytes(content)

    def close(self) -> None:
        os.close(self._handle)

    def _count_free_bytes(self) -> int:
        # Ask for the disk of the open file, because its folder may be gone.
        disk = os.fstatvfs(self._handle)
        return disk.f_bavail * disk.f_frsize

    def _to_store_error(self, error: OSError) -> StoreError:
        return StoreError(f"{self.path}: {get_reason(error)}; make room on the disk")


def delete_file(path: Path) -> None:
    """Delete a file, which may be gone already."""
    path.unlink(missing_ok=True)


class EpochFiles:
    """The files of the running epoch, and of earlier epochs that the server does not have yet."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.batches: BatchFile | None = None
        """The batches of the running epoch; None if no epoch that asks for reports is running."""
        self._running: int | None = None
        self._reports: dict[int, ReportFile] = {}

    def begin(self, epoch: int) -> bool:
        """Open or create the files of the running epoch; return whether its batch file existed."""
        if self.batches is not None:
            self.batches.close()
            self.batches = None
        path = self._folder / name_batch_file(epoch)
        existed = path.exists()
        self.batches = BatchFile(path)
        self.open_reports(epoch)
        self._running = epoch
        try:
            sync_folder(self._folder)
        except OSError as error:
            raise StoreError(
                f"{self._folder}: {get_reason(error)}; let the proxy write to its folder"
            ) from error
        return existed

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes for the shuffled reports of the running epoch."""
        if self._running is not None:
            self.open_reports(self._running).reserve(size)

    def open_reports(self, epoch: int) -> ReportFile:
        """Return the file of an epoch's shuffled reports, which is created if missing."""
        if epoch not in self._reports:
            self._reports[epoch] = ReportFile(self._folder / _name_report_file(epoch))
        return self._reports[epoch]

    def delete_others(self, running: int | None, unsettled: Iterable[int], newest: int) -> None:
        """Delete the files of all epochs that are neither running nor waiting to be handed over.

        Args:
            running: The running epoch, if there is one.
            unsettled: Epochs whose reports the server has not confirmed yet.
            newest: The newest epoch in the database. Files of later epochs stay: somebody has
                restored an old copy of the database, and the proxy will need these files when it
                has followed the server to their epochs.
        """
        needed = {*unsettled, *([] if running is None else [running])}
        names = {_name_report_file(epoch) for epoch in needed}
        if running is not None:
            names |= {f"{name_batch_file(running)}{suffix}" for suffix in DATABASE_SUFFIXES}
        if self.batches is not None and self.batches.path.name not in names:
            self.batches.close()
            self.batches = self._running = None
        for epoch in self._reports.keys() - needed:
            self._reports.pop(epoch).close()
        # Delete a log before its database: SQLite would apply it to the next file of that name.
        for path in sorted(self._folder.glob("epoch-*"), reverse=True):
            if path.name not in names and _parse_epoch(path) <= newest:
                delete_file(path)

    def close(self) -> None:
        if self.batches is not None:
            self.batches.close()
        for file in self._reports.values():
            file.close()


def name_batch_file(epoch: int) -> str:
    return f"epoch-{epoch}-batches.sqlite3"


def _parse_epoch(path: Path) -> int:
    """Return the epoch in the name of a file, or 0 if the name has no epoch."""
    number = path.name.split("-")[1]
    return int(number) if number.isdecimal() else 0


def _name_report_file(epoch: int) -> str:
    return f"epoch-{epoch}-shuffled.bin"
