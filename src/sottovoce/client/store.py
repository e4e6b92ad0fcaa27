"""What a client remembers, in words; the SQL of the client is here and in `database`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sottovoce.client.database import MIGRATIONS, Database
from sottovoce.client.terms import Terms
from sottovoce.errors import StoreError
from sottovoce.privacy import Charge, Head

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any, Self

    from sottovoce.protocol import SignedManifest

State = Literal["stored", "charged", "sent", "dropped"]


@dataclass(frozen=True)
class Waiting:
    """A batch that has not arrived yet: its bytes, its price, and how long it is of use."""

    charge: Charge
    """The purpose is the SHA-256 of the bytes."""
    closes: int
    batch: bytes = field(repr=False)

    @property
    def epoch(self) -> int:
        """It belongs to this one alone."""
        return self.charge.epoch


class Store:
    """The client's database."""

    def __init__(self, database: Database):
        self._db = database

    @classmethod
    def create(
        cls, path: Path, *, proxy_url: str, verification_key: bytes, head: Head, terms: Terms | None
    ) -> Self:
        """Whole or not at all; refuses if there is one."""
        database = Database(path)
        try:
            if database.version:
                raise StoreError(f"{path}: there is a client already; open it")
            store = cls(database)
            with database.transaction():
                database.migrate()
                database.rows(
                    "INSERT INTO about (only, proxy_url, verification_key, head_records, head_hash)"
                    " VALUES (1, ?, ?, ?, ?)",
                    *(proxy_url, verification_key, head.records, head.hash),
                )
                if terms is not None:
                    store._pin(terms)
        except BaseException:
            database.close()
            raise
        return store

    @classmethod
    def open(cls, path: Path) -> Self:
        """Take it up where it was."""
        if not path.exists():
            raise StoreError(f"{path}: there is no client; begin one first (sottovoce client init)")
        database = Database(path)
        try:
            if database.version == 0:
                raise StoreError(
                    f"{path}: this client was cut short; begin it again (sottovoce client init)"
                )
            if database.version < len(MIGRATIONS):
                with database.transaction():
                    database.migrate()
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Let go of it."""
        self._db.close()

    # The owner's choices and whom she trusts.

    @property
    def proxy_url(self) -> str:
        """Where the proxy is."""
        return str(self._about("proxy_url"))

    @property
    def verification_key(self) -> bytes:
        """Of the one server that is believed."""
        return bytes(self._about("verification_key"))

    @property
    def paused(self) -> bool:
        """Whether nothing is to leave."""
        return bool(self._about("paused"))

    def pause(self, *, on: bool) -> None:
        """Stop reporting, or go on."""
        with self._db.transaction():
            self._db.rows("UPDATE about SET paused = ?", int(on))

    @property
    def head(self) -> Head:
        """The ledger must reach at least this far."""
        return Head(*self._db.row("SELECT head_records, head_hash FROM about"))

    @property
    def terms(self) -> Terms | None:
        """What the owner agreed to."""
        row = self._db.row("SELECT mechanism, epsilon, reports, least_clients FROM terms")
        return None if row is None else Terms(*row)

    # What she touched.

    def add(self, items: Iterable[str]) -> int:
        """How many of them are new."""
        with self._db.transaction():
            before = self._count("interactions")
            self._db.add_all(
                "INSERT OR IGNORE INTO interactions (item) VALUES (?)", [(item,) for item in items]
            )
            return self._count("interactions") - before

    def items(self) -> list[str]:
        """All of them, in the order of their names."""
        return [item for (item,) in self._db.rows("SELECT item FROM interactions ORDER BY item")]

    # What the server published.

    @property
    def newest(self) -> tuple[int, bytes] | None:
        """Epoch and hash of the last manifest accepted; survives `forget`, it is public."""
        epoch, manifest_hash = self._db.row("SELECT epoch, manifest_hash FROM about")
        return None if epoch is None else (epoch, manifest_hash)

    def signed_manifest(self) -> bytes | None:
        """The last one accepted."""
        row = self._db.row("SELECT signed FROM manifest")
        return None if row is None else row[0]

    def file(self, sha256: bytes) -> bytes | None:
        """A model or catalogue; one that the disk has spoilt is as good as none."""
        row = self._db.row("SELECT content FROM files WHERE sha256 = ?", sha256)
        if row is None or hashlib.sha256(row[0]).digest() != sha256:
            return None
        return bytes(row[0])

    def accept(self, signed: SignedManifest, files: dict[bytes, bytes], terms: Terms) -> None:
        """A manifest, and its files by their hashes, in the place of the last one: in one step."""
        manifest = signed.manifest
        with self._db.transaction():
            self._db.rows("REPLACE INTO manifest (only, signed) VALUES (1, ?)", signed.encode())
            self._db.rows(
                "UPDATE about SET epoch = ?, manifest_hash = ?", manifest.epoch, signed.hash
            )
            self._db.rows("DELETE FROM files WHERE sha256 NOT IN (?, ?)", *files)
            self._db.add_all(
                "REPLACE INTO files (sha256, content) VALUES (?, ?)",
                [(sha, content) for sha, content in files.items() if self.file(sha) is None],
            )
            self._pin(terms)

    # The batch on its way.

    def keep(self, batch: Waiting) -> None:
        """Before anything else is done with it; fails if its epoch has had one."""
        charge = batch.charge
        with self._db.transaction():
            self._db.rows(
                "INSERT INTO outbox (epoch, sha256, mechanism, epsilon, reports, closes, state,"
                " batch) VALUES (?, ?, ?, ?, ?, ?, 'stored', ?)",
                *(charge.epoch, charge.purpose, charge.mechanism, charge.epsilon, charge.reports),
                *(batch.closes, batch.batch),
            )

    def waiting(self) -> Waiting | None:
        """The batch that has neither arrived nor been given up; there is one at most."""
        row = self._db.row(
            "SELECT epoch, sha256, mechanism, epsilon, reports, closes, batch FROM outbox"
            " WHERE state IN ('stored', 'charged') ORDER BY epoch"
        )
        return None if row is None else Waiting(Charge(*row[:5]), row[5], row[6])

    def batch(self, epoch: int) -> tuple[State, bytes] | None:
        """What became of an epoch's batch, and its SHA-256."""
        found: tuple[State, bytes] | None = self._db.row(
            "SELECT state, sha256 FROM outbox WHERE epoch = ?", epoch
        )
        return found

    def charged(self, epoch: int, head: Head) -> None:
        """The ledger has it; from here on a ledger without it is refused."""
        with self._db.transaction():
            self._db.rows("UPDATE outbox SET state = 'charged' WHERE epoch = ?", epoch)
            self._pin_head(head)

    def keep_head(self, head: Head) -> None:
        """From here on a ledger that does not reach so far is refused."""
        with self._db.transaction():
            self._pin_head(head)

    def done(self, epoch: int, state: Literal["sent", "dropped"]) -> None:
        """It arrived or was given up: its bytes are of no use any more."""
        with self._db.transaction():
            self._db.rows("UPDATE outbox SET state = ?, batch = NULL WHERE epoch = ?", state, epoch)

    def batches(self) -> dict[str, int]:
        """How many there are in each state."""
        return dict(self._db.rows("SELECT state, count(*) FROM outbox GROUP BY state"))

    def forget(self) -> None:
        """Everything about the owner, and all that could be worked out from it."""
        with self._db.transaction():
            for table in ("interactions", "outbox", "manifest", "files"):
                self._db.rows(f"DELETE FROM {table}")  # noqa: S608 - names of our own
        self._db.erase_traces()

    def _about(self, column: str) -> Any:
        return self._db.row(f"SELECT {column} FROM about")[0]  # noqa: S608 - a name of our own

    def _count(self, table: str) -> int:
        return int(self._db.row(f"SELECT count(*) FROM {table}")[0])  # noqa: S608 - our own

    def _pin_head(self, head: Head) -> None:
        self._db.rows("UPDATE about SET head_records = ?, head_hash = ?", head.records, head.hash)

    def _pin(self, terms: Terms) -> None:
        self._db.rows(
            "REPLACE INTO terms (only, mechanism, epsilon, reports, least_clients)"
            " VALUES (1, ?, ?, ?, ?)",
            *(terms.mechanism, terms.epsilon, terms.reports, terms.least_clients),
        )
