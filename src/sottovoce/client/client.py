"""The client itself: what an application on a device calls."""

import csv
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from math import isfinite, nan
from pathlib import Path
from typing import Self

from sottovoce.client.http import ProxyApi, check_url
from sottovoce.client.recommending import Recommendation, list_recommendations
from sottovoce.client.reporting import DrawWords
from sottovoce.client.store import ClientStore
from sottovoce.client.syncing import (
    FetchAttestation,
    SyncResult,
    SyncSession,
    fetch_terms,
    load_release,
    refresh,
)
from sottovoce.client.timing import (
    MAX_JITTER_SECONDS,
    PREPARATION_SECONDS,
    SYNC_GRID_SECONDS,
    Entropy,
)
from sottovoce.core import draw_os_words
from sottovoce.errors import (
    DataError,
    LedgerError,
    ProtocolError,
    SettingsError,
    StoreError,
    get_reason,
)
from sottovoce.privacy import Promise, round_down, round_up
from sottovoce.protocol import Item, Release, Terms, strict
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH
from sottovoce.storage.database import exclusive_lock


def check_items(ids: Iterable[str]) -> list[str]:
    """Names as a catalogue could have them, or a `DataError`."""
    if isinstance(ids, str):
        raise DataError(f"items must be a list, not one string: [{ids!r}]")
    try:
        return [strict.parse_text(item, max_length=MAX_TEXT_LENGTH, what="item") for item in ids]
    except ProtocolError as error:
        raise DataError(str(error)) from error


