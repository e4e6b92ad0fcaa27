"""The proxy's store: a database for data of all epochs, and two files for each epoch.

A write is on disk when the method that makes it returns. No table has a column for times, addresses
or user agents, so they are never stored.
"""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Literal, Self

from sottovoce.errors import ClosedError, LostError, StoreError, get_reason
from sottovoce.protocol import SEALED_BYTES, SignedManifest, SignedShelf
from sottovoce.proxy.epoch_files import (
    PROBE_BYTES,
    BatchFile,
    BatchTables,
    EpochFiles,
    name_batch_file,
)
from sottovoce.storage.database import (
    Database,
    FileIdentity,
    check_schema_version,
    convert_sqlite_errors,
    exclusive_lock,
)

log = logging.getLogger("sottovoce")

FileKind = Literal["model", "catalogue", "patch"]

DATABASE_FILE = "proxy.sqlite3"
LOCK_FILE = "proxy.lock"
# Bytes of the random name of a database.
DATABASE_NAME_BYTES = 8

_TABLES = (
    # The random names of this database and of the server's database.
    """CREATE TABLE identity (
        name TEXT NOT NULL,
        server TEXT
    )""",
    """CREATE TABLE manifests (
        epoch INTEGER PRIMARY KEY,
        hash BLOB NOT NULL,
        signed BLOB NOT NULL,
        model BLOB NOT NULL,
        catalogue BLOB NOT NULL,
        model_patch BLOB NOT NULL,
        catalogue_patch BLOB NOT NULL
    )""",
    # The hash of a patch is empty if there is none.
    # The newest two shelves, which are the server's signed statements that name the newest
    # catalogue: clients that have just read the older one may still fetch its catalogue.
    """CREATE TABLE shelves (
        place INTEGER PRIMARY KEY,
        signed BLOB NOT NULL,
        catalogue BLOB NOT NULL,
        patch BLOB NOT NULL
    )""",
    # Keys of tokens, each for one epoch. The epoch is NULL until a manifest names the key.
    """CREATE TABLE token_keys (
        seed BLOB PRIMARY KEY,
        epoch INTEGER,
        issued INTEGER NOT NULL DEFAULT 0
    )""",
    # The number of tokens that an account has had in a training, and the epoch and the blinded
    # element of the last one: a device that asks again gets the same token.
    """CREATE TABLE accounts (
        training BLOB NOT NULL,
        pseudonym BLOB NOT NULL,
        turns INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        blinded BLOB NOT NULL,
        PRIMARY KEY (training, pseudonym)
    ) WITHOUT ROWID""",
    """CREATE TABLE files (
        sha256 BLOB PRIMARY KEY,
        content BLOB NOT NULL
    )""",
    """CREATE TABLE flushes (
        epoch INTEGER PRIMARY KEY,
        manifest_hash BLOB NOT NULL,
        chunk_reports INTEGER NOT NULL,
        reports INTEGER NOT NULL,
        dummies INTEGER NOT NULL,
        delivered INTEGER NOT NULL,
        settled INTEGER NOT NULL
    )""",
)
# Queries that return a file only if a manifest or a shelf names it as a file of this kind.
_FILE_QUERIES: dict[FileKind, str] = {
    "model": "SELECT content FROM files JOIN manifests ON model = sha256 WHERE sha256 = ?",
    "catalogue": "SELECT content FROM files WHERE sha256 = ? AND (sha256 IN"
    " (SELECT catalogue FROM manifests) OR sha256 IN (SELECT catalogue FROM shelves))",
    "patch": "SELECT content FROM files WHERE sha256 = ? AND (sha256 IN"
    " (SELECT model_patch FROM manifests UNION SELECT catalogue_patch FROM manifests"
    " UNION SELECT patch FROM shelves))",
}


