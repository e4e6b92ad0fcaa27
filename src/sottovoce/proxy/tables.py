"""Every statement that the proxy's database understands, one method each."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from sottovoce.errors import RefusedError
from sottovoce.proxy.schema import PIECES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from sottovoce.protocol import Batch, SignedManifest


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
    """Where it lies among the others: by its random id, spread in case it should not be one."""
    return int.from_bytes(blake2b(batch.id, digest_size=8).digest(), "big", signed=True)


class Tables:
    """The tables, within a transaction that `ProxyStore` begins and ends."""

    def __init__(self, db: sqlite3.Connection):
        self._db = db

    def touch(self, version: int) -> None:
        """Write the number of the schema once more."""
        self._db.execute(f"PRAGMA user_version = {version:d}")

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
        """How many people wait."""
        return int(self._db.execute("SELECT count(*) FROM batches").fetchone()[0])

    def batches(self) -> Iterator[bytes]:
        """The sealed reports of each, in the order of their random ids."""
        for (sealed,) in self._db.execute("SELECT sealed FROM batches"):
            yield sealed

    def delete_batches(self) -> None:
        """All: with them goes the knowledge which reports came together."""
        self._db.execute("DELETE FROM batches")

    def add_manifest(self, signed: SignedManifest) -> None:
        manifest = signed.manifest
        row = (manifest.epoch, signed.hash, signed.encode(), manifest.model, manifest.catalogue)
        self._db.execute("INSERT INTO manifests VALUES (?, ?, ?, ?, ?)", row)

    def latest_manifest(self) -> bytes | None:
        return self._one("SELECT signed FROM manifests ORDER BY epoch DESC LIMIT 1")

    def manifest_of(self, epoch: int) -> bytes | None:
        return self._one("SELECT signed FROM manifests WHERE epoch = ?", epoch)

    def add_file(self, sha256: bytes, content: bytes) -> None:
        self._db.execute("REPLACE INTO files VALUES (?, ?)", (sha256, content))

    def model(self, sha256: bytes) -> bytes | None:
        """The file, if some manifest calls it a model."""
        return self._one(
            "SELECT content FROM files "
            "WHERE sha256 = ? AND sha256 IN (SELECT model FROM manifests)",
            sha256,
        )

    def catalogue(self, sha256: bytes) -> bytes | None:
        """The file, if some manifest calls it a catalogue."""
        return self._one(
            "SELECT content FROM files "
            "WHERE sha256 = ? AND sha256 IN (SELECT catalogue FROM manifests)",
            sha256,
        )

    def prune_files(self, keep: int) -> None:
        """Drop the files that none of the last so many epochs names."""
        self._db.execute(
            """
            WITH recent AS (SELECT model, catalogue FROM manifests ORDER BY epoch DESC LIMIT ?)
            DELETE FROM files
            WHERE sha256 NOT IN (SELECT model FROM recent UNION SELECT catalogue FROM recent)
            """,
            (keep,),
        )

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
        """The next run of shuffled reports."""
        self._db.execute("INSERT INTO chunks VALUES (?, ?, ?)", (epoch, position, sealed))

    def chunk(self, epoch: int, position: int) -> bytes:
        sealed = self._one(
            "SELECT sealed FROM chunks WHERE epoch = ? AND position = ?", epoch, position
        )
        assert sealed is not None, "an unsettled flush has all its chunks"
        return sealed

    def begin_pieces(self) -> None:
        """A place for the shuffle's pieces, in a temporary file."""
        self._db.execute(PIECES)

    def add_piece(self, bucket: int, part: int, sealed: bytes) -> None:
        """Reports that fell into this bucket."""
        self._db.execute("INSERT INTO pieces VALUES (?, ?, ?)", (bucket, part, sealed))

    def bucket(self, bucket: int) -> bytes:
        """All reports that fell into it."""
        rows = self._db.execute("SELECT sealed FROM pieces WHERE bucket = ?", (bucket,))
        return b"".join(sealed for (sealed,) in rows)

    def end_pieces(self) -> None:
        self._db.execute("DROP TABLE pieces")

    def _one(self, statement: str, *values: object) -> bytes | None:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]
