"""The client itself: what an application on a device calls."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from sottovoce.client.address import checked_url
from sottovoce.client.database import alone
from sottovoce.client.fetching import held, refresh
from sottovoce.client.importing import checked_items, read_items
from sottovoce.client.recommending import recommendations
from sottovoce.client.store import Store
from sottovoce.client.syncing import Syncing, rounded_down
from sottovoce.errors import LedgerError, SettingsError, StoreError
from sottovoce.mechanism import os_words
from sottovoce.privacy import Ledger, rounded_up
from sottovoce.privacy.ledger import DISK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Self

    from sottovoce.client.api import ProxyApi
    from sottovoce.client.recommending import Recommendation
    from sottovoce.client.reporting import Entropy, Words
    from sottovoce.client.syncing import Synced
    from sottovoce.client.terms import Terms
    from sottovoce.privacy.ledger import Disk

_OURS = ("client.", "ledger", ".ledger.")
"""How the names of all files in a client's folder begin."""


@dataclass(frozen=True)
class Status:
    """Where a client stands."""

    proxy_url: str
    epoch: int | None
    """Of the last manifest accepted; None before the first sync."""
    terms: Terms | None
    """What its owner agreed to."""
    paused: bool
    spent: float | None
    """Of the lifetime budget; None if the ledger cannot be read."""
    remaining: float | None
    limit: float | None
    problem: str | None
    """Why the ledger cannot be read: nothing is reported until that is mended."""
    batches: dict[str, int]
    """By what became of them: stored, charged, sent, dropped."""
    interactions: int
    known: int
    """How many of them are in the catalogue."""
    unknown: tuple[str, ...]
    """The others: kept, since a later catalogue may know them."""


