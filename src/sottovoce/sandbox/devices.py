"""Many real clients on one machine: each a folder of its own, synced by a pool of processes.

Processes and not threads, because sealing holds the interpreter's lock. A process shares its
connection and the public files that it has fetched among its clients; everything else (database,
ledger, entropy, sealing, the manifest asked for anew and checked) is each client's own.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import numpy as np

from sottovoce.client import Client, HttpProxy, ProxyApi
from sottovoce.client.http import attesting
from sottovoce.core import Histories
from sottovoce.data import Interactions, leave_one_out
from sottovoce.errors import DataError, SottovoceError, UnavailableError
from sottovoce.protocol import (
    Catalogue,
    Files,
    Newest,
    PublishedSource,
    Release,
    SignedManifest,
    fetch_manifest,
    fetch_release,
)
from sottovoce.service.workers import set_up_worker
from sottovoce.simulation.evaluation.ranking import Candidates, sample_candidates
from sottovoce.simulation.people import LeftOut, Part, Parts, Whole
from sottovoce.simulation.people import People as Simulated

T = TypeVar("T")
PROCESSES = 2 * (os.cpu_count() or 1)
AT_ONCE = 4
"""Clients that a process is given at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the second try, doubled from try to try."""


@dataclass(frozen=True)
class SyncResult:
    outcome: str
    """As in `sottovoce.client.Synced`, or `unavailable`, or `failed`."""
    tries: int
    spent: float
    """Of the limit, so far."""
    problem: str = ""


class SharedDownloads:
    """A `ProxyApi` that fetches each public file once, however many clients ask."""

    def __init__(self, api: ProxyApi):
        self._api = api
        self._files: dict[bytes, bytes] = {}

    def manifest(self) -> bytes:
        """Asked for anew by every client."""
        return self._api.manifest()

    def shelf(self) -> bytes:
        """As the manifest."""
        return self._api.shelf()

    def model(self, sha256: bytes, most: int) -> bytes:
        return self._once(sha256, lambda: self._api.model(sha256, most))

    def catalogue(self, sha256: bytes) -> bytes:
        return self._once(sha256, lambda: self._api.catalogue(sha256))

    def check_taken(self, manifest_hash: bytes) -> None:
        """As the manifest."""
        self._api.check_taken(manifest_hash)

    def send(self, batch: bytes) -> None:
        self._api.send(batch)

    def token(self, request: bytes) -> bytes:
        return self._api.token(request)

    def _once(self, sha256: bytes, fetch: Callable[[], bytes]) -> bytes:
        if sha256 not in self._files:
            self._files[sha256] = fetch()
        return self._files[sha256]


class ClientPool:
    """A pool of processes that run clients. Use it in a `with`."""

    def __init__(self, url: str):
        self._pool = ProcessPoolExecutor(
            PROCESSES, get_context("spawn"), initializer=_start_worker, initargs=(url,)
        )

    def make(
        self, folders: Sequence[Path], items: Sequence[list[str]], *about: Any
    ) -> Iterator[None]:
        """Begin a client in each folder, whose owner touched these items; see `make_client`."""
        one = partial(make_client, *about)
        yield from _results(self._pool.map(one, folders, items, chunksize=AT_ONCE))

    def sync(
        self, folders: Sequence[Path], patience: float, attest: str = ""
    ) -> Iterator[SyncResult]:
        """Every client once, each tried for at most so many seconds."""
        one = partial(sync_in_pool, patience, attest)
        yield from _results(self._pool.map(one, folders, chunksize=AT_ONCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def make_client(url: str, key: bytes, limit: float, folder: Path, items: list[str]) -> None:
    """In a process of the pool. Its owner says yes to the terms of now, and to no others."""
    assert _api is not None, "the pool starts its processes with an address"
    with Client.create(folder, proxy_url=url, verification_key=key, limit=limit) as client:
        client.record(items)
        client.accept(client.asked(_api))


def sync_in_pool(patience: float, attest: str, folder: Path) -> SyncResult:
    assert _api is not None, "the pool starts its processes with an address"
    return sync_one(folder, _api, patience, attest=attest)


def sync_one(
    folder: Path,
    api: ProxyApi,
    patience: float,
    *,
    attest: str = "",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> SyncResult:
    """Until it works, is refused, or time is up; a batch that was made is only ever resent.

    Each sends at once (no jitter): a swarm is a test, and nobody's wake-up time is in it. `attest`
    is where it has an account, of its folder's name; then it fetches its next token as well.
    """
    deadline = clock() + patience
    tries, pause = 1, FIRST_PAUSE
    known = attesting(attest, folder.name) if attest else None
    with Client.open(folder) as client:
        while True:
            try:
                synced = client.sync(api, jitter=0, attest=known)
                if known is not None and synced.outcome == "sent":
                    client.sync(api, jitter=0, attest=known)
                return SyncResult(synced.outcome, tries, synced.spent)
            except UnavailableError as error:
                if clock() + pause > deadline:
                    return SyncResult(
                        "unavailable", tries, client.status().spent or 0.0, str(error)
                    )
            except SottovoceError as error:
                told = f"{type(error).__name__}: {error}"
                return SyncResult("failed", tries, client.status().spent or 0.0, told)
            sleep(pause)
            tries, pause = tries + 1, min(2 * pause, LONGEST_PAUSE)


_api: ProxyApi | None = None
"""Of this process."""


def _start_worker(url: str) -> None:
    """In a new process."""
    global _api
    set_up_worker()
    http = httpx.Client(verify=httpx.create_ssl_context(), trust_env=False)
    _api = SharedDownloads(HttpProxy(http, url))


def _results(found: Iterator[T]) -> Iterator[T]:
    try:
        yield from found
    except BrokenExecutor as error:
        raise UnavailableError("a process that clients run in has ended; begin again") from error


NEGATIVES = 99
"""As in `sottovoce simulate`."""


@dataclass(frozen=True, eq=False)
class People:
    """Who takes part, numbered by the catalogue's rows, and what they are tested on."""

    data: Interactions
    candidates: Candidates

    @property
    def train(self) -> Histories:
        """What their devices know: everything but the item that each is tested on."""
        return self.candidates.split.train

    @property
    def tested(self) -> Parts:
        """The same people as engines take them, with what each is tested on."""
        return Whole(Part(Simulated(self.train), LeftOut.of(self.candidates)))

    def items_of(self, user: int) -> list[str]:
        """The names of what a person's device knows."""
        return [str(self.data.item_ids[row]) for row in self.train[user]]