@dataclass(frozen=True)
class FlushedEpoch:
    """An ended epoch: how many reports it has, and how many of its chunks were delivered."""

    epoch: int
    manifest_hash: bytes
    chunk_reports: int
    """Reports in a chunk; the last chunk may have fewer."""
    reports: int
    """All reports, with the dummies; 0 if the epoch was discarded."""
    dummies: int = 0
    """Dummies among the reports."""
    delivered: int = 0
    """Chunks that the server has received. Chunks are sent in order, so these are the first."""

    @property
    def chunks(self) -> int:
        """Number of chunks that the reports make."""
        return -(-self.reports // self.chunk_reports)

    def count_reports(self, n_chunks: int) -> int:
        """Return how many reports the first `n_chunks` chunks have."""
        return min(n_chunks * self.chunk_reports, self.reports)


class Tables:
    """The tables of the database. `ProxyStore` begins and ends the transactions."""

    def __init__(self, db: sqlite3.Connection):
        self._db = db

    def get_name(self) -> str:
        """Return the random name of this database."""
        (name,) = self._db.execute("SELECT name FROM identity").fetchone()
        return str(name)

    def get_server_database(self) -> str | None:
        """Return the name of the server's database; None before the first contact."""
        (name,) = self._db.execute("SELECT server FROM identity").fetchone()
        return None if name is None else str(name)

    def set_server_database(self, name: str) -> None:
        self._db.execute("UPDATE identity SET server = ?", (name,))

    def add_manifest(self, signed: SignedManifest) -> None:
        manifest = signed.manifest
        row = (
            *(manifest.epoch, signed.hash, signed.encode(), manifest.model, manifest.catalogue),
            *(manifest.model_patch or b"", manifest.catalogue_patch or b""),
        )
        self._db.execute("INSERT INTO manifests VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def get_latest_manifest(self) -> bytes | None:
        return self._get_value("SELECT signed FROM manifests ORDER BY epoch DESC LIMIT 1")

    def get_manifest(self, epoch: int) -> bytes | None:
        return self._get_value("SELECT signed FROM manifests WHERE epoch = ?", epoch)

    def add_shelf(self, signed: SignedShelf) -> None:
        """Add a shelf, and delete all but the newest two."""
        row = (signed.encode(), signed.shelf.catalogue, signed.shelf.patch or b"")
        self._db.execute("INSERT INTO shelves (signed, catalogue, patch) VALUES (?, ?, ?)", row)
        self._db.execute("DELETE FROM shelves WHERE place < (SELECT max(place) FROM shelves) - 1")

    def get_latest_shelf(self) -> bytes | None:
        return self._get_value("SELECT signed FROM shelves ORDER BY place DESC LIMIT 1")

    def add_file(self, sha256: bytes, content: bytes) -> None:
        self._db.execute("REPLACE INTO files VALUES (?, ?)", (sha256, content))

    def get_file(self, kind: FileKind, sha256: bytes) -> bytes | None:
        return self._get_value(_FILE_QUERIES[kind], sha256)

    def prune_files(self, keep: int) -> None:
        """Delete all files except those of the newest `keep` epochs and of the shelves."""
        self._db.execute(
            """
            WITH recent AS (SELECT * FROM manifests ORDER BY epoch DESC LIMIT ?)
            DELETE FROM files
            WHERE sha256 NOT IN (
                SELECT model FROM recent UNION SELECT catalogue FROM recent
                UNION SELECT model_patch FROM recent UNION SELECT catalogue_patch FROM recent
                UNION SELECT catalogue FROM shelves UNION SELECT patch FROM shelves
            )
            """,
            (keep,),
        )

    def add_token_key(self, seed: bytes) -> None:
        self._db.execute("INSERT INTO token_keys (seed) VALUES (?)", (seed,))

    def get_token_keys(self) -> dict[bytes, int | None]:
        """Return the epoch of each seed; None if no manifest has named the key yet."""
        return dict(self._db.execute("SELECT seed, epoch FROM token_keys"))

    def set_token_epoch(self, seed: bytes, epoch: int) -> None:
        self._db.execute("UPDATE token_keys SET epoch = ? WHERE seed = ?", (epoch, seed))

    def delete_token_keys(self, before: int) -> None:
        """Delete the keys of all epochs before this one."""
        self._db.execute("DELETE FROM token_keys WHERE epoch < ?", (before,))

    def add_issued(self, epoch: int) -> None:
        """Increment the number of issued tokens of an epoch."""
        self._db.execute("UPDATE token_keys SET issued = issued + 1 WHERE epoch = ?", (epoch,))

    def count_issued(self, epoch: int) -> int:
        # Without a key, no tokens were issued for the epoch.
        row = self._db.execute("SELECT issued FROM token_keys WHERE epoch = ?", (epoch,)).fetchone()
        return 0 if row is None else int(row[0])

    def give_back(self, epoch: int) -> None:
        """Give accounts back the turns that they used for tokens of this epoch.

        Too few people took part in it, so no report of it was counted.
        """
        self._db.execute("UPDATE token_keys SET issued = 0 WHERE epoch = ?", (epoch,))
        self._db.execute(
            "UPDATE accounts SET turns = turns - 1, epoch = 0, blinded = x'' WHERE epoch = ?",
            (epoch,),
        )

    def get_account(self, training: bytes, pseudonym: bytes) -> tuple[int, int, bytes]:
        """Return what is stored about the tokens of an account in a training.

        Returns:
            The number of tokens, the epoch of the last one, and its blinded element; (0, 0, b"")
            if the account has had none.
        """
        row = self._db.execute(
            "SELECT turns, epoch, blinded FROM accounts WHERE training = ? AND pseudonym = ?",
            (training, pseudonym),
        ).fetchone()
        return (0, 0, b"") if row is None else (row[0], row[1], row[2])

    def set_account(
        self, training: bytes, pseudonym: bytes, turns: int, epoch: int, blinded: bytes
    ) -> None:
        row = (training, pseudonym, turns, epoch, blinded)
        self._db.execute("REPLACE INTO accounts VALUES (?, ?, ?, ?, ?)", row)

    def add_flush(self, flushed: FlushedEpoch) -> None:
        """Record that an epoch is over, and takes no more batches."""
        row = (*astuple(flushed), False)
        self._db.execute("INSERT INTO flushes VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def is_flushed(self, epoch: int) -> bool:
        return self._get_value("SELECT 1 FROM flushes WHERE epoch = ?", epoch) is not None

    def get_unsettled(self) -> list[FlushedEpoch]:
        """Return the epochs that the server has not yet confirmed, oldest first."""
        rows = self._db.execute(
            "SELECT epoch, manifest_hash, chunk_reports, reports, dummies, delivered FROM flushes "
            "WHERE NOT settled ORDER BY epoch"
        )
        return [FlushedEpoch(*row) for row in rows]

    def set_delivered(self, epoch: int, chunks: int) -> None:
        self._db.execute("UPDATE flushes SET delivered = ? WHERE epoch = ?", (chunks, epoch))

    def settle(self, epoch: int) -> None:
        """Record that the server has all reports of an epoch, or will never take them."""
        self._db.execute("UPDATE flushes SET settled = 1 WHERE epoch = ?", (epoch,))

    def check_writable(self) -> None:
        """Write a large row and delete it again; this fails if the disk is full."""
        # No request can ask for this row, because its hash is empty.
        self._db.execute("INSERT INTO files VALUES (x'', zeroblob(?))", (PROBE_BYTES,))
        self._db.execute("DELETE FROM files WHERE sha256 = x''")

    def _get_value(self, query: str, *values: object) -> bytes | None:
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]


class ProxyStore:
    """The database and the files of epochs, for several threads.

    The database has two connections, one for writing and one for reading, so that readers do not
    wait for a writer. A lock for each lets one thread at a time use it.
    """

    def __init__(self, writer: Database, reader: Database, files: EpochFiles):
        self._folder = writer.path.parent
        self._path = writer.path
        self._writer = writer
        self._reader = reader
        self._files = files
        self._resources = ExitStack()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._using_batches = threading.Lock()
        self._file_identity = FileIdentity(writer.path)
        self._failing: set[Path] = set()
        self._is_damaged = False
        self._file_identity.check()  # later checks compare the file with this first one
        with self.read() as tables:
            self.name = tables.get_name()

    @classmethod
    def create(cls, folder: Path) -> None:
        """Create the database of a new proxy, and its folder if necessary."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{folder}: {get_reason(error)}; let the proxy write to its folder"
            ) from error
        path = folder / DATABASE_FILE
        if path.exists() or any(folder.glob("epoch-*")):
            raise StoreError(f"{path}: files of a proxy are here already; name another folder")
        # Use one transaction, so that there is never a database without a name.
        with closing(Database(path, _TABLES, create=False)) as db, db.transaction():
            db.create_tables()
            db.rows("INSERT INTO identity (name) VALUES (?)", token_hex(DATABASE_NAME_BYTES))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the store of a folder.

        Raises:
            StoreError: There is no database, or another process uses the folder.
        """
        path = folder / DATABASE_FILE
        _check_exists(path)
        with ExitStack() as opened:
            taken = "another process uses it; give each proxy a folder"
            opened.enter_context(exclusive_lock(folder / LOCK_FILE, taken, wait=1.0))
            # Threads share the two connections, behind the locks of the store.
            writer, reader = (
                opened.enter_context(
                    closing(Database(path, _TABLES, wait=1.0, shared=True, create=False))
                )
                for _ in range(2)
            )
            # A write on this connection, which would be a bug, must fail at once.
            reader.rows("PRAGMA query_only = ON")
            if not reader.row("SELECT 1 FROM sqlite_master WHERE name = 'identity'"):
                raise _make_wrong_database_error(path)
            files = opened.enter_context(closing(EpochFiles(folder)))
            store = cls(writer, reader, files)
            # Until here, an error closes everything in `opened`. From here on, `close` does.
            store._resources = opened.pop_all()
        return store

    @property
    def is_failing(self) -> bool:
        """Whether the last write to a file failed, as on a full disk, or a file is damaged.

        After damage this stays true until a restart.
        """
        return self._is_damaged or bool(self._failing)

    @contextmanager
    def write(self) -> Iterator[Tables]:
        """Commit the changes of the block to the disk when it ends; roll back after an error."""
        db = self._writer.connection
        with self._writing, self._track_failures(self._path, db), self._writer.transaction():
            yield Tables(db)

    @contextmanager
    def read(self) -> Iterator[Tables]:
        """Read the last committed state, without waiting for a writer."""
        with self._reading, self._track_failures(self._path), convert_sqlite_errors(self._path):
            yield Tables(self._reader.connection)

    def begin_epoch(self, epoch: int) -> bool:
        """Open or create the files of the running epoch; return whether its batch file existed."""
        with self._using_batches:
            return self._files.begin(epoch)

    @contextmanager
    def write_batches(self, n_reports: int = 0) -> Iterator[BatchTables]:
        """Write batches of the running epoch; commit them at the end, roll back after an error.

        Args:
            n_reports: Number of reports for which to reserve room in the file of shuffled reports
                before the transaction begins.

        Raises:
            ClosedError: No epoch is running.
        """
        with self._using_batches:
            file = self._get_running_file()
            self._files.reserve(n_reports * SEALED_BYTES)
            db = file.tables.connection
            with self._track_failures(file.path, db), file.transaction() as tables:
                yield tables

    @contextmanager
    def read_batches(self) -> Iterator[BatchTables]:
        """Read the batches of the running epoch. Nothing is written to them in the meantime.

        Raises:
            ClosedError: No epoch is running.
        """
        with self._using_batches:
            file = self._get_running_file()
            with self._track_failures(file.path), convert_sqlite_errors(file.path):
                yield file.tables

    def _get_running_file(self) -> BatchFile:
        if self._files.batches is None:
            raise ClosedError("no epoch is open: wait for the next one")
        return self._files.batches

    def reserve(self, n_reports: int) -> None:
        """Reserve room for this many shuffled reports, so that the disk cannot be full later."""
        with self._using_batches:
            self._files.reserve(n_reports * SEALED_BYTES)

    def write_shuffled(self, epoch: int, runs: Iterable[bytes]) -> None:
        """Write the shuffled reports of an epoch. They are on disk when this returns."""
        self._files.open_reports(epoch).write(runs)

    def read_chunk(self, flushed: FlushedEpoch, position: int) -> bytes:
        """Return the chunk at a position, from 0 on.

        Raises:
            LostError: The file of shuffled reports is too short.
        """
        start = position * flushed.chunk_reports
        n_reports = min(flushed.chunk_reports, flushed.reports - start)
        file = self._files.open_reports(flushed.epoch)
        return file.read(start * SEALED_BYTES, n_reports * SEALED_BYTES)

    def delete_settled(self, running: int | None, newest: int) -> None:
        """Delete the files that are no longer needed, as `EpochFiles.delete_others` does."""
        with self.read() as tables:
            unsettled = [flushed.epoch for flushed in tables.get_unsettled()]
        with self._using_batches:
            try:
                self._files.delete_others(running, unsettled, newest)
            except OSError as error:
                raise StoreError(
                    f"{self._folder}: {get_reason(error)}; let the proxy delete files there"
                ) from error
            if self._files.batches is None:
                # The failing files are deleted; only the database may still fail.
                self._failing &= {self._path}

    def check_writable(self) -> None:
        """Raise a `StoreError` if the database or the running batch file cannot be written."""
        with self.write() as tables:
            tables.check_writable()
        if self._files.batches is not None:
            with self.write_batches() as batches:
                batches.check_writable()

    def count_free_bytes(self) -> int:
        """Return the free bytes on the disk of the folder; 0 if the folder is gone."""
        try:
            return shutil.disk_usage(self._folder).free
        except OSError:
            return 0

    def close(self) -> None:
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_lost_file(self) -> str | None:
        """Return a message if an open file was removed or replaced, else None.

        New data in such a file would be lost.
        """
        try:
            self._file_identity.check()
            if self._files.batches is not None:
                self._files.batches.check()
        except LostError as error:
            return f"{error} (no older copy). Waiting batches are lost if it ends before the epoch"
        return None

    @contextmanager
    def _track_failures(
        self, path: Path, writer: sqlite3.Connection | None = None
    ) -> Iterator[None]:
        """Track whether using a file fails in the block, and log each change once.

        Args:
            path: The file.
            writer: The connection that writes to the file; None if the block only reads.
        """
        n_changes = 0 if writer is None else writer.total_changes
        try:
            yield
        except StoreError as error:
            if not self.is_failing:
                log.error("%s; nothing is acknowledged until that is mended", error)
            self._failing.add(path)
            self._is_damaged |= isinstance(error, LostError)
            raise
        # Only a transaction that has changed a row shows that the file can be written.
        if writer is not None and writer.total_changes > n_changes and path in self._failing:
            self._failing.discard(path)
            if not self.is_failing:
                log.warning("%s: can be written again", path)


def _make_wrong_database_error(path: Path) -> StoreError:
    return StoreError(
        f"{path}: this is no proxy's database of this version; move the folder away, and run "
        "`sottovoce proxy create-database`"
    )


def _check_exists(path: Path) -> None:
    # A misspelt or unmounted path must not start with an empty database.
    if not path.exists():
        raise StoreError(
            f"{path}: there is no such database; check `folder` in the settings, and that its disk "
            "is mounted. `sottovoce proxy create-database` makes an empty one"
        )


@contextmanager
def open_snapshot(folder: Path) -> Iterator[Tables]:
    """Open the last committed state for reading, without a lock, even while a proxy runs."""
    path = folder / DATABASE_FILE
    _check_exists(path)
    with _open_read_only(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        check_schema_version(version, path)
        if not version:
            raise _make_wrong_database_error(path)
        yield Tables(db)


def count_waiting_batches(folder: Path, epoch: int) -> int:
    """Return how many batches of an epoch wait; 0 if the epoch has no batch file.

    This takes no lock, and works while a proxy runs.
    """
    path = folder / name_batch_file(epoch)
    try:
        with _open_read_only(path) as db:
            is_ready = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'copies'").fetchone()
            return BatchTables(db).count_batches() if is_ready else 0
    except StoreError:
        if path.exists():
            raise
        # The proxy has deleted the file in the meantime.
        return 0


@contextmanager
def _open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, in one transaction that shows a single state."""
    with (
        convert_sqlite_errors(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db,
    ):
        # Otherwise Python would begin a transaction only before a statement that writes.
        db.isolation_level = None
        db.execute("BEGIN")
        yield db
