"""The client itself: what an application on a device calls."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sottovoce.client.csv_import import check_items, read_history_csv
from sottovoce.client.fetching import load_release, peek_manifest, refresh
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
from sottovoce.protocol import Item, Manifest, Release, Terms
from sottovoce.storage.database import exclusive_lock
from sottovoce.training.start import Provenance

# The beginning of the names of all files in a client's folder.
FILE_NAME_PREFIX = "client."


@dataclass(frozen=True)
class Status:
    """What a client knows, has spent and has agreed to."""

    proxy_url: str
    epoch: int | None
    """Epoch of the last accepted manifest; None before the first sync."""
    reports_behind: int
    """Number of reports that the last change of the model was computed from. While it is 0, items
    are recommended by the start and by their tags."""
    start: Provenance | None
    """The public table that first lists come from; None if there is none."""
    items: int
    """Number of items in the model's catalogue; 0 before the first sync."""
    terms: Terms | None
    """The terms that the owner accepted, if any."""
    pending_terms: str | None
    """Name of worse terms that the server asks for and that the owner has not answered yet."""
    epochs: int | None
    """Number of epochs of the accepted terms' training in which the device took part; None if the
    ledger is damaged."""
    paused: bool
    """Whether the owner has paused reporting."""
    spent: float | None
    """Epsilon spent so far, rounded up; None if the ledger is damaged."""
    remaining: float | None
    """Epsilon left of the limit, rounded down; None if the ledger is damaged."""
    limit: float | None
    """The owner's limit; None if the ledger is damaged."""
    problem: str | None
    """What is wrong with the ledger, or None. Nothing is reported until the ledger is repaired."""
    batches: dict[str, int]
    """Number of batches by state: "charged" (not sent yet), "sent", or "dropped" (given up)."""
    interactions: int
    """Number of recorded items."""
    in_catalogue: int
    """Number of recorded items that the catalogue has."""
    unknown_items: tuple[str, ...]
    """Recorded items that the catalogue does not have. They stay recorded, because a later
    catalogue may have them."""

    @property
    def is_young(self) -> bool:
        """Whether the model is based on so few reports that recommendations are a first guess.

        A model that began with a public start is never young: reports move it only as far as they
        say more than noise.
        """
        return self.start is None and self.reports_behind < self.items


@dataclass(frozen=True)
class Outlook:
    """What terms mean for a device, given the charges that its ledger already has."""

    promise: Promise
    """The promise if the device takes part in all epochs that the terms still allow, even if its
    limit allows fewer."""
    turns_left: int
    """Number of epochs in which the device may still take part under the terms."""
    turns_within_limit: int
    """How many of the `turns_left` epochs the owner's limit allows."""
    epsilon_at_limit: float
    """Total epsilon spent once the device took part in `turns_within_limit` more epochs, rounded
    up."""
    summary: list[str]
    """Sentences for the owner: which reports the device sends within its limit, what they can
    reveal, and how to stop."""