class Client:
    """A folder, opened. Close it, or use it in a `with`."""

    def __init__(
        self, folder: Path, store: Store, clock: Callable[[], float], entropy: Entropy, disk: Disk
    ):
        """For `create` and `open`."""
        self._folder = folder
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._disk = disk

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        proxy_url: str,
        verification_key: bytes,
        limit: float,
        terms: Terms | None = None,
        clock: Callable[[], float] = time.time,
        entropy: Entropy = os.urandom,
        disk: Disk = DISK,
    ) -> Self:
        """Begin a client in a folder of its own; `limit` is the epsilon of a lifetime, locally.

        A ledger that is in the folder already is taken over with all that was spent, and its limit
        becomes this one. Without `terms` those of the first manifest are pinned.
        """
        if len(verification_key) != 32:
            raise SettingsError(f"a verification key has 32 bytes, not {len(verification_key)}")
        url = checked_url(proxy_url)
        _make_folder(folder)
        with alone(folder), _enrol(folder / "ledger", limit, disk) as ledger:
            store = Store.create(
                folder / "client.db",
                proxy_url=url,
                verification_key=verification_key,
                head=ledger.head,
                terms=terms,
            )
        return cls(folder, store, clock, entropy, disk)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        entropy: Entropy = os.urandom,
        disk: Disk = DISK,
    ) -> Self:
        """Take a client up where it was."""
        return cls(folder, Store.open(folder / "client.db"), clock, entropy, disk)

    @property
    def proxy_url(self) -> str:
        """Where its proxy is."""
        return self._store.proxy_url

    def record(self, ids: Iterable[str]) -> int:
        """Remember what the owner touched, all of it or nothing; how many were new."""
        return self._store.add(checked_items(ids))

    def record_csv(self, path: Path, column: str = "item") -> int:
        """Remember one column of a CSV file, all of it or nothing; how many were new."""
        return self._store.add(read_items(path, column))

    def sync(
        self,
        api: ProxyApi,
        *,
        words: Words = os_words,
        accept_new_terms: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        jitter: float = 0.0,
    ) -> Synced:
        """Fetch what the server published and take part in the epoch, at most once.

        After an `UnavailableError` do it again later: a batch that was made is kept and sent again
        byte for byte. Give a `jitter` of minutes in a program that runs by itself.
        """
        if not (isfinite(jitter) and jitter >= 0):
            raise SettingsError(f"jitter must be a number of seconds from 0, not {jitter}")
        with alone(self._folder):
            try:
                ledger = self._ledger()
            except LedgerError:
                # Reporting alone needs it: what was published may be fetched all the same.
                refresh(self._store, api, accept_new_terms=accept_new_terms)
                raise
            with ledger:
                syncing = Syncing(
                    self._store,
                    api,
                    ledger,
                    self._clock,
                    self._entropy,
                    words,
                    sleep,
                    jitter,
                )
                return syncing.run(accept_new_terms=accept_new_terms)

    def recommend(self, n: int = 10) -> list[Recommendation]:
        """The n best items that the owner has not touched; asks nobody."""
        if n < 1:
            raise SettingsError(f"at least one item must be asked for, not {n}")
        edition = held(self._store)
        if edition is None:
            raise StoreError(f"{self._folder}: there is no model yet; sync first")
        return recommendations(edition, edition.rows_of(self._store.items()), n)

    def pause(self, on: bool = True) -> None:  # noqa: FBT001, FBT002 - its name says what it is
        """From now on nothing leaves, not even a batch that waits; `pause(on=False)` goes on."""
        self._store.pause(on=on)

    def set_limit(self, limit: float) -> None:
        """Another lifetime limit, on the ledger's record; what was spent stays spent."""
        with alone(self._folder), self._ledger() as ledger:
            ledger.set_limit(limit)
            self._store.keep_head(ledger.head)

    def status(self) -> Status:
        """Where it stands; asks nobody."""
        store, items = self._store, self._store.items()
        edition, newest = held(store), store.newest
        numbers = {} if edition is None else edition.catalogue.numbers
        unknown = tuple(item for item in items if item not in numbers)
        spent, remaining, limit, problem = self._budget()
        return Status(
            proxy_url=store.proxy_url,
            epoch=None if newest is None else newest[0],
            terms=store.terms,
            paused=store.paused,
            spent=spent,
            remaining=remaining,
            limit=limit,
            problem=problem,
            batches=store.batches(),
            interactions=len(items),
            known=len(items) - len(unknown),
            unknown=unknown,
        )

    def forget(self) -> None:
        """Delete what the owner touched, the batch on its way, and the model, beyond recovery.

        The ledger stays, because what was spent stays spent: reports that left cannot be called
        back. It holds no item. Who wants that gone too removes the folder.
        """
        with alone(self._folder):
            self._store.forget()

    def close(self) -> None:
        """Let go of the folder."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ledger(self) -> Ledger:
        return Ledger.open(self._folder / "ledger", at_least=self._store.head, disk=self._disk)

    def _budget(self) -> tuple[float | None, float | None, float | None, str | None]:
        try:
            with self._ledger() as ledger:
                spent, remaining = rounded_up(ledger.spent), rounded_down(ledger.remaining)
                return spent, remaining, ledger.limit, None
        except LedgerError as error:
            return None, None, None, str(error)


def _make_folder(folder: Path) -> None:
    """Closed to others, and with nothing in it that is not a client's."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = [file.name for file in folder.iterdir() if not file.name.startswith(_OURS)]
        if foreign:
            raise StoreError(
                f"{folder}: {min(foreign)} is in there; a client needs a folder of its own"
            )
        folder.chmod(0o700)
    except OSError as error:
        raise StoreError(f"{folder}: {error}") from error


def _enrol(path: Path, limit: float, disk: Disk) -> Ledger:
    """The ledger of a new client. One that is there, or that a crash left, is never replaced."""
    if not path.exists():
        return Ledger.create(path, limit, disk=disk)
    ledger = Ledger.open(path, disk=disk)
    try:
        ledger.set_limit(limit)
    except BaseException:
        ledger.close()
        raise
    return ledger
