"""`client.db`: all that a client remembers but the history, its tables and every statement on them.

The ledger has a table of its own. Each row has the hash of its record (`sottovoce.privacy.ledger`),
and the table `about` that of the last one: a row that was changed, or is missing anywhere, is
noticed, and then nothing is reported.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from sottovoce.client.history import PRAGMAS, History
from sottovoce.client.timing import EpochPlan
from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError, StoreError
from sottovoce.privacy import Charge, Entry, Ledger, Limit
from sottovoce.protocol import Manifest, Newest, SignedManifest, SignedShelf, Terms
from sottovoce.protocol.tokens import Token
from sottovoce.storage.database import Database, exclusive_lock

NAME = "client.db"
State = Literal["charged", "sent", "dropped"]
SaveResult = Literal["saved", "limit reached", "forgotten"]

_MIGRATIONS = (
    (
        # `terms`: what the owner accepted, as JSON; NULL before. `asked`: the name of worse ones
        # that were asked for since: a question waits. `generation`: new after a `forget`.
        """CREATE TABLE about (
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
        # What the device's own coins said of an epoch, before any history was read.
        """CREATE TABLE plans (
            epoch INTEGER PRIMARY KEY,
            takes_part INTEGER NOT NULL,
            send_at REAL NOT NULL
        ) STRICT""",
        # Whether the coins want a token for an epoch to come, and the token, once it is here.
        """CREATE TABLE tokens (
            epoch INTEGER PRIMARY KEY,
            takes_part INTEGER NOT NULL,
            token_key BLOB,
            id BLOB,
            output BLOB
        ) STRICT""",
        # A charge, or a limit: that has its epsilon alone. The last line of defence: the table
        # itself refuses a second charge for an epoch or for a batch.
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
        # 'charged' waits to be sent; 'sent' arrived; 'dropped' came too late. `not_before`: the
        # proxy asked for it.
        """CREATE TABLE outbox (
            epoch INTEGER PRIMARY KEY,
            send_at REAL NOT NULL,
            not_before REAL NOT NULL DEFAULT 0,
            ends INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('charged', 'sent', 'dropped')),
            batch BLOB,
            CHECK ((batch IS NULL) = (state IN ('sent', 'dropped')))
        ) STRICT""",
    ),
)
_FIELDS = [each.name for each in fields(Charge)]
_CHARGE = ", ".join(_FIELDS)
"""The columns of a charge, in the order of its fields."""


@dataclass(frozen=True)
class UnsentBatch:
    """A batch that has not arrived yet: its bytes, its price, and when it is of use."""

    charge: Charge
    send_at: float
    """Not before: drawn before the history was read."""
    ends: int
    not_before: float = 0.0
    """The proxy asked to be left alone until then."""
    batch: bytes = field(repr=False, kw_only=True)

    @property
    def epoch(self) -> int:
        """It belongs to this one alone."""
        return self.charge.epoch

    @property
    def matches_charge(self) -> bool:
        """A charge names its batch by the SHA-256 of the bytes."""
        return hashlib.sha256(self.batch).digest() == self.charge.purpose


class TrustState(NamedTuple):
    key: bytes
    """Of the one server that is believed."""
    newest: Newest | None
    """Epoch and hash of its last manifest, if there was one."""
    shelf: Newest | None
    """Time and hash of its last shelf, if there was one."""


