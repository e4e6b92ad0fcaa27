"""The store of a client: the history, and `client.db`, which has everything else.

All SQL statements on `client.db` are here and in `ledger_table`.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from sottovoce.client.history import CLIENT_PRAGMAS, History
from sottovoce.client.ledger_table import CHARGE_COLUMNS, append_entry, read_ledger
from sottovoce.client.timing import EpochPlan
from sottovoce.errors import BudgetExceededError, SettingsError, StoreError
from sottovoce.privacy import Charge, Ledger
from sottovoce.protocol import Manifest, Newest, SignedManifest, SignedShelf, Terms
from sottovoce.protocol.tokens import Token
from sottovoce.storage.database import Database, exclusive_lock

DATABASE_FILE = "client.db"
BatchState = Literal["charged", "sent", "dropped"]
SaveResult = Literal["saved", "limit reached", "forgotten", "paused"]

_TABLES = (
    # The single row of this table has:
    # - `terms`: the terms that the owner accepted, as JSON, or NULL;
    # - `asked`: the name of worse terms that the server has asked for since, or NULL;
    # - `generation`: random bytes, which each `forget` draws again;
    # - `head`: the hash of the last record of the ledger;
    # - `epoch` and `manifest_hash`: of the last accepted manifest;
    # - `shelf`: the last accepted signed shelf.
    """CREATE TABLE settings (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        proxy_url TEXT NOT NULL,
        verification_key BLOB NOT NULL,
        paused INTEGER NOT NULL DEFAULT 0,
        terms TEXT,
        asked TEXT,
        generation BLOB NOT NULL,
        head TEXT NOT NULL,
        epoch INTEGER,
        manifest_hash BLOB,
        shelf BLOB
    ) STRICT""",
    """CREATE TABLE manifest (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        signed BLOB NOT NULL
    ) STRICT""",
    "CREATE TABLE files (sha256 BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT",
    # The decisions of the device's random coins about an epoch, made before the history is read.
    """CREATE TABLE plans (
        epoch INTEGER PRIMARY KEY,
        takes_part INTEGER NOT NULL,
        send_at REAL NOT NULL
    ) STRICT""",
    # Whether the coins decided to ask for the token of an epoch, and the token once it was issued.
    """CREATE TABLE tokens (
        epoch INTEGER PRIMARY KEY,
        takes_part INTEGER NOT NULL,
        token_key BLOB,
        id BLOB,
        output BLOB
    ) STRICT""",
    # Each row is a charge or a limit; a limit has only `epsilon`. The UNIQUE constraints are the
    # last line of defence: the table itself refuses a second charge for an epoch or for a batch.
    """CREATE TABLE ledger (
        record INTEGER PRIMARY KEY,
        hash TEXT NOT NULL,
        training BLOB,
        epoch INTEGER UNIQUE,
        purpose BLOB UNIQUE,
        mechanism TEXT,
        epsilon REAL NOT NULL,
        reports INTEGER,
        loud_fraction REAL,
        clients INTEGER,
        dummies INTEGER,
        CHECK (
            (training IS NULL) + (epoch IS NULL) + (purpose IS NULL) + (mechanism IS NULL)
            + (reports IS NULL) + (loud_fraction IS NULL) + (clients IS NULL)
            + (dummies IS NULL) IN (0, 8)
        )
    ) STRICT""",
    # A batch is 'charged' while it waits to be sent, 'sent' after the proxy accepted it, and
    # 'dropped' if its epoch ended before. `not_before`: the proxy asked not to be sent the batch
    # before this time.
    """CREATE TABLE outbox (
        epoch INTEGER PRIMARY KEY,
        send_at REAL NOT NULL,
        not_before REAL NOT NULL DEFAULT 0,
        ends INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('charged', 'sent', 'dropped')),
        batch BLOB,
        CHECK ((batch IS NULL) = (state IN ('sent', 'dropped')))
    ) STRICT""",
)


@dataclass(frozen=True)
class UnsentBatch:
    """A batch that the proxy has not accepted yet. Times are in Unix seconds."""

    charge: Charge
    """What the ledger is charged for the batch."""
    send_at: float
    """The earliest time of sending, which was fixed before the history was read."""
    ends: int
    """The time when the batch's epoch ends; from then on the batch is not sent."""
    not_before: float = 0.0
    """The proxy asked not to be sent the batch before this time; 0 if it did not."""
    batch: bytes = field(repr=False, kw_only=True)
    """The encoded batch."""

    @property
    def epoch(self) -> int:
        """The epoch that the batch belongs to."""
        return self.charge.epoch

    @property
    def matches_charge(self) -> bool:
        """Whether the bytes of the batch are the ones that were charged."""
        return hashlib.sha256(self.batch).digest() == self.charge.purpose


