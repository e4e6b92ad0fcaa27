"""What a client remembers, in words; the SQL of the client is here, in `ledger` and in `schema`."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sottovoce.client.ledger import LedgerReader, append_entry
from sottovoce.client.schema import MIGRATIONS, PRAGMAS
from sottovoce.client.timing import Plan
from sottovoce.errors import BudgetExceededError, StoreError
from sottovoce.privacy import Charge, Ledger
from sottovoce.protocol import Terms
from sottovoce.storage import Database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any, Self

    from sottovoce.protocol import SignedManifest

State = Literal["charged", "sent", "dropped"]


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


class ClientStore:
    def __init__(self, database: Database):
        self._db = database
        self._reader = LedgerReader(database)

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        proxy_url: str,
        verification_key: bytes,
        limit: float,
    ) -> Self:
        """Whole or not at all; refuses if there is one."""
        first = Ledger(limit).entries[0]
        store = cls(Database(path, MIGRATIONS, PRAGMAS))
        with store._closed_on_failure():
            if store._db.version:
                raise StoreError(
                    f"{path}: there is a client already. To begin another, name another folder, or "
                    "move this one away: its ledger, which knows what was spent, goes with it"
                )
            with store._db.transaction():
                store._db.migrate()
                store._db.rows(
                    "INSERT INTO about (only, proxy_url, verification_key, head)"
                    " VALUES (1, ?, ?, ?)",
                    *(proxy_url, verification_key, first.hash),
                )
                append_entry(store._db, first)
        return store

    @classmethod
    def open(cls, path: Path) -> Self:
        if not path.exists():
            raise StoreError(f"{path}: there is no client; begin one first (sottovoce client init)")
        store = cls(Database(path, MIGRATIONS, PRAGMAS))
        with store._closed_on_failure():
            if store._db.version == 0:
                raise StoreError(
                    f"{path}: this client was cut short; begin it again (sottovoce client init)"
                )
            store._db.upgrade()
        return store

    def close(self) -> None:
        self._db.close()

    # The owner's choices and whom they trust.

    @property
    def proxy_url(self) -> str:
        return str(self._about("proxy_url"))

    @property
    def verification_key(self) -> bytes:
        """Of the one server that is believed."""
        return bytes(self._about("verification_key"))

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

    # What they touched.

    def add(self, moments: Iterable[Iterable[str]]) -> int:
        """Items that were touched, moment after moment; how many of them are new.

        One that is known already moves to its latest moment. Moments are counted on from the last
        one that is there, so that nothing is left of them after `forget`.
        """
        with self._db.transaction():
            before = self._count("interactions")
            (last,) = self._db.row("SELECT coalesce(max(moment), 0) FROM interactions")
            self._db.add_all(
                "INSERT INTO interactions (item, moment) VALUES (?, ?)"
                " ON CONFLICT (item) DO UPDATE SET moment = excluded.moment",
                [
                    (item, moment)
                    for moment, items in enumerate(moments, start=last + 1)
                    for item in items
                ],
            )
            return self._count("interactions") - before

    def remove(self, items: Iterable[str]) -> int:
        """As if they had never been added; how many were there.

        Moments are counted anew, since a gap would tell that something was there. The batch on its
        way stays: it was charged, and nothing that others can see may depend on this.
        """
        with self._db.transaction():
            before = self._count("interactions")
            self._db.add_all("DELETE FROM interactions WHERE item = ?", [(item,) for item in items])
            self._db.rows(
                "UPDATE interactions SET moment = place FROM ("
                " SELECT item AS name, dense_rank() OVER (ORDER BY moment) AS place"
                " FROM interactions"
                ") WHERE item = name"
            )
            removed = before - self._count("interactions")
        self._scrub()
        return removed

    def touched(self) -> dict[str, int]:
        """All of them in the order of their names, each with its moment: a later one is larger."""
        return dict(self._db.rows("SELECT item, moment FROM interactions ORDER BY item"))

    def items(self) -> list[str]:
        """All of them, in the order of their names."""
        return list(self.touched())

    # What the server published.

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

    def keep(self, batch: Waiting) -> bool:
        """Keep a batch and charge for it, or neither; whether it was kept and may be sent.

        One transaction reads the ledger, checks the limit and writes both. Fails if the epoch has
        had a batch or a charge.
        """
        with self._db.transaction():
            try:
                entry = self.ledger().charge(batch.charge)
            except BudgetExceededError:
                return False
            append_entry(self._db, entry)
            self._db.rows(
                "INSERT INTO outbox (epoch, send_at, ends, state, batch)"
                " VALUES (?, ?, ?, 'charged', ?)",
                *(batch.epoch, batch.send_at, batch.ends, batch.batch),
            )
            return True

    def waiting(self) -> Waiting | None:
        """The batch that has neither arrived nor been given up; there is one at most."""
        row = self._db.row(
            "SELECT training, epoch, at, purpose, mechanism, epsilon, reports, loud_fraction,"
            " clients, send_at, ends, not_before, batch"
            " FROM outbox JOIN ledger USING (epoch) WHERE state = 'charged' ORDER BY epoch"
        )
        return None if row is None else Waiting(Charge(*row[:9]), *row[9:12], batch=row[12])

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

    def forget(self) -> None:
        """Everything about the owner, and all that could be worked out from it.

        The ledger stays: it has no item, and what left cannot be called back.
        """
        with self._db.transaction():
            for table in ("interactions", "outbox", "manifest", "files"):
                self._db.rows(f"DELETE FROM {table}")  # noqa: S608 - names of our own
        self._scrub()

    def _scrub(self) -> None:
        """Nothing that was deleted is left in any file."""
        self._db.rows("VACUUM")  # rewrites the file without it
        self._db.empty_log()

    def _about(self, column: str) -> Any:
        row = self._db.row(f"SELECT {column} FROM about")  # noqa: S608 - a name of our own
        if row is None:
            raise StoreError(f"{self._db.path}: the file is damaged: restore it")
        return row[0]

    def _count(self, table: str) -> int:
        return int(self._db.row(f"SELECT count(*) FROM {table}")[0])  # noqa: S608 - our own

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise
