"""The proxy's memory: one SQLite file, one writer, nothing acknowledged that could be lost.

What has no column is never written: no time, no address, no agent. A batch lies at a place that its
random id gives it, so that the table does not know in which order they came.
"""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Self

from sottovoce.errors import LostError, RefusedError, StoreError, reason
from sottovoce.protocol import SEALED, Batch, SignedManifest, SignedShelf
from sottovoce.storage.database import Database, SameFile, exclusive_lock, pending, store_errors

log = logging.getLogger("sottovoce")

FileKind = Literal["model", "catalogue"]

NAME = "proxy.sqlite3"
LOCK = "proxy.lock"

_PRAGMAS = (
    "auto_vacuum = INCREMENTAL",  # free pages can be given back; chosen before the first table
    "temp_store = FILE",  # an epoch's shuffle does not fit into memory
)
_MIGRATIONS = (
    (
        # By a number, since SQLite handles long rows of other tables badly: half the work.
        """CREATE TABLE batches (
            place INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            sealed BLOB NOT NULL
        )""",
        # A copy under another id is known by its first encapsulated key, which is a fresh one.
        "CREATE UNIQUE INDEX copies ON batches (substr(sealed, 1, 32))",
        # The proxy's own reports of the epoch that runs, some in a row.
        """CREATE TABLE dummies (
            part INTEGER PRIMARY KEY,
            sealed BLOB NOT NULL
        )""",
        """CREATE TABLE manifests (
            epoch INTEGER PRIMARY KEY,
            hash BLOB NOT NULL,
            signed BLOB NOT NULL,
            model BLOB NOT NULL,
            catalogue BLOB NOT NULL
        )""",
        # The newest two: the one before for those who have just read it.
        """CREATE TABLE shelves (
            place INTEGER PRIMARY KEY,
            signed BLOB NOT NULL,
            catalogue BLOB NOT NULL
        )""",
        # Keys for the tokens of one epoch each; the epoch is unknown until a manifest names it.
        """CREATE TABLE token_keys (
            seed BLOB PRIMARY KEY,
            epoch INTEGER,
            issued INTEGER NOT NULL DEFAULT 0
        )""",
        # How many tokens an account has had in a training; the last again, if it asks again.
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
            chunks INTEGER NOT NULL,
            reports INTEGER NOT NULL,
            delivered INTEGER NOT NULL,
            settled INTEGER NOT NULL
        )""",
        """CREATE TABLE chunks (
            epoch INTEGER NOT NULL,
            position INTEGER NOT NULL,
            sealed BLOB NOT NULL,
            PRIMARY KEY (epoch, position)
        ) WITHOUT ROWID""",
    ),
)
_PIECES = """
    CREATE TEMP TABLE pieces (
        bucket INTEGER NOT NULL,
        part INTEGER NOT NULL,
        sealed BLOB NOT NULL,
        PRIMARY KEY (bucket, part)
    ) WITHOUT ROWID
"""
"""Reports on their way through the shuffle: in a file without a name, gone with the transaction."""


_TRIED = 65_536
"""Bytes that are written to learn whether there is room: more than a few batches."""

_FILE: dict[FileKind, str] = {
    "model": "SELECT content FROM files JOIN manifests ON model = sha256 WHERE sha256 = ?",
    "catalogue": "SELECT content FROM files WHERE sha256 = ? AND (sha256 IN"
    " (SELECT catalogue FROM manifests) OR sha256 IN (SELECT catalogue FROM shelves))",
}


@dataclass(frozen=True)
class Flush:
    """What one epoch became: how much of it there is, and how much the server has."""

    epoch: int
    manifest_hash: bytes
    chunks: int
    reports: int
    delivered: int = 0
    """Chunks are sent in their order: those before this one have arrived."""


def place_of(batch: Batch) -> int:
    """Where it lies among the others: by its id, hashed in case that is not random."""
    return int.from_bytes(blake2b(batch.id, digest_size=8).digest(), "big", signed=True)


class Tables:
    """The tables, within a transaction that `ProxyStore` begins and ends."""

    def __init__(self, db: sqlite3.Connection):
        self._db = db

    def add_batch(self, batch: Batch) -> bool:
        """Whether it is new; a `RefusedError` if half of it is: the id, or the reports."""
        insert = "INSERT INTO batches VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if self._db.execute(insert, (place_of(batch), batch.id, batch.sealed)).rowcount:
            return True
        return not self.has_batch(batch)

    def has_batch(self, batch: Batch) -> bool:
        """Whether it is here; half of it, the id or the reports, is a `RefusedError`."""
        rows = self._db.execute(
            "SELECT id, sealed FROM batches WHERE place = ? OR substr(sealed, 1, 32) = ?",
            (place_of(batch), batch.sealed[:32]),
        ).fetchall()
        if not rows or (batch.id, batch.sealed) in rows:
            return bool(rows)
        if batch.id in [known for known, _ in rows]:
            raise RefusedError("a batch with this id and other reports is here already")
        raise RefusedError("these reports are here already, under another id")

    def count_batches(self) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM batches").fetchone()
        return int(count)

    def batches(self) -> Iterator[bytes]:
        """The sealed reports of each, in the order of their random ids."""
        for (sealed,) in self._db.execute("SELECT sealed FROM batches"):
            yield sealed

    def delete_batches(self) -> None:
        """All, and the dummies: with them goes the knowledge which reports came together."""
        self._db.execute("DELETE FROM batches")
        self._db.execute("DELETE FROM dummies")

    def add_dummies(self, sealed: bytes) -> None:
        self._db.execute("INSERT INTO dummies (sealed) VALUES (?)", (sealed,))

    def count_dummies(self) -> int:
        (size,) = self._db.execute("SELECT total(length(sealed)) FROM dummies").fetchone()
        return int(size) // SEALED

    def dummies(self) -> Iterator[bytes]:
        for (sealed,) in self._db.execute("SELECT sealed FROM dummies"):
            yield sealed

    def add_manifest(self, signed: SignedManifest) -> None:
        manifest = signed.manifest
        row = (manifest.epoch, signed.hash, signed.encode(), manifest.model, manifest.catalogue)
        self._db.execute("INSERT INTO manifests VALUES (?, ?, ?, ?, ?)", row)

    def latest_manifest(self) -> bytes | None:
        return self._one("SELECT signed FROM manifests ORDER BY epoch DESC LIMIT 1")

    def manifest_of(self, epoch: int) -> bytes | None:
        return self._one("SELECT signed FROM manifests WHERE epoch = ?", epoch)

    def add_shelf(self, signed: SignedShelf) -> None:
        row = (signed.encode(), signed.shelf.catalogue)
        self._db.execute("INSERT INTO shelves (signed, catalogue) VALUES (?, ?)", row)
        self._db.execute("DELETE FROM shelves WHERE place < (SELECT max(place) FROM shelves) - 1")

    def latest_shelf(self) -> bytes | None:
        return self._one("SELECT signed FROM shelves ORDER BY place DESC LIMIT 1")

    def add_file(self, sha256: bytes, content: bytes) -> None:
        self._db.execute("REPLACE INTO files VALUES (?, ?)", (sha256, content))

    def file(self, kind: FileKind, sha256: bytes) -> bytes | None:
        return self._one(_FILE[kind], sha256)

    def prune_files(self, keep: int) -> None:
        """Drop the files that none of the last so many epochs names, and no shelf."""
        self._db.execute(
            """
            WITH recent AS (SELECT model, catalogue FROM manifests ORDER BY epoch DESC LIMIT ?)
            DELETE FROM files
            WHERE sha256 NOT IN (
                SELECT model FROM recent UNION SELECT catalogue FROM recent
                UNION SELECT catalogue FROM shelves
            )
            """,
            (keep,),
        )

    def add_token_key(self, seed: bytes) -> None:
        self._db.execute("INSERT INTO token_keys (seed) VALUES (?)", (seed,))

    def token_keys(self) -> dict[bytes, int | None]:
        """Seeds, and the epoch of each."""
        return dict(self._db.execute("SELECT seed, epoch FROM token_keys"))

    def set_token_epoch(self, seed: bytes, epoch: int) -> None:
        self._db.execute("UPDATE token_keys SET epoch = ? WHERE seed = ?", (epoch, seed))

    def add_issued(self, epoch: int) -> None:
        """One more token of this epoch."""
        self._db.execute("UPDATE token_keys SET issued = issued + 1 WHERE epoch = ?", (epoch,))

    def issued(self, epoch: int) -> int:
        row = self._db.execute("SELECT issued FROM token_keys WHERE epoch = ?", (epoch,)).fetchone()
        return 0 if row is None else int(row[0])

    def give_back(self, epoch: int) -> None:
        """The turns of all tokens of this epoch, which has none from now on."""
        self._db.execute("UPDATE token_keys SET issued = 0 WHERE epoch = ?", (epoch,))
        self._db.execute(
            "UPDATE accounts SET turns = turns - 1, epoch = 0, blinded = x'' WHERE epoch = ?",
            (epoch,),
        )

    def forget_token_keys(self, before: int) -> None:
        """Of epochs before this one."""
        self._db.execute("DELETE FROM token_keys WHERE epoch < ?", (before,))

    def account(self, training: bytes, pseudonym: bytes) -> tuple[int, int, bytes]:
        """Tokens that it has had in this training, the epoch of the last and what it was for."""
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

    def add_flush(self, flush: Flush) -> None:
        """From here on nothing more belongs to its epoch."""
        row = (flush.epoch, flush.manifest_hash, flush.chunks, flush.reports)
        self._db.execute("INSERT INTO flushes VALUES (?, ?, ?, ?, 0, 0)", row)

    def is_flushed(self, epoch: int) -> bool:
        return self._one("SELECT 1 FROM flushes WHERE epoch = ?", epoch) is not None

    def unsettled(self) -> list[Flush]:
        """What the server has not yet confirmed, oldest first."""
        rows = self._db.execute(
            "SELECT epoch, manifest_hash, chunks, reports, delivered FROM flushes "
            "WHERE NOT settled ORDER BY epoch"
        )
        return [Flush(*row) for row in rows]

    def set_delivered(self, epoch: int, chunks: int) -> None:
        self._db.execute("UPDATE flushes SET delivered = ? WHERE epoch = ?", (chunks, epoch))

    def settle(self, epoch: int) -> None:
        """The server has it all, or will never take it: either way it is not kept."""
        self._db.execute("DELETE FROM chunks WHERE epoch = ?", (epoch,))
        self._db.execute("UPDATE flushes SET settled = 1 WHERE epoch = ?", (epoch,))

    def add_chunk(self, epoch: int, position: int, sealed: bytes) -> None:
        self._db.execute("INSERT INTO chunks VALUES (?, ?, ?)", (epoch, position, sealed))

    def chunk(self, epoch: int, position: int) -> bytes:
        sealed = self._one(
            "SELECT sealed FROM chunks WHERE epoch = ? AND position = ?", epoch, position
        )
        assert sealed is not None, "an unsettled flush has all its chunks"
        return sealed

    def try_out(self) -> None:
        """Take some pages and give them back."""
        self._db.execute("INSERT INTO files VALUES (x'', zeroblob(?))", (_TRIED,))
        self._db.execute("DELETE FROM files WHERE sha256 = x''")

    def begin_pieces(self) -> None:
        self._db.execute(_PIECES)

    def add_piece(self, bucket: int, part: int, sealed: bytes) -> None:
        self._db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (bucket, part, sealed))

    def bucket(self, bucket: int) -> bytes:
        rows = self._db.execute("SELECT sealed FROM pieces WHERE bucket = ?", (bucket,))
        return b"".join(sealed for (sealed,) in rows)

    def end_pieces(self) -> None:
        self._db.execute("DROP TABLE pieces")

    def _one(self, statement: str, *values: object) -> bytes | None:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]


class ProxyStore:
    """The tables behind locks: one connection writes, another reads while it does."""

    def __init__(self, writer: Database, reader: Database):
        self._path = writer.path
        self._writer = writer
        self._reader = reader
        self._held = ExitStack()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._file = SameFile(writer.path)
        self._is_damaged = False
        self.failing = False
        """Whether the last write failed: the disk is full, say. Once damaged, until a restart."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The store of this folder, made if there is none; refused while another has it."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{folder}: {reason(error)}; let the proxy write to its folder"
            ) from error
        with ExitStack() as opened:
            taken = "another process uses it; give each proxy a folder"
            opened.enter_context(exclusive_lock(folder / LOCK, taken, wait=1.0))
            # Shared between threads, behind the locks of the store.
            writer, reader = (
                opened.enter_context(
                    closing(Database(folder / NAME, _MIGRATIONS, _PRAGMAS, wait=1.0, shared=True))
                )
                for _ in range(2)
            )
            reader.rows("PRAGMA query_only = ON")
            store = cls(writer, reader)
            store.scrub()  # a crash may have come between a flush and its scrubbing
            store._held = opened.pop_all()
        return store

    @contextmanager
    def write(self) -> Iterator[Tables]:
        """One transaction: all of it, on disk, when the block ends; none of it after an error."""
        with self._writing, self._watching(), self._writer.transaction() as db:
            yield Tables(db)

    @contextmanager
    def read(self) -> Iterator[Tables]:
        """What was committed last; does not wait for a writer."""
        with self._reading, self._watching(writes=False), store_errors(self._path):
            yield Tables(self._reader.connection)

    def scrub(self) -> None:
        """Empty the log and give free pages back: what was deleted is then gone from the folder."""
        with self._writing, self._watching(), store_errors(self._path):
            # Not `execute`, which gives back one page.
            self._writer.connection.executescript("PRAGMA incremental_vacuum")
            with self._reading:  # while somebody reads, the log cannot be emptied
                self._writer.empty_log()

    def probe(self) -> None:
        """Learn whether writing works again: what needs room is written, and deleted."""
        with self.write() as tables:
            tables.try_out()

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    def close(self) -> None:
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lost(self) -> str | None:
        """Why what comes in would be lost with this process; what is here can be handed in."""
        try:
            self._file.check()
        except LostError as error:
            return f"{error}. What waits is handed in at the epoch's end, if it runs until then"
        return None

    @contextmanager
    def _watching(self, *, writes: bool = True) -> Iterator[None]:
        """Say once that writing fails, and once that it works again; never for each request."""
        try:
            yield
        except StoreError as error:
            if not self.failing:
                log.error("%s; nothing is acknowledged until that is mended", error)
            self.failing = True
            self._is_damaged |= isinstance(error, LostError)
            raise
        if self.failing and (self._is_damaged or not writes):
            return
        if self.failing:
            log.warning("%s: can be written again", self._path)
        self.failing = False


@contextmanager
def looking(folder: Path) -> Iterator[Tables]:
    """What was committed last, for whoever looks from outside while a proxy runs or not.

    Takes no lock, writes nothing and makes no database. Be quick: while somebody reads, a running
    proxy cannot empty its log.
    """
    path = folder / NAME
    if not path.exists():
        raise StoreError(f"{path}: there is no such database; `sottovoce proxy run` makes it")
    with (
        store_errors(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db,
    ):
        db.isolation_level = None
        db.execute("BEGIN")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if pending(version, _MIGRATIONS, path):
            raise StoreError(f"{path}: not up to date; `sottovoce proxy run` brings it up to date")
        yield Tables(db)