class ClientStore:
    """Two files: the history, which a sync only reads, and all else."""

    def __init__(self, folder: Path):
        self.history = History(folder / "client.history.db")
        try:
            self._db = Database(folder / NAME, _MIGRATIONS, PRAGMAS, upgrade=False)
        except BaseException:
            self.history.close()
            raise

    @classmethod
    def create(cls, folder: Path, *, proxy_url: str, verification_key: bytes, limit: float) -> Self:
        """Whole or not at all; refuses if there is one."""
        first = Ledger(limit).entries[0]
        store = cls(folder)
        with store._closed_on_failure():
            if store._db.version:
                raise StoreError(
                    f"{store._db.path}: there is a client already. To begin another, name another "
                    "folder, or move this one away: its ledger, which knows what was spent, goes "
                    "with it"
                )
            with store._db.transaction():
                store._db.migrate()
                store._db.rows(
                    "INSERT INTO about (only, proxy_url, verification_key, generation, head)"
                    " VALUES (1, ?, ?, randomblob(16), ?)",
                    *(proxy_url, verification_key, first.hash),
                )
                append_entry(store._db, first)
        return store

    @classmethod
    def open(cls, folder: Path) -> Self:
        path = folder / NAME
        if not path.exists():
            raise StoreError(f"{path}: there is no client; begin one first (sottovoce client init)")
        store = cls(folder)
        with store._closed_on_failure():
            if store._db.version == 0:
                raise StoreError(
                    f"{path}: this client was cut short; begin it again (sottovoce client init)"
                )
            store._db.upgrade()
        return store

    def close(self) -> None:
        self.history.close()
        self._db.close()

    # The owner's choices and whom they trust.

    @property
    def proxy_url(self) -> str:
        return str(self._about("proxy_url"))

    @property
    def paused(self) -> bool:
        return bool(self._about("paused"))

    def pause(self, *, on: bool) -> None:
        """Stop reporting, or go on. No batch leaves once a pause has returned."""
        self._db.write("UPDATE about SET paused = ?", int(on))
        if on:
            self._wait_for_request()

    @property
    def terms(self) -> Terms | None:
        """What the owner accepted; None before."""
        accepted = self._about("terms")
        return None if accepted is None else Terms.from_json(json.loads(accepted))

    def accept(self, terms: Terms) -> None:
        """The owner has seen these terms and said yes."""
        self._db.write("UPDATE about SET terms = ?, asked = NULL", json.dumps(terms.as_dict()))

    @property
    def pending_terms(self) -> str | None:
        """The name of worse terms that the server asks for; None: no question waits."""
        asked: str | None = self._about("asked")
        return asked

    def set_pending_terms(self, asked: str) -> None:
        """The owner's answer is wanted."""
        self._db.write("UPDATE about SET asked = ?", asked)

    # What the server published.

    @property
    def trusted(self) -> TrustState:
        """By what the next manifest is judged."""
        key, shelf = bytes(self._about("verification_key")), self.get_signed_shelf()
        signed = None if shelf is None else SignedShelf.open(shelf, key)
        seen = None if signed is None else (signed.shelf.published, signed.hash)
        return TrustState(key, self.newest, seen)

    def get_signed_shelf(self) -> bytes | None:
        """The last one accepted; survives `forget`, it is public."""
        shelf: bytes | None = self._about("shelf")
        return shelf

    @property
    def newest(self) -> Newest | None:
        """Epoch and hash of the last manifest accepted; survives `forget`, it is public."""
        epoch, manifest_hash = self._db.row("SELECT epoch, manifest_hash FROM about")
        return None if epoch is None else (epoch, manifest_hash)

    def snapshot(self) -> AbstractContextManager[None]:
        """What is read in the block belongs together: a sync elsewhere may replace all of it."""
        return self._db.snapshot()

    def get_signed_manifest(self) -> bytes | None:
        """The last one accepted."""
        row = self._db.row("SELECT signed FROM manifest")
        return None if row is None else row[0]

    def get_file(self, sha256: bytes) -> bytes | None:
        """A model or catalogue; one that the disk has spoilt is as good as none."""
        row = self._db.row("SELECT content FROM files WHERE sha256 = ?", sha256)
        if row is None or hashlib.sha256(row[0]).digest() != sha256:
            return None
        return bytes(row[0])

    def save_release(
        self, signed: SignedManifest, shelf: SignedShelf, files: dict[bytes, bytes]
    ) -> None:
        """A manifest, a shelf, and their files by their hashes, in the place of the last ones.

        In one step. The key that signed the manifest is the trusted one from now on.
        """
        manifest = signed.manifest
        with self._db.transaction():
            self._db.rows("REPLACE INTO manifest (only, signed) VALUES (1, ?)", signed.encode())
            self._db.rows(
                "UPDATE about SET epoch = ?, manifest_hash = ?, verification_key = ?, shelf = ?,"
                " asked = NULL",
                *(manifest.epoch, signed.hash, signed.key, shelf.encode()),
            )
            self._keep_files(manifest, shelf, files)

    def save_shelf(self, manifest: Manifest, shelf: SignedShelf, files: dict[bytes, bytes]) -> None:
        """A shelf and its catalogue next to the last manifest, while worse terms wait for a yes."""
        with self._db.transaction():
            self._db.rows("UPDATE about SET shelf = ?", shelf.encode())
            self._keep_files(manifest, shelf, files)

    def _keep_files(
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

    # What the coins said, the ledger, and the batch on its way.

    def get_plan(self, epoch: int) -> EpochPlan | None:
        row = self._db.row("SELECT epoch, takes_part, send_at FROM plans WHERE epoch = ?", epoch)
        return None if row is None else EpochPlan(row[0], bool(row[1]), row[2])

    def save_plan(self, plan: EpochPlan) -> None:
        """In the place of those of earlier epochs."""
        with self._db.transaction():
            self._db.rows("DELETE FROM plans WHERE epoch < ?", plan.epoch)
            self._db.rows(
                "INSERT INTO plans (epoch, takes_part, send_at) VALUES (?, ?, ?)",
                *(plan.epoch, int(plan.takes_part), plan.send_at),
            )

    def wants_token(self, epoch: int) -> bool | None:
        """What the coins said; None: they were not tossed yet."""
        row = self._db.row("SELECT takes_part FROM tokens WHERE epoch = ?", epoch)
        return None if row is None else bool(row[0])

    def save_token_decision(self, epoch: int, *, takes_part: bool) -> None:
        """In the place of those of epochs that are over."""
        with self._db.transaction():
            self._db.rows("DELETE FROM tokens WHERE epoch < ?", epoch - 1)
            self._db.rows(
                "INSERT INTO tokens (epoch, takes_part) VALUES (?, ?)"
                " ON CONFLICT (epoch) DO UPDATE SET takes_part = excluded.takes_part",
                *(epoch, int(takes_part)),
            )

    def save_token(self, epoch: int, token_key: bytes, token: Token) -> None:
        self._db.write(
            "UPDATE tokens SET token_key = ?, id = ?, output = ? WHERE epoch = ?",
            *(token_key, token.id, token.output, epoch),
        )

    def get_token(self, epoch: int, token_key: bytes | None) -> Token | None:
        """Of this epoch, if it was made with this key."""
        row = self._db.row(
            "SELECT id, output FROM tokens WHERE epoch = ? AND token_key = ?", epoch, token_key
        )
        return None if row is None else Token(row[0], row[1])

    def read_ledger(self) -> Ledger:
        """What was spent; a `LedgerError` if that is not known for certain."""
        return read_ledger(self._db)

    def set_limit(self, limit: float) -> None:
        """Another limit, on the record."""
        with self._db.transaction():
            entry = self.read_ledger().set_limit(limit)
            if entry is not None:
                append_entry(self._db, entry)

    @property
    def generation(self) -> bytes:
        """Another one after every `forget`."""
        return bytes(self._about("generation"))

    def save_batch(self, batch: UnsentBatch, generation: bytes) -> SaveResult:
        """Keep a batch and charge for it, or neither; only one that was kept may be sent.

        `generation` was read before the history that it is made of: see `forget`. One transaction
        compares it, reads the ledger, checks the limit and writes both. Fails if the epoch has had
        a batch or a charge.
        """
        with self._db.transaction():
            if generation != self.generation:
                return "forgotten"
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
        """The batch that has neither arrived nor been given up; there is one at most."""
        row = self._db.row(
            f"SELECT {_CHARGE}, send_at, ends, not_before, batch"  # noqa: S608 - names of our own
            " FROM outbox JOIN ledger USING (epoch) WHERE state = 'charged' ORDER BY epoch"
        )
        if row is None:
            return None
        *charged, send_at, ends, not_before, batch = row
        return UnsentBatch(Charge(*charged), send_at, ends, not_before, batch=batch)

    def get_batch_state(self, epoch: int) -> State | None:
        """What became of an epoch's batch, as far as it was not forgotten."""
        row = self._db.row("SELECT state FROM outbox WHERE epoch = ?", epoch)
        return None if row is None else row[0]

    def is_charged(self, epoch: int) -> bool:
        """Whether it has had its batch, whatever became of that."""
        return self._db.row("SELECT 1 FROM ledger WHERE epoch = ?", epoch) is not None

    def finish_batch(self, epoch: int, state: Literal["sent", "dropped"]) -> None:
        """It arrived or was given up: its bytes are of no use any more."""
        self._db.write("UPDATE outbox SET state = ?, batch = NULL WHERE epoch = ?", state, epoch)

    def postpone_batch(self, epoch: int, not_before: float) -> None:
        """Not to be sent before that moment; a restart does not forget it."""
        self._db.write("UPDATE outbox SET not_before = ? WHERE epoch = ?", not_before, epoch)

    def count_batches(self) -> dict[str, int]:
        return dict(self._db.rows("SELECT state, count(*) FROM outbox GROUP BY state"))

    def lock_sending(self) -> AbstractContextManager[None]:
        """Hold the lock that is taken before the last checks of a batch, until it was sent."""
        taken = "a batch is being sent; try again when that has ended"
        return exclusive_lock(self._db.path.with_name("client.sending.lock"), taken, wait=60.0)

    def forget(self) -> None:
        """Everything about the owner, and all that could be worked out from it.

        The ledger stays: it has no item, and what left cannot be called back. It waits for no sync,
        and no batch of what is forgotten is kept or sent once it returns. The history goes first,
        then in one step the batch and the generation. A sync reads the generation before the
        history: if it has seen what goes here, `keep` comes either before this step, which deletes
        the batch, or after it, and finds another generation. A request that is under way is waited
        for.
        """
        self.history.clear()
        with self._db.transaction():
            for table in ("outbox", "manifest", "files"):
                self._db.rows(f"DELETE FROM {table}")  # noqa: S608 - names of our own
            self._db.rows("UPDATE about SET generation = randomblob(16)")
        self.history.scrub()
        self._db.scrub()
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Wait until no batch is being sent that was checked before the last change."""
        with self.lock_sending():
            pass

    def _about(self, column: str) -> Any:
        row = self._db.row(f"SELECT {column} FROM about")  # noqa: S608 - a name of our own
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


# In one statement: another process may append while we read.
_RECORDS = f"SELECT (SELECT head FROM about), record, hash, {_CHARGE} FROM ledger ORDER BY record"  # noqa: S608 - names of our own


def read_ledger(db: Database) -> Ledger:
    """All that was ever recorded, every record proved; a `LedgerError` if it is not whole."""
    try:
        found = db.rows(_RECORDS)
        head, rows = found[-1][0] if found else None, [row[1:] for row in found]
        first = _what(rows[0][2:]) if rows else None
        if not isinstance(first, Limit):
            raise ValueError("it does not begin with a limit")
        ledger = Ledger(first.epsilon)
        for row in rows[1:]:
            ledger.add(_what(row[2:]))
        for entry, row in zip(ledger.entries, rows, strict=True):
            if (entry.record, entry.hash) != row[:2]:
                raise ValueError(f"record {entry.record} is not the one that was written")
        if ledger.head != head:
            raise ValueError("its last record is not the one that was written last")
        return ledger
    except (LedgerError, SettingsError, TypeError, ValueError) as error:  # no longer our types
        # Not a `BudgetExceededError`, whatever was found: that would be the limit's plain end.
        raise LedgerError(
            f"{db.path}: the ledger is damaged: {error}; what was spent is not known, so "
            "nothing may be reported until it is restored"
        ) from error


def append_entry(db: Database, entry: Entry) -> None:
    """In a transaction of the caller's."""
    columns = [
        getattr(entry.content, name, None) for name in _FIELDS
    ]  # a limit has its epsilon alone
    places = ", ".join("?" * (2 + len(columns)))
    db.rows(
        f"INSERT INTO ledger (record, hash, {_CHARGE}) VALUES ({places})",  # noqa: S608 - names of our own
        *(entry.record, entry.hash, *columns),
    )
    db.rows("UPDATE about SET head = ?", entry.hash)


def _what(columns: tuple[Any, ...]) -> Charge | Limit:
    named = dict(zip(_FIELDS, columns, strict=True))
    return Limit(named["epsilon"]) if named["training"] is None else Charge(**named)
