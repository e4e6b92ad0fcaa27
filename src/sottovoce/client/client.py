"""The client itself: what an application on a device calls."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sottovoce.client.csv_import import check_items, read_history_csv
from sottovoce.client.fetching import fetch_terms, load_release, refresh
from sottovoce.client.http import ProxyApi, check_url
from sottovoce.client.recommending import Recommendation, list_recommendations
from sottovoce.client.reporting import DrawWords
from sottovoce.client.store import ClientStore
from sottovoce.client.syncing import FetchAttestation, SyncResult, SyncSession
from sottovoce.client.timing import (
    MAX_JITTER_SECONDS,
    PREPARATION_SECONDS,
    SYNC_GRID_SECONDS,
    Entropy,
)
from sottovoce.core import draw_os_words
from sottovoce.errors import LedgerError, SettingsError, StoreError, get_reason
from sottovoce.privacy import Ledger, Promise, round_down, round_up
from sottovoce.protocol import Item, Release, Terms
from sottovoce.storage.database import exclusive_lock

# The names of all files in a client's folder begin with this.
FILE_NAME_PREFIX = "client."


@dataclass(frozen=True)
class Status:
    """What a client knows, has spent and has agreed to."""

    proxy_url: str
    epoch: int | None
    """Epoch of the last accepted manifest; None before the first sync."""
    reports_behind: int
    """Reports in the last step of its model. Without any, lists go by tags only."""
    items: int
    """Number of items in its catalogue."""
    terms: Terms | None
    """The terms that the owner accepted, if any."""
    pending_terms: str | None
    """Name of worse terms that the server asks for and that wait for an answer, if any."""
    epochs: int | None
    """Epochs of its training in which the device took part; None if the ledger is damaged."""
    paused: bool
    spent: float | None
    """Epsilon spent so far, rounded up; None if the ledger is damaged."""
    remaining: float | None
    """Epsilon left of the limit, rounded down; None if the ledger is damaged."""
    limit: float | None
    """The owner's limit; None if the ledger is damaged."""
    problem: str | None
    """What is wrong with the ledger; nothing is reported until that is repaired."""
    batches: dict[str, int]
    """Number of batches by what became of them: charged, sent, dropped."""
    interactions: int
    """Number of recorded items."""
    in_catalogue: int
    """How many of these are in the catalogue."""
    unknown: tuple[str, ...]
    """The others. They stay recorded, because a later catalogue may have them."""

    @property
    def is_young(self) -> bool:
        """Whether too few reports are behind the model for lists to be more than a first guess."""
        return self.reports_behind < self.items


@dataclass(frozen=True)
class Outlook:
    """What terms mean for a device, after all that its ledger has charged."""

    promise: Promise
    """The promise for all turns that are left under them, whatever the limit is."""
    turns_left: int
    """In how many epochs it may still take part under them."""
    within_limit: int
    """How many of these epochs the limit allows."""
    at_limit: float
    """Most epsilon that is spent by then, rounded up."""
    short: list[str]
    """Sentences for the owner: what leaves within the limit, what it can reveal, how to stop."""


