"""What a client remembers, in words; the SQL of the client is here, in `ledger` and in `schema`."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from sottovoce.client.history import History
from sottovoce.client.ledger import LedgerReader, append_entry
from sottovoce.client.schema import MIGRATIONS, PRAGMAS
from sottovoce.client.timing import Plan
from sottovoce.errors import BudgetExceededError, StoreError
from sottovoce.privacy import Charge, Ledger
from sottovoce.protocol import Terms
from sottovoce.storage import Database, exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any, Self

    from sottovoce.protocol import SignedManifest

NAME = "client.db"
State = Literal["charged", "sent", "dropped"]
Kept = Literal["kept", "limit reached", "forgotten"]


@dataclass(frozen=True)
class Waiting:
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
    def is_what_was_charged(self) -> bool:
        """A charge names its batch by the SHA-256 of the bytes."""
        return hashlib.sha256(self.batch).digest() == self.charge.purpose


class Trusted(NamedTuple):
    key: bytes
    """Of the one server that is believed."""
    newest: tuple[int, bytes] | None
    """Epoch and hash of its last manifest, if there was one."""


class ClientStore:
    """Two files: the history, which a sync only reads, and all else."""

    def __init__(self, folder: Path):
        self.history = History(folder / "client.history.db")
        try:
            self._db = Database(folder / NAME, MIGRATIONS, PRAGMAS)
        except BaseException:
            self.history.close()
            raise
        self._reader = LedgerReader(self._db)

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        proxy_url: str,
        verification_key: bytes,
        limit: float,
    ) -> Self:
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
        """Stop reporting, or go on."""
        with self._db.transaction():
            self._db.rows("UPDATE about SET paused = ?", int(on))

    @property
    def terms(self) -> Terms | None:
        """What the owner accepted; None before."""
        accepted = self._about("terms")
        return None if accepted is None else Terms.read(json.loads(accepted))

    def accept(self, terms: Terms) -> None:
        """The owner has seen these terms and said yes."""
        with self._db.transaction():
            self._db.rows("UPDATE about SET terms = ?, asked = NULL", json.dumps(terms.as_dict()))

    @property
    def asked(self) -> str | None:
        """The name of worse terms that the server asks for; None: no question waits."""
        asked = self._about("asked")
        return None if asked is None else str(asked)

    def ask(self, asked: str) -> None:
        """The owner's answer is wanted."""
        with self._db.transaction():
            self._db.rows("UPDATE about SET asked = ?", asked)

    # What the server published.

    @property
    def trusted(self) -> Trusted:
        """By what the next manifest is judged."""
        return Trusted(bytes(self._about("verification_key")), self.newest)

    @property
    def newest(self) -> tuple[int, bytes] | None:
        """Epoch and hash of the last manifest accepted; survives `forget`, it is public."""
        epoch, manifest_hash = self._db.row("SELECT epoch, manifest_hash FROM about")
        return None if epoch is None else (epoch, manifest_hash)

    def at_once(self) -> AbstractContextManager[None]:
        """What is read in the block belongs together: a sync elsewhere may replace all of it."""
        return self._db.snapshot()

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

    def keep_edition(self, signed: SignedManifest, files: dict[bytes, bytes]) -> None:
        """A manifest, and its files by their hashes, in the place of the last one: in one step.

        The key that signed it is the trusted one from now on.
        """
        manifest = signed.manifest
        with self._db.transaction():
            self._db.rows("REPLACE INTO manifest (only, signed) VALUES (1, ?)", signed.encode())
            self._db.rows(
                "UPDATE about SET epoch = ?, manifest_hash = ?, verification_key = ?, asked = NULL",
                *(manifest.epoch, signed.hash, signed.key),
            )
            self._db.rows("DELETE FROM files WHERE sha256 NOT IN (?, ?)", *files)
            self._db.add_all(
                "REPLACE INTO files (sha256, content) VALUES (?, ?)",
                [(sha, content) for sha, content in files.items() if self.file(sha) is None],
            )

    # What the coins said, the ledger, and the batch on its way.

    def plan(self, epoch: int) -> Plan | None:
        row = self._db.row("SELECT epoch, takes_part, send_at FROM plans WHERE epoch = ?", epoch)
        return None if row is None else Plan(row[0], bool(row[1]), row[2])

    def add_plan(self, plan: Plan) -> None:
        """In the place of those of earlier epochs."""
        with self._db.transaction():
            self._db.rows("DELETE FROM plans WHERE epoch < ?", plan.epoch)
            self._db.rows(
                "INSERT INTO plans (epoch, takes_part, send_at) VALUES (?, ?, ?)",
                *(plan.epoch, int(plan.takes_part), plan.send_at),
            )

    def ledger(self) -> Ledger:
        """What was spent; a `LedgerError` if that is not known for certain."""
        return self._reader.read()

    def set_limit(self, limit: float) -> None:
        """Another lifetime limit, on the record."""
        with self._db.transaction():
            entry = self.ledger().set_limit(limit)
            if entry is not None:
                append_entry(self._db, entry)

    @property
    def generation(self) -> bytes:
        """Another one after every `forget`."""
        return bytes(self._about("generation"))

    def keep(self, batch: Waiting, generation: bytes) -> Kept:
        """Keep a batch and charge for it, or neither; only one that was kept may be sent.

        `generation` was read before the history that it is made of: see `forget`. One transaction
        compares it, reads the ledger, checks the limit and writes both. Fails if the epoch has had
        a batch or a charge.
        """
        with self._db.transaction():
            if generation != self.generation:
                return "forgotten"
            try:
                entry = self.ledger().charge(batch.charge)
            except BudgetExceededError:
                return "limit reached"
            append_entry(self._db, entry)
            self._db.rows(
                "INSERT INTO outbox (epoch, send_at, ends, state, batch)"
                " VALUES (?, ?, ?, 'charged', ?)",
                *(batch.epoch, batch.send_at, batch.ends, batch.batch),
            )
            return "kept"

    def waiting(self) -> Waiting | None:
        """The batch that has neither arrived nor been given up; there is one at most."""
        row = self._db.row(
            "SELECT training, epoch, purpose, mechanism, epsilon, reports, loud_fraction,"
            " clients, send_at, ends, not_before, batch"
            " FROM outbox JOIN ledger USING (epoch) WHERE state = 'charged' ORDER BY epoch"
        )
        return None if row is None else Waiting(Charge(*row[:8]), *row[8:11], batch=row[11])

    def state(self, epoch: int) -> State | None:
        """What became of an epoch's batch, as far as it was not forgotten."""
        row = self._db.row("SELECT state FROM outbox WHERE epoch = ?", epoch)
        return None if row is None else row[0]

    def was_charged(self, epoch: int) -> bool:
        """Whether it has had its batch, whatever became of that."""
        return self._db.row("SELECT 1 FROM ledger WHERE epoch = ?", epoch) is not None

    def done(self, epoch: int, state: Literal["sent", "dropped"]) -> None:
        """It arrived or was given up: its bytes are of no use any more."""
        with self._db.transaction():
            self._db.rows("UPDATE outbox SET state = ?, batch = NULL WHERE epoch = ?", state, epoch)

    def postpone(self, epoch: int, not_before: float) -> None:
        """Not to be sent before that moment; a restart does not forget it."""
        with self._db.transaction():
            self._db.rows("UPDATE outbox SET not_before = ? WHERE epoch = ?", not_before, epoch)

    def batches(self) -> dict[str, int]:
        return dict(self._db.rows("SELECT state, count(*) FROM outbox GROUP BY state"))

    def sending(self) -> AbstractContextManager[None]:
        """Held from before a last look whether the batch is still there until it was sent."""
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
        with self.sending():
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