class TrustState(NamedTuple):
    """The values that the next manifest and shelf are compared with."""

    key: bytes
    """The server's verification key."""
    newest: Newest | None
    """Epoch and hash of the last accepted manifest; None before the first."""
    shelf: Newest | None
    """Time and hash of the last accepted shelf; None before the first."""


class ClientStore:
    """The two databases of a client: the history, which a sync only reads, and `client.db`."""

    def __init__(self, folder: Path):
        self.history = History(folder / "client.history.db")
        try:
            self._db = Database(
                folder / DATABASE_FILE, _TABLES, CLIENT_PRAGMAS, create=False, stays=True
            )
        except BaseException:
            self.history.close()
            raise

    @classmethod
    def create(cls, folder: Path, *, proxy_url: str, verification_key: bytes, limit: float) -> Self:
        """Create the databases; raise a `StoreError` if the folder already has a client."""
        first = Ledger(limit).entries[0]
        store = cls(folder)
        with store._closed_on_failure():
            if store._db.version:
                raise StoreError(
                    f"{store._db.path}: there is a client already. To create another, name another "
                    "folder, or move this one away: its ledger, which records what was spent, goes "
                    "with it"
                )
            with store._db.transaction():
                store._db.create_tables()
                store._db.rows(
                    "INSERT INTO settings (only, proxy_url, verification_key, generation, head)"
                    " VALUES (1, ?, ?, randomblob(16), ?)",
                    *(proxy_url, verification_key, first.hash),
                )
                append_entry(store._db, first)
        return store

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the databases that `create` made."""
        path = folder / DATABASE_FILE
        if not path.exists():
            raise StoreError(f"{path}: there is no client; begin one first (sottovoce client init)")
        store = cls(folder)
        with store._closed_on_failure():
            if store._db.version == 0:
                raise StoreError(
                    f"{path}: creating this client was interrupted; begin it again "
                    "(sottovoce client init)"
                )
        return store

    def close(self) -> None:
        self.history.close()
        self._db.close()

    # The owner's choices.

    @property
    def proxy_url(self) -> str:
        return str(self._about("proxy_url"))

    @property
    def paused(self) -> bool:
        return bool(self._about("paused"))

    def pause(self, *, on: bool) -> None:
        """Stop reporting (`on`), or resume it; after a pause has returned, no batch leaves."""
        self._db.write("UPDATE settings SET paused = ?", int(on))
        if on:
            self._wait_for_request()

    @property
    def terms(self) -> Terms | None:
        """The terms that the owner accepted; None before that."""
        accepted = self._about("terms")
        return None if accepted is None else Terms.from_json(json.loads(accepted))

    def accept(self, terms: Terms, limit: float) -> None:
        """Store in one transaction that the owner accepted these terms and this limit.

        Raises:
            SettingsError: The server now asks for other terms; nothing was stored.
        """
        with self._db.transaction():
            pending = self.pending_terms
            if pending not in (None, terms.name):
                raise SettingsError(
                    f"the server now asks for the terms {pending}, no longer for {terms.name}: "
                    "nothing was accepted; show the owner the new terms and ask again"
                )
            self._append_limit(limit)
            accepted = json.dumps(terms.as_dict())
            self._db.rows("UPDATE settings SET terms = ?, asked = NULL", accepted)

    @property
    def pending_terms(self) -> str | None:
        """The name of worse terms that the owner has not answered yet; None if there are none."""
        name: str | None = self._about("asked")
        return name

    def set_pending_terms(self, name: str) -> None:
        """Store the name of worse terms that the owner has to answer."""
        self._db.write("UPDATE settings SET asked = ?", name)

    # What the server published.

    @property
    def trusted(self) -> TrustState:
        """The trusted key, and the last accepted manifest and shelf."""
        key, data = bytes(self._about("verification_key")), self.get_signed_shelf()
        signed = None if data is None else SignedShelf.open(data, key)
        shelf = None if signed is None else (signed.shelf.published, signed.hash)
        return TrustState(key, self.newest, shelf)

    def get_signed_shelf(self) -> bytes | None:
        """Return the last accepted shelf, if any. It is public, so `forget` keeps it."""
        shelf: bytes | None = self._about("shelf")
        return shelf

    @property
    def newest(self) -> Newest | None:
        """Epoch and hash of the last accepted manifest, if any; `forget` keeps both."""
        epoch, manifest_hash = self._db.row("SELECT epoch, manifest_hash FROM settings")
        return None if epoch is None else (epoch, manifest_hash)

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context manager: all reads within it see the same state of the database."""
        return self._db.snapshot()

    def get_signed_manifest(self) -> bytes | None:
        """Return the last accepted manifest; None before the first sync or after `forget`."""
        row = self._db.row("SELECT signed FROM manifest")
        return None if row is None else row[0]

    def get_file(self, sha256: bytes) -> bytes | None:
        """Return the model or catalogue with this hash, or None if it is missing or damaged."""
        row = self._db.row("SELECT content FROM files WHERE sha256 = ?", sha256)
        if row is None or hashlib.sha256(row[0]).digest() != sha256:
            return None
        return bytes(row[0])

    @property
    def has_files(self) -> bool:
        """Whether files of an earlier release are stored; False after `forget`."""
        return self._db.row("SELECT 1 FROM files LIMIT 1") is not None

    def save_release(
        self, signed: SignedManifest, shelf: SignedShelf, files: dict[bytes, bytes]
    ) -> None:
        """Replace the manifest, the shelf and their files in one transaction.

        From then on the key that signed the manifest is the trusted key.

        Args:
            signed: The verified manifest.
            shelf: The verified shelf.
            files: The model and the catalogues, by SHA-256.
        """
        manifest = signed.manifest
        with self._db.transaction():
            self._db.rows("REPLACE INTO manifest (only, signed) VALUES (1, ?)", signed.encode())
            self._db.rows(
                "UPDATE settings SET epoch = ?, manifest_hash = ?, verification_key = ?, shelf = ?,"
                " asked = NULL",
                *(manifest.epoch, signed.hash, signed.key, shelf.encode()),
            )
            self._save_files(manifest, shelf, files)

    def save_shelf(self, manifest: Manifest, shelf: SignedShelf, files: dict[bytes, bytes]) -> None:
        """Replace only the shelf and its catalogue, while the owner has not accepted new terms."""
        with self._db.transaction():
            self._db.rows("UPDATE settings SET shelf = ?", shelf.encode())
            self._save_files(manifest, shelf, files)

    def _save_files(
        self, manifest: Manifest, shelf: SignedShelf, files: dict[bytes, bytes]
    ) -> None:
        self._db.rows(
            "DELETE FROM files WHERE sha256 NOT IN (?, ?, ?)",
            *(manifest.model, manifest.catalogue, shelf.shelf.catalogue),
        )
        self._db.add_all(
            "REPLACE INTO files (sha256, content) VALUES (?, ?)",
            [(sha, content) for sha, content in files.items() if self.get_file(sha) is None],
        )

    # The decisions of the coins, the ledger, and the batch.

    def get_plan(self, epoch: int) -> EpochPlan | None:
        """Return the stored plan of an epoch, or None if none was drawn yet."""
        row = self._db.row("SELECT epoch, takes_part, send_at FROM plans WHERE epoch = ?", epoch)
        return None if row is None else EpochPlan(row[0], bool(row[1]), row[2])

    def save_plan(self, plan: EpochPlan) -> None:
        """Store the plan of an epoch, and delete the plans of earlier epochs."""
        with self._db.transaction():
            self._db.rows("DELETE FROM plans WHERE epoch < ?", plan.epoch)
            self._db.rows(
                "INSERT INTO plans (epoch, takes_part, send_at) VALUES (?, ?, ?)",
                *(plan.epoch, int(plan.takes_part), plan.send_at),
            )

    def wants_token(self, epoch: int) -> bool | None:
        """Return whether to ask for the token of an epoch; None if that is not decided yet."""
        row = self._db.row("SELECT takes_part FROM tokens WHERE epoch = ?", epoch)
        return None if row is None else bool(row[0])

    def save_token_decision(self, epoch: int, *, takes_part: bool) -> None:
        """Store whether to ask for the token of the next epoch.

        The tokens of epochs before the current one are deleted.

        Args:
            epoch: The next epoch.
            takes_part: Whether to ask for its token.
        """
        with self._db.transaction():
            self._db.rows("DELETE FROM tokens WHERE epoch < ?", epoch - 1)
            self._db.rows(
                "INSERT INTO tokens (epoch, takes_part) VALUES (?, ?)"
                " ON CONFLICT (epoch) DO UPDATE SET takes_part = excluded.takes_part",
                *(epoch, int(takes_part)),
            )

    def save_token(self, epoch: int, token_key: bytes, token: Token) -> None:
        """Store the token of an epoch, and the public key that verified it."""
        self._db.write(
            "UPDATE tokens SET token_key = ?, id = ?, output = ? WHERE epoch = ?",
            *(token_key, token.id, token.output, epoch),
        )

    def get_token(self, epoch: int, token_key: bytes | None) -> Token | None:
        """Return the token of an epoch, or None if there is none that was made with this key."""
        row = self._db.row(
            "SELECT id, output FROM tokens WHERE epoch = ? AND token_key = ?", epoch, token_key
        )
        return None if row is None else Token(row[0], row[1])

    def read_ledger(self) -> Ledger:
        """Read and verify the ledger; raise a `LedgerError` if it is damaged."""
        return read_ledger(self._db)

    def set_limit(self, limit: float) -> None:
        """Append a new limit to the ledger, unless it is the current one."""
        with self._db.transaction():
            self._append_limit(limit)

    def _append_limit(self, limit: float) -> None:
        entry = self.read_ledger().set_limit(limit)
        if entry is not None:
            append_entry(self._db, entry)

    @property
    def generation(self) -> bytes:
        """Random bytes that change with every `forget`."""
        return bytes(self._about("generation"))

    def save_batch(self, batch: UnsentBatch, generation: bytes) -> SaveResult:
        """Store a batch together with its charge, or neither. Only a saved batch may be sent.

        One transaction compares the generation, checks the pause and the limit, and writes the
        batch and the charge. It fails if the epoch already has a batch or a charge.

        Args:
            batch: The batch.
            generation: The generation that was read before the history (see `forget`).

        Returns:
            "saved", or the reason why nothing was stored.
        """
        with self._db.transaction():
            # The history was read from this file. If the folder was removed or replaced since, the
            # history may belong to a client that no longer exists.
            self.history.check_file()
            if generation != self.generation:
                return "forgotten"
            # The owner may have paused while the batch was computed.
            if self.paused:
                return "paused"
            try:
                entry = self.read_ledger().charge(batch.charge)
            except BudgetExceededError:
                return "limit reached"
            append_entry(self._db, entry)
            self._db.rows(
                "INSERT INTO outbox (epoch, send_at, ends, state, batch)"
                " VALUES (?, ?, ?, 'charged', ?)",
                *(batch.epoch, batch.send_at, batch.ends, batch.batch),
            )
            return "saved"

    def get_waiting_batch(self) -> UnsentBatch | None:
        """Return the batch that is neither sent nor given up, if any; there is at most one."""
        row = self._db.row(
            f"SELECT {CHARGE_COLUMNS}, send_at, ends, not_before, batch"  # noqa: S608 - names of our own
            " FROM outbox JOIN ledger USING (epoch) WHERE state = 'charged' ORDER BY epoch"
        )
        if row is None:
            return None
        *charge, send_at, ends, not_before, batch = row
        return UnsentBatch(Charge(*charge), send_at, ends, not_before, batch=batch)

    def get_batch_state(self, epoch: int) -> BatchState | None:
        """Return the state of an epoch's batch; None if none was made or it was forgotten."""
        row = self._db.row("SELECT state FROM outbox WHERE epoch = ?", epoch)
        return None if row is None else row[0]

    def is_charged(self, epoch: int) -> bool:
        """Return whether the ledger has a charge for an epoch."""
        return self._db.row("SELECT 1 FROM ledger WHERE epoch = ?", epoch) is not None

    def finish_batch(self, epoch: int, state: Literal["sent", "dropped"]) -> None:
        """Store that a batch was sent or given up, and delete its bytes."""
        self._db.write("UPDATE outbox SET state = ?, batch = NULL WHERE epoch = ?", state, epoch)

    def postpone_batch(self, epoch: int, not_before: float) -> None:
        """Store that a batch must not be sent before this time, in Unix seconds."""
        self._db.write("UPDATE outbox SET not_before = ? WHERE epoch = ?", not_before, epoch)

    def count_batches(self) -> dict[str, int]:
        """Return the number of batches in each state."""
        return dict(self._db.rows("SELECT state, count(*) FROM outbox GROUP BY state"))

    @contextmanager
    def lock_sending(self) -> Iterator[None]:
        """Hold the lock for the last checks before a request and for the request itself.

        `pause` and `forget` wait for this lock.

        Raises:
            LostError: The client's folder was removed or replaced, for example by a backup.
        """
        message = "a batch is being sent; try again when that has ended"
        with exclusive_lock(self._db.path.with_name("client.sending.lock"), message, wait=60.0):
            # A sync may have slept for an hour. If the folder was replaced meanwhile, the open file
            # is not that of the client in the folder, and its charges, terms and pause are wrong.
            self._db.check_file()
            yield

    def forget(self) -> None:
        """Delete the history, everything that was computed from it, and the model.

        The ledger is kept: it has no items, and reports that left cannot be called back. This does
        not wait for a sync to end, only for a request that is under way. Once it has returned, no
        batch that was made of the deleted history is stored or sent.
        """
        # The history is deleted first. Then one transaction deletes the batch and changes the
        # generation. A sync reads the generation before the history. If a sync that has read the
        # old history calls `save_batch` before this transaction, the transaction deletes the batch.
        # If it calls `save_batch` later, `save_batch` sees that the generation has changed.
        self.history.clear()
        with self._db.transaction():
            for table in ("outbox", "manifest", "files"):
                self._db.rows(f"DELETE FROM {table}")  # noqa: S608 - names of our own
            self._db.rows("UPDATE settings SET generation = randomblob(16)")
        self.history.scrub()
        self._db.scrub()
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Wait until a request ends whose checks may have been made before the last change."""
        with self.lock_sending():
            pass

    def _about(self, column: str) -> Any:
        row = self._db.row(f"SELECT {column} FROM settings")  # noqa: S608 - a name of our own
        if row is None:
            raise StoreError(f"{self._db.path}: the file is damaged: restore it")
        return row[0]

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