def choose_people(data: Interactions, catalogue: Catalogue, clients: int, seed: int) -> People:
    """So many at random, and for each of them one item that their device is not told of."""
    chosen = on_catalogue(data, catalogue).subset(users=clients, seed=seed)
    left_out = leave_one_out(chosen, "random", seed)
    return People(chosen, sample_candidates(left_out, NEGATIVES, seed))


def on_catalogue(data: Interactions, catalogue: Catalogue) -> Interactions:
    """The same people with the catalogue's items, in its order; what it does not know is gone."""
    row_of = catalogue.numbers
    rows = np.array([row_of.get(str(item), -1) for item in data.item_ids.tolist()], np.int32)
    if not (rows >= 0).any():
        raise DataError(
            f"{data.name}: none of its {len(rows):,} items is in the catalogue that the proxy "
            f"serves ({len(catalogue.items):,} items, the first is {catalogue.items[0].id!r}): "
            "name the data set that the server's catalogue was made from"
        )
    numbers = rows[data.histories.indices]
    known = numbers >= 0
    users = data.histories.users_of_entries()[known]
    # Sorted anew: the catalogue's order need not be the data's.
    order = np.lexsort((numbers[known], users))
    counts = np.bincount(users, minlength=data.histories.n_users)
    histories = Histories.from_arrays(
        np.concatenate([[0], np.cumsum(counts)]), numbers[known][order], len(catalogue.items)
    )
    times = data.timestamps
    return replace(
        data,
        histories=histories,
        item_ids=np.array([item.id for item in catalogue.items], object),
        timestamps=None if times is None else times[known][order],
        titles=None,
        tags=None,
    )


LOOK_SECONDS = 0.2


class PublicReader:
    """Reads what one proxy publishes, and verifies it like a client."""

    def __init__(
        self,
        source: PublishedSource,
        key: bytes,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._source = source
        self._key = key
        self._clock = clock
        self._sleep = sleep
        self._newest: Newest | None = None
        self._files: Files = {}

    def manifest(self) -> SignedManifest:
        signed = fetch_manifest(self._source, self._key, self._newest)
        self._newest = signed.manifest.epoch, signed.hash
        return signed

    def release(self, signed: SignedManifest) -> Release:
        """All of an epoch; what it shares with the last one read is not fetched again."""
        release, self._files = fetch_release(signed, self._source, self._files.get)
        return release

    def after(self, epoch: int, patience: float) -> SignedManifest:
        """The first manifest of a later epoch; `UnavailableError` if there is none in time."""
        deadline = self._clock() + patience
        problem = ""
        while self._clock() < deadline:
            try:
                signed = self.manifest()
                if signed.manifest.epoch > epoch:
                    return signed
            except UnavailableError as error:
                problem = f" ({error})"
            self._sleep(LOOK_SECONDS)
        raise UnavailableError(
            f"epoch {epoch} was not applied within {patience:g} seconds{problem}. An epoch ends "
            "when its time is over and its crowd (least_clients) has come: let as many report, or "
            "wait longer (--wait)"
        )