class Client:
    """A client in a folder, from `create` or `open`. Close it, or use it as a context manager.

    Args:
        folder: The folder with its files.
        store: The databases in it.
        clock: The time of day, in seconds since 1970.
        monotonic: A clock that is never set back, in seconds.
        entropy: Returns random bytes, as `os.urandom` does.
    """

    def __init__(
        self,
        folder: Path,
        store: ClientStore,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        entropy: Entropy,
    ):
        self._folder = folder
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._entropy = entropy
        self._release: Release | None = None
        # The signed manifest and shelf that the release was loaded from.
        self._loaded_from: tuple[bytes | None, bytes | None] = None, None

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        proxy_url: str,
        verification_key: bytes,
        limit: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        entropy: Entropy = os.urandom,
    ) -> Self:
        """Create a client in a folder of its own.

        Nothing counts as spent yet. So create one only on a device that never reported, or with
        what its earlier client had left as the limit. Nothing is reported before the owner accepted
        terms (`accept`).

        Args:
            folder: Folder for its files; created if it is missing, else it must be empty.
            proxy_url: The address of the proxy.
            verification_key: The 32 bytes that the server's signature is checked with.
            limit: The local epsilon that this device may ever spend.
            clock: The time of day, in seconds since 1970; another one only for tests.
            monotonic: A clock that is never set back; another one only for tests.
            entropy: Random bytes for turns and moments; another source only for tests.
        """
        # Before the folder is made: a failed `create` leaves nothing behind.
        if len(verification_key) != 32:
            raise SettingsError(f"verification_key must have 32 bytes, not {len(verification_key)}")
        url = check_url(proxy_url)
        _make_folder(folder)
        with _lock(folder):
            store = ClientStore.create(
                folder, proxy_url=url, verification_key=verification_key, limit=limit
            )
        return cls(folder, store, clock, monotonic, entropy)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        entropy: Entropy = os.urandom,
    ) -> Self:
        """Open the client in a folder; close it when done.

        Args:
            folder: The folder that `create` made.
            clock: See `create`.
            monotonic: See `create`.
            entropy: See `create`.
        """
        return cls(folder, ClientStore.open(folder), clock, monotonic, entropy)

    @property
    def proxy_url(self) -> str:
        """The only address that this client talks to."""
        return self._store.proxy_url

    def record(self, ids: Iterable[str]) -> int:
        """Record items that the owner touched, all or none, and return how many were new.

        Items of one call count as touched at the same moment, later than those of earlier calls.
        What was recorded last counts most when recommending; no report knows the order. A history
        has at most `MAX_HISTORY_ITEMS` (100,000) items: beyond that the earliest are dropped.

        Args:
            ids: Items, by their ids in the catalogue. An id that the catalogue lacks is recorded
                too, because a later catalogue may have it.
        """
        return self._store.history.add([check_items(ids)])

    def record_csv(self, path: Path, column: str = "item", time: str | None = None) -> int:
        """Record one column of a CSV file, all of it or nothing, and return how many were new.

        Beyond 100,000 items in all the earliest are dropped.

        Args:
            path: The file: UTF-8, with the names of its columns in the first line.
            column: The column of the items' ids.
            time: The column with times (numbers or ISO dates). Items are put in that order; the
                times themselves are not stored. None: all were touched at the same moment.
        """
        return self._store.history.add(read_history_csv(path, column, time))

    def remove(self, ids: Iterable[str]) -> int:
        """Delete some of the recorded items, and return how many were there.

        No file of the client has these items any more. The disk may still have them in the blocks
        that files gave back. Only an encrypted disk prevents that.

        No new batch is made of them. A batch that is being made or waits to be sent still leaves:
        nobody else can tell that something was removed.

        Args:
            ids: Items, by their ids in the catalogue.
        """
        return self._store.history.remove(check_items(ids))

    def list_touched(self) -> list[str]:
        """Return the recorded items, the latest last; those of one moment in the order of names."""
        moments = self._store.history.get_moments()
        return sorted(moments, key=lambda item: moments[item])

    def list_catalogue(self) -> tuple[Item, ...]:
        """Return all items of the catalogue, in the order of the model's rows; sends nothing."""
        return self._get_model().catalogue.items

    def fetch_terms(self, api: ProxyApi) -> Terms:
        """Fetch the terms that the server asks for now, to show them to the owner; store nothing.

        Args:
            api: The proxy, such as an `HttpProxy`.
        """
        return fetch_terms(self._store, api)

    def accept(self, terms: Terms, limit: float) -> None:
        """Store that the owner accepted these terms up to this limit, both in one step.

        Worse terms are refused from now on.

        Args:
            terms: Exactly the terms that the owner was shown.
            limit: The limit that the owner was shown them with.

        Raises:
            SettingsError: The server asks for other terms by now; nothing was accepted.
        """
        with _lock(self._folder):
            self._store.accept(terms, limit)

    def sync(
        self,
        api: ProxyApi,
        *,
        draw_words: DrawWords = draw_os_words,
        sleep: Callable[[float], None] = time.sleep,
        jitter: float = MAX_JITTER_SECONDS,
        fetch_attestation: FetchAttestation | None = None,
    ) -> SyncResult:
        """Fetch what the server published and take part in the epoch, at most once.

        It begins at the next whole ten seconds (`SYNC_GRID_SECONDS`) and sends at a random moment.
        If it is stopped, the next sync continues. After an `UnavailableError` call it again: a
        batch that was made is kept and sent again byte for byte, when the proxy wants it. Where
        reports need an account, a sync that sends nothing fetches the next epoch's token.

        Others see when it asks and sends. So call it by the clock, in a process of its own, and
        never at a moment that depends on the history, such as when a list is ready: see
        docs/reference/python.md.

        Args:
            api: The proxy, such as an `HttpProxy`.
            draw_words: Draws the random words of the reports; another source only for tests.
            sleep: Waits for a number of seconds; another one only for tests.
            jitter: The moment is drawn within this many seconds. 0 does everything at once, which
                shows when the device woke up: for tests and demos.
            fetch_attestation: Asks the product's backend for an attestation, where reports need an
                account.
        """
        # Not <, so that a NaN is refused.
        if not 0 <= jitter <= MAX_JITTER_SECONDS:
            raise SettingsError(
                f"jitter must be a number of seconds in 0..{MAX_JITTER_SECONDS:g}, not {jitter}"
            )
        session = SyncSession(
            self._store,
            api,
            self._clock,
            self._monotonic,
            self._entropy,
            draw_words,
            sleep,
            jitter,
            fetch_attestation,
        )
        with _lock(self._folder, wait=PREPARATION_SECONDS):
            started = session.start()
        if isinstance(started, SyncResult):
            return started
        # Without the lock: the owner may accept terms, or sync elsewhere, while this one sleeps.
        session.wait(started)
        with _lock(self._folder, wait=PREPARATION_SECONDS):
            return session.finish(started)

    def look(self, api: ProxyApi, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Fetch what the server published, and report nothing.

        After this a withdrawn item is on no list, and a new one may be. Call it by the clock, like
        `sync`, also while a `sync` elsewhere waits for its moment. It too begins at a whole ten
        seconds.

        Args:
            api: The proxy, such as an `HttpProxy`.
            sleep: Waits for a number of seconds; another one only for tests.
        """
        sleep(-self._clock() % SYNC_GRID_SECONDS)
        # Do not wait for the lock: a sync that holds it fetches the same, and the moment when it
        # ends could show how long its batch took.
        with _lock(self._folder):
            refresh(self._store, api, self._store.trusted, self._clock())

    def recommend(self, n: int = 10) -> list[Recommendation]:
        """Return the best items that the owner has not touched; sends nothing.

        Args:
            n: The largest number of items.
        """
        if n < 1:
            raise SettingsError(f"at least one item must be asked for, not {n}")
        return list_recommendations(self._get_model(), self._store.history.get_moments(), n)

    def pause(self, on: bool = True) -> None:  # noqa: FBT001, FBT002 - its name says what it is
        """Stop reporting: no batch and no request for a token leaves after this returns.

        That includes a batch that waits. A request that is under way is waited for. What is
        published is still fetched.

        Args:
            on: False ends the pause.
        """
        self._store.pause(on=on)

    def set_limit(self, limit: float) -> None:
        """Record another limit in the ledger; what was spent stays spent.

        Args:
            limit: The local epsilon that this device may ever spend.
        """
        # No lock: a sync checks the limit in the transaction that charges.
        self._store.set_limit(limit)

    def get_status(self) -> Status:
        """Return the state of the client; sends nothing."""
        store, items = self._store, self._store.history.list_items()
        release, newest, terms = self._load_release(), store.newest, store.terms
        # Before the first sync all items are unknown.
        numbers = {} if release is None else release.catalogue.numbers
        unknown = tuple(item for item in items if item not in numbers)
        ledger: Ledger | None = None
        problem: str | None = None
        epochs: int | None = None
        try:
            ledger = store.read_ledger()
            epochs = 0 if terms is None else len(ledger.list_charges(terms.training))
        except LedgerError as error:
            problem = str(error)
        return Status(
            proxy_url=store.proxy_url,
            epoch=None if newest is None else newest[0],
            reports_behind=0 if release is None else release.manifest.reports_behind,
            items=0 if release is None else release.manifest.items,
            terms=terms,
            pending_terms=store.pending_terms,
            epochs=epochs,
            paused=store.paused,
            spent=None if ledger is None else round_up(ledger.spent),
            remaining=None if ledger is None else round_down(ledger.remaining),
            limit=None if ledger is None else ledger.limit,
            problem=problem,
            batches=store.count_batches(),
            interactions=len(items),
            in_catalogue=len(items) - len(unknown),
            unknown=unknown,
        )

    def compute_outlook(self, terms: Terms) -> Outlook:
        """Compute what terms promise this device and how far its limit goes; sends nothing.

        Args:
            terms: The terms, from `fetch_terms`.
        """
        ledger = self._store.read_ledger()
        charges, within = ledger.charges, terms.turns_within(ledger)
        # The promise is for all turns; the sentences for the owner count only as far as the limit
        # goes.
        whole, limited = terms.promise(charges), terms.promise(charges, turns=within)
        short = terms.summarize(charges, within)
        return Outlook(whole, terms.turns_left(charges), within, limited.local, short)

    def forget(self) -> None:
        """Delete the recorded items, the batch on its way, and the model.

        No file of the client has them any more; the disk may, as after `remove`.
        The ledger stays: what was spent and in which epochs, because reports that left cannot be
        called back. It holds no item. To delete that too, remove the folder. No batch of what was
        forgotten leaves after this returns; a request that is under way is waited for.
        """
        self._store.forget()

    def close(self) -> None:
        """Close the databases; the end of a `with` block does it too."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get_model(self) -> Release:
        release = self._load_release()
        if release is None:
            raise StoreError(f"{self._folder}: there is no model yet; sync first")
        return release

    def _load_release(self) -> Release | None:
        """Return the last accepted release; verify it only if it is another one than last time."""
        # Ask the database every time: another process may have synced or forgotten meanwhile.
        newest = self._store.get_signed_manifest(), self._store.get_signed_shelf()
        if self._release is None or newest != self._loaded_from:
            self._release, self._loaded_from = load_release(self._store), newest
        return self._release


def _lock(folder: Path, *, wait: float = 0.0) -> AbstractContextManager[None]:
    message = "another process is syncing; wait for its end"
    return exclusive_lock(folder / "client.lock", message, wait=wait)


def _make_folder(folder: Path) -> None:
    """Create a folder that only its owner can read; it must contain nothing else."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = [
            file.name for file in folder.iterdir() if not file.name.startswith(FILE_NAME_PREFIX)
        ]
        if foreign:
            raise StoreError(
                f"{folder}: {min(foreign)} is in there; a client needs a folder of its own"
            )
        # A folder that was there may be open to others.
        folder.chmod(0o700)
    except OSError as error:
        raise StoreError(f"{folder}: {get_reason(error)}") from error