def read_history_csv(path: Path, column: str = "item", time: str | None = None) -> list[list[str]]:
    """One column of a CSV file (UTF-8, names of the columns in its first line), by moments.

    Without a column of times all of it is one moment.
    """
    moments: dict[float, list[str]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = list(rows.fieldnames or ())
            for each in [column] if time is None else [column, time]:
                if names.count(each) != 1:
                    raise ProtocolError(
                        f"its columns are {', '.join(names) or 'none'}; one must be called {each!r}"
                    )
            for row in rows:
                if None in row or None in row.values():
                    raise ProtocolError(f"the first line names {len(names)} fields")
                item = strict.parse_text(row[column], max_length=MAX_TEXT_LENGTH, what="item")
                moments.setdefault(_seconds(row[time]) if time else 0.0, []).append(item)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {get_reason(error)}", path=path) from error
    except (csv.Error, ProtocolError) as error:
        raise DataError(str(error), path=path, line=rows.reader.line_num) from error
    return [items for _, items in sorted(moments.items())]


def _seconds(text: str) -> float:
    """Of a number, or an ISO date with or without a time."""
    try:
        number = float(text)
    except ValueError:
        try:
            number = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            number = nan
    if not isfinite(number):
        raise ProtocolError(f"a time is a number or an ISO date, not {strict.format_value(text)}")
    return number


_OURS = "client."
"""How the names of all files in a client's folder begin."""


@dataclass(frozen=True)
class Status:
    """What a client knows, has spent and has agreed to."""

    proxy_url: str
    epoch: int | None
    """Of the last manifest accepted; None before the first sync."""
    reports_behind: int
    """In the last step of its model; without any, lists go by tags, if by anything."""
    items: int
    """In its catalogue."""
    terms: Terms | None
    """What the owner accepted; None before."""
    pending_terms: str | None
    """The name of worse terms that the server asks for since, which wait for a yes; or None."""
    epochs: int | None
    """In how many epochs of its training the device took part; None if the ledger is damaged."""
    paused: bool
    spent: float | None
    """Of the limit; None if the ledger is damaged."""
    remaining: float | None
    limit: float | None
    problem: str | None
    """What is wrong with the ledger: nothing is reported until that is mended."""
    batches: dict[str, int]
    """By what became of them: charged, sent, dropped."""
    interactions: int
    in_catalogue: int
    """How many of them are in the catalogue."""
    unknown: tuple[str, ...]
    """The others: kept, since a later catalogue may know them."""

    @property
    def is_young(self) -> bool:
        """Whether too little is behind its model for lists to be more than a first guess."""
        return self.reports_behind < self.items


@dataclass(frozen=True)
class Outlook:
    """What terms come to for a device, after all that its ledger has charged."""

    promise: Promise
    """For all turns that are left under them, whatever the limit."""
    turns_left: int
    """In how many epochs it may still take part under them."""
    within_limit: int
    """In how many of these the limit lets it."""
    at_limit: float
    """What is spent then, whatever happens; rounded up."""
    short: list[str]
    """What its owner is asked: what leaves within that limit, what it can tell, how to stop."""


class Client:
    """A folder, opened by `create` or `open`. Close it, or use it in a `with`.

    Args:
        folder: Where everything is kept.
        store: The database in it.
        clock: The time of day, in seconds since 1970.
        monotonic: A clock that is never set back, in seconds.
        entropy: Random bytes, as `os.urandom` gives them.
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
        self._read: tuple[bytes | None, bytes | None] = None, None

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
        """Begin a client in a folder of its own.

        Nothing counts as spent yet: begin one only on a device that never reported, or for what its
        earlier client had left. Nothing is reported before terms were accepted (`accept`).

        Args:
            folder: Where everything is kept: made if it is missing, else empty.
            proxy_url: The address of the proxy.
            verification_key: The 32 bytes that the server's signature is checked with.
            limit: The local epsilon that this device may ever spend.
            clock: The time of day, in seconds since 1970; another one only for tests.
            monotonic: A clock that is never set back; another one only for tests.
            entropy: Random bytes for turns and moments; another source only for tests.
        """
        if len(verification_key) != 32:
            raise SettingsError(f"verification_key must have 32 bytes, not {len(verification_key)}")
        url = check_url(proxy_url)
        _make_folder(folder)
        with _locked(folder):
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
        """The client in a folder; close it when done.

        Args:
            folder: What `create` made.
            clock: As of `create`.
            monotonic: As of `create`.
            entropy: As of `create`.
        """
        return cls(folder, ClientStore.open(folder), clock, monotonic, entropy)

    @property
    def proxy_url(self) -> str:
        """The only address that this client talks to."""
        return self._store.proxy_url

    def record(self, ids: Iterable[str]) -> int:
        """Remember what the owner touched, all of it or nothing; how many were new.

        Items of one call count as touched at the same moment, later than those of earlier calls.
        What was recorded last counts most when recommending; no report knows the order. A history
        has at most `MAX_HISTORY_ITEMS` (100,000) items: beyond that the earliest are dropped.

        Args:
            ids: Items, by their ids in the catalogue. An id that it does not know is kept, since a
                later catalogue may know it.
        """
        return self._store.history.add([check_items(ids)])

    def record_csv(self, path: Path, column: str = "item", time: str | None = None) -> int:
        """Remember one column of a CSV file, all of it or nothing; how many were new.

        Beyond 100,000 items in all the earliest are dropped.

        Args:
            path: The file: UTF-8, with the names of its columns in the first line.
            column: The column of the items' ids.
            time: The column that says when (numbers or ISO dates). Items are put in that order; the
                times themselves are not kept. None: all were touched at the same moment.
        """
        return self._store.history.add(read_history_csv(path, column, time))

    def remove(self, ids: Iterable[str]) -> int:
        """Delete some of what the owner touched, and return how many were there.

        No file of the client has these items any more. The disk may still have them: it keeps the
        blocks that files gave back. Only an encrypted disk prevents that.

        No batch is made of it any more. One that is being made or waits to be sent still leaves:
        nobody else can tell that something was removed.

        Args:
            ids: Items, by their ids in the catalogue.
        """
        return self._store.history.remove(check_items(ids))

    def list_touched(self) -> list[str]:
        """What the owner touched, the latest last; of one moment, in the order of their names."""
        moments = self._store.history.get_moments()
        return sorted(moments, key=lambda item: moments[item])

    def list_catalogue(self) -> tuple[Item, ...]:
        """All items that there are, in the order of the model's rows; asks nobody."""
        return self._model().catalogue.items

    def fetch_terms(self, api: ProxyApi) -> Terms:
        """The terms that the server asks for now, to show to the owner; changes nothing.

        Args:
            api: The proxy, as `HttpProxy`.
        """
        return fetch_terms(self._store, api)

    def accept(self, terms: Terms) -> None:
        """Keep that the owner said yes; no worse terms hold from now on.

        Args:
            terms: Exactly what the owner was shown.
        """
        with _locked(self._folder):
            self._store.accept(terms)

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
        batch that was made is kept and sent again byte for byte, when the proxy wants it.
        Where reports need an account, a sync that sends nothing fetches the next epoch's token.

        Others see when it asks and sends. So call it by the clock, in a process of its own, and
        never at a moment that depends on the history, such as when a list is ready: see
        docs/reference/python.md.

        Args:
            api: The proxy, as `HttpProxy`.
            draw_words: Draws the random words of the reports; another source only for tests.
            sleep: Waits for so many seconds; another one only for tests.
            jitter: Within how many seconds the moment is drawn. 0 does everything at once, which
                shows when the device woke up: for tests and demos.
            fetch_attestation: Asks the product's backend for an attestation, where reports need an
                account.
        """
        if not 0 <= jitter <= MAX_JITTER_SECONDS:  # a NaN is not
            raise SettingsError(
                f"jitter must be a number of seconds in 0..{MAX_JITTER_SECONDS:g}, not {jitter}"
            )
        syncing = SyncSession(
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
        with _locked(self._folder, wait=PREPARATION_SECONDS):
            begun = syncing.start()
        if isinstance(begun, SyncResult):
            return begun
        syncing.wait(begun)
        with _locked(self._folder, wait=PREPARATION_SECONDS):
            return syncing.finish(begun)

    def look(self, api: ProxyApi, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Fetch what the server published, and no more: nothing is reported.

        A withdrawn item is on no list after this, and a new one may be. Call it by the clock, like
        `sync`; also while a `sync` elsewhere waits for its moment. It begins at a
        whole ten seconds too.

        Args:
            api: The proxy, as `HttpProxy`.
            sleep: Waits for so many seconds; another one only for tests.
        """
        sleep(-self._clock() % SYNC_GRID_SECONDS)
        # Not waited for: its end could show how long a batch took. A sync fetches the same.
        with _locked(self._folder):
            refresh(self._store, api, self._store.trusted, self._clock())

    def recommend(self, n: int = 10) -> list[Recommendation]:
        """The best items that the owner has not touched; asks nobody.

        Args:
            n: How many, at most.
        """
        if n < 1:
            raise SettingsError(f"at least one item must be asked for, not {n}")
        return list_recommendations(self._model(), self._store.history.get_moments(), n)

    def pause(self, on: bool = True) -> None:  # noqa: FBT001, FBT002 - its name says what it is
        """Stop reporting: no batch leaves after this returns, not even one that waits.

        Nor does a request for a token. What is published is still fetched.

        A request that is under way is waited for.

        Args:
            on: False ends the pause.
        """
        self._store.pause(on=on)

    def set_limit(self, limit: float) -> None:
        """Another limit, on the ledger's record; what was spent stays spent.

        Args:
            limit: The local epsilon that this device may ever spend.
        """
        with _locked(self._folder):
            self._store.set_limit(limit)

    def get_status(self) -> Status:
        """Where it stands; asks nobody."""
        store, items = self._store, self._store.history.list_items()
        release, newest = self._held(), store.newest
        numbers = {} if release is None else release.catalogue.numbers
        unknown = tuple(item for item in items if item not in numbers)
        terms = store.terms
        spent, remaining, limit, epochs, problem = self._budget(terms)
        return Status(
            proxy_url=store.proxy_url,
            epoch=None if newest is None else newest[0],
            reports_behind=0 if release is None else release.manifest.reports_behind,
            items=0 if release is None else release.manifest.items,
            terms=terms,
            pending_terms=store.pending_terms,
            epochs=epochs,
            paused=store.paused,
            spent=spent,
            remaining=remaining,
            limit=limit,
            problem=problem,
            batches=store.count_batches(),
            interactions=len(items),
            in_catalogue=len(items) - len(unknown),
            unknown=unknown,
        )

    def compute_outlook(self, terms: Terms) -> Outlook:
        """What terms promise this device and how far its limit goes; asks nobody.

        Args:
            terms: As `asked` gives them.
        """
        ledger = self._store.read_ledger()
        charges, within = ledger.charges, terms.turns_within(ledger)
        whole, limited = terms.promise(charges), terms.promise(charges, turns=within)
        short = terms.summarize(charges, within)
        return Outlook(whole, terms.turns_left(charges), within, limited.local, short)

    def forget(self) -> None:
        """Delete what the owner touched, the batch on its way, and the model.

        No file of the client has them any more; the disk may, as after `remove`.
        The ledger stays: what was spent and in which epochs, because reports that left cannot be
        called back. It holds no item. To delete that too, remove the folder. No batch of what was
        forgotten leaves after this returns; a request that is under way is waited for.
        """
        self._store.forget()

    def close(self) -> None:
        """Close the database; the end of a `with` block does it too."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _model(self) -> Release:
        """What was accepted last, if there is any."""
        release = self._held()
        if release is None:
            raise StoreError(f"{self._folder}: there is no model yet; sync first")
        return release

    def _held(self) -> Release | None:
        """What was accepted last; read and verified anew only if it is another than the last time.

        Another process may have synced or forgotten meanwhile: the database is asked every time.
        """
        newest = self._store.get_signed_manifest(), self._store.get_signed_shelf()
        if self._release is None or newest != self._read:
            self._release, self._read = load_release(self._store), newest
        return self._release

    def _budget(
        self, terms: Terms | None
    ) -> tuple[float | None, float | None, float | None, int | None, str | None]:
        try:
            ledger = self._store.read_ledger()
        except LedgerError as error:
            return None, None, None, None, str(error)
        epochs = 0 if terms is None else len(ledger.list_charges(terms.training))
        spent, remaining = round_up(ledger.spent), round_down(ledger.remaining)
        return spent, remaining, ledger.limit, epochs, None


def _locked(folder: Path, *, wait: float = 0.0) -> AbstractContextManager[None]:
    taken = "another process is syncing; wait for its end"
    return exclusive_lock(folder / "client.lock", taken, wait=wait)


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
        raise StoreError(f"{folder}: {get_reason(error)}") from error