class Client:
    """A client in a folder, from `create` or `open`. Close it, or use it as a context manager.

    Args:
        folder: The folder with the client's files.
        store: The databases in that folder.
        clock: Returns the time of day, in seconds since 1970.
        monotonic: Returns the seconds of a clock that is never set back.
        entropy: Returns a given number of random bytes, as `os.urandom` does.
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

        The ledger of a new client has spent nothing. So, if the device has reported before with
        another client, pass as `limit` only what that client had left. Nothing is reported before
        the owner has accepted terms (`accept`).

        Args:
            folder: Folder for the client's files. It is created if it is missing; otherwise it must
                be empty.
            proxy_url: The address of the proxy.
            verification_key: The server's Ed25519 public key (32 bytes), which every signature is
                checked with.
            limit: The local epsilon that this device may ever spend.
            clock: Returns the time of day, in seconds since 1970. Only tests replace it.
            monotonic: Returns the seconds of a clock that is never set back. Only tests replace it.
            entropy: Returns random bytes, which decide whether and when the device reports. Only
                tests replace it.
        """
        # Checked before the folder is made, so that a failed `create` leaves nothing behind.
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
        """Open the client in a folder; the caller closes it.

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

        The items of one call count as touched at the same moment, later than the items of earlier
        calls. Recommending gives the items that were recorded last the most weight; reports do not
        depend on the order. A history has at most `MAX_HISTORY_ITEMS` (100,000) items: if there are
        more, the earliest are dropped.

        Args:
            ids: The items' ids in the catalogue. An id that the catalogue does not have is recorded
                too, because a later catalogue may have it.
        """
        return self._store.history.add([check_items(ids)])

    def record_csv(self, path: Path, column: str = "item", time: str | None = None) -> int:
        """Record the items of a CSV file, all or none, and return how many were new.

        If the history then has more than 100,000 items, the earliest are dropped.

        Args:
            path: The file, in UTF-8, with the names of the columns in its first line.
            column: The column with the items' ids.
            time: The column with the times (numbers or ISO dates). Only the order of the times is
                stored. Without this column all items count as touched at the same moment.
        """
        return self._store.history.add(read_history_csv(path, column, time))

    def remove(self, ids: Iterable[str]) -> int:
        """Delete recorded items, and return how many were deleted.

        Afterwards no file of the client contains these items. The disk may still have them in
        blocks that a file no longer uses; only an encrypted disk prevents that.

        No new batch is made of these items. A batch that is being made, or that waits to be sent,
        still leaves, so that nobody else can tell that something was removed.

        Args:
            ids: The items' ids in the catalogue.
        """
        return self._store.history.remove(check_items(ids))

    def list_touched(self) -> list[str]:
        """Return the ids of the recorded items, earliest first; ids of one moment are sorted."""
        moments = self._store.history.get_moments()
        return sorted(moments, key=lambda item: moments[item])

    def list_catalogue(self) -> tuple[Item, ...]:
        """Return all items of the catalogue, in the order of the model's rows; sends nothing."""
        return self._get_model().catalogue.items

    def fetch_manifest(self, api: ProxyApi) -> Manifest:
        """Fetch the manifest of the current epoch, and store nothing.

        Show its `terms` to the owner if it `needs_consent`; otherwise nothing is asked.

        Args:
            api: The connection to the proxy, such as an `HttpProxy`.
        """
        return peek_manifest(self._store, api)

    def accept(self, terms: Terms, limit: float) -> None:
        """Store in one step that the owner accepted these terms and this limit.

        From then on, terms that are worse than these are refused.

        Args:
            terms: Exactly the terms that the owner was shown.
            limit: The limit that the owner was shown together with the terms: the local epsilon
                that this device may ever spend.

        Raises:
            SettingsError: The server now asks for other terms; nothing was accepted.
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

        The sync begins at the next multiple of ten seconds (`SYNC_GRID_SECONDS`) and sends at a
        random moment. If it is interrupted, the next sync continues its work. After an
        `UnavailableError` call `sync` again: a batch that was made is kept, and the same bytes are
        sent again after the time that the proxy asked for. Where reports need an account, a sync
        that sends no batch may fetch the next epoch's token.

        Others on the network see when a sync sends its requests. So start it at fixed times, in a
        process of its own. Never start it at a moment that depends on the history, such as when a
        list of recommendations is ready: see docs/reference/python.md.

        Args:
            api: The connection to the proxy, such as an `HttpProxy`.
            draw_words: Draws the random words of the reports. Only tests replace it.
            sleep: Waits for a number of seconds. Only tests replace it.
            jitter: The moment of sending is drawn within this many seconds. With 0 the sync does
                everything at once, which reveals when the device woke up: for tests and demos only.
            fetch_attestation: Asks the product's backend for an attestation. It is needed where
                reports need an account.
        """
        # `not ... <=` instead of `<`, so that a NaN is refused too.
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
        # The lock is released, so that the owner can accept terms, or run another sync, meanwhile.
        session.wait(started)
        with _lock(self._folder, wait=PREPARATION_SECONDS):
            return session.finish(started)

    def look(self, api: ProxyApi, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Fetch what the server published, and report nothing.

        Afterwards items that were withdrawn are no longer recommended, and new ones may be. Call
        `look` at fixed times, like `sync`. It may run while a `sync` in another process waits for
        its moment to send. Like a sync, it begins at the next multiple of ten seconds.

        Args:
            api: The connection to the proxy, such as an `HttpProxy`.
            sleep: Waits for a number of seconds. Only tests replace it.
        """
        sleep(-self._clock() % SYNC_GRID_SECONDS)
        # Do not wait for the lock. A sync that holds it fetches the same files. And the moment when
        # that sync releases the lock could reveal how long it took to make its batch.
        with _lock(self._folder):
            refresh(self._store, api, self._store.trusted, self._clock())

    def recommend(self, n: int = 10) -> list[Recommendation]:
        """Return the best items that the owner has not touched; sends nothing.

        Args:
            n: The largest number of items to return.
        """
        if n < 1:
            raise SettingsError(f"at least one item must be asked for, not {n}")
        return list_recommendations(self._get_model(), self._store.history.get_moments(), n)

    def pause(self, on: bool = True) -> None:  # noqa: FBT001, FBT002 - its name says what it is
        """Stop reporting: no batch and no request for a token leaves after this returns.

        A batch that was already made is not sent either. If a request is under way, this waits
        until it ends. A sync during the pause still fetches what the server published.

        Args:
            on: Whether to pause; False resumes reporting.
        """
        self._store.pause(on=on)

    def set_limit(self, limit: float) -> None:
        """Record another limit in the ledger; what was spent stays spent.

        Args:
            limit: The local epsilon that this device may ever spend.
        """
        # No lock is needed: a sync checks the limit in the same transaction that charges.
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
            start=None if release is None else release.manifest.start,
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
            unknown_items=unknown,
        )

    def compute_outlook(self, terms: Terms) -> Outlook:
        """Compute what terms promise this device and how many epochs its limit allows.

        This sends nothing.

        Args:
            terms: The terms, from `fetch_manifest`.
        """
        ledger = self._store.read_ledger()
        charges, within = ledger.charges, terms.turns_within(ledger)
        # `Outlook.promise` is for all epochs that the terms allow. The sentences for the owner are
        # for the epochs that the limit allows.
        whole, limited = terms.promise(charges), terms.promise(charges, turns=within)
        batch = self._store.get_waiting_batch()
        summary = terms.summarize(charges, within, 0 if batch is None else batch.charge.reports)
        return Outlook(whole, terms.turns_left(charges), within, limited.local, summary)

    def forget(self) -> None:
        """Delete the recorded items, the batch that waits to be sent, and the model.

        Afterwards no file of the client contains them, but the disk may (see `remove`). No batch
        that was made of the deleted items leaves after this returns. If a request is under way,
        this waits until it ends.

        The ledger is kept, because reports that left cannot be called back. It has what was spent
        and in which epochs, and no items. To delete it too, remove the folder.
        """
        self._store.forget()

    def close(self) -> None:
        """Close the databases. The end of a `with` block closes them too."""
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
        """Return the last accepted release; it is loaded and verified again only if it changed."""
        # Another process may have synced or forgotten since the last call, so ask the database.
        newest = self._store.get_signed_manifest(), self._store.get_signed_shelf()
        if self._release is None or newest != self._loaded_from:
            self._release, self._loaded_from = load_release(self._store), newest
        return self._release


def _lock(folder: Path, *, wait: float = 0.0) -> AbstractContextManager[None]:
    message = "another process is syncing; wait until it has ended"
    return exclusive_lock(folder / "client.lock", message, wait=wait)


def _make_folder(folder: Path) -> None:
    """Create a private folder, or reuse one that contains nothing but a client's files."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = [
            file.name for file in folder.iterdir() if not file.name.startswith(FILE_NAME_PREFIX)
        ]
        if foreign:
            raise StoreError(
                f"{folder}: it contains {min(foreign)}; a client needs a folder of its own"
            )
        # A folder that existed before may be readable by others.
        folder.chmod(0o700)
    except OSError as error:
        raise StoreError(f"{folder}: {get_reason(error)}") from error
