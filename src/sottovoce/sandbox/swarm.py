"""A swarm: many real clients on one machine, which take part in several epochs.

Each client has a folder with its own database and ledger. It draws its own randomness, verifies the
manifest and seals its reports. A pool of processes syncs the clients; threads would not be faster,
because sealing holds the interpreter's lock. Clients in a process share a connection and the public
files that were downloaded.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import httpx

from sottovoce.client import Client, HttpProxy, ProxyApi
from sottovoce.client.http import make_attestation_fetcher
from sottovoce.data import Interactions
from sottovoce.errors import RefusedError, SottovoceError, UnavailableError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.protocol import SignedManifest, Terms
from sottovoce.sandbox.people import PublicReader
from sottovoce.sandbox.processes import temporary_folder
from sottovoce.service.workers import set_up_worker

T = TypeVar("T")
# Number of processes in the pool.
SWARM_PROCESSES = 2 * (os.cpu_count() or 1)
# Clients that are handed to a process at a time.
CLIENTS_PER_PIECE = 4
# Seconds before the second try. The pause doubles for each further try, up to the maximum.
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 5.0
# Clients need at least this long to send before an epoch closes.
MIN_SECONDS_LEFT = 30.0
# An epoch that is still open this long after its closing time waits for its crowd: join it.
CLOSE_GRACE_SECONDS = 5.0
FINISHED_MESSAGE = "the training is finished: the server asks for no more reports"


class SwarmProgress(Protocol):
    """Receives progress updates."""

    def begin_task(self, name: str, total: int, reports_per_step: int = 0) -> None:
        """Begin a task, which ends the previous one.

        Args:
            name: Name of the task, for display.
            total: Number of steps.
            reports_per_step: Reports that a step sends; 0 if it sends none.
        """

    def step(self) -> None:
        """Count one step of the current task."""


@dataclass(frozen=True)
class SwarmPlan:
    """How many clients to run for how many epochs, and with which proxy."""

    proxy: str
    """Address of the proxy."""
    key: bytes
    """Verification key of the server."""
    clients: int
    epochs: int
    seed: int = 0
    """Seed for choosing people. Reports always use the operating system's randomness."""
    wait: float = 600.0
    """Seconds to wait for the next epoch after all clients have synced."""
    attest: str = ""
    """Address where clients get attestations of accounts; empty without accounts."""


@dataclass(frozen=True)
class SwarmEpoch:
    """The result of an epoch."""

    epoch: int
    outcomes: dict[str, int]
    """Number of clients by the outcome of their sync."""
    retries: int
    """Number of repeated tries, of all clients together."""
    counted: int
    """Reports behind the new model, by its manifest; 0 if the epoch was discarded."""
    seconds: dict[str, float]
    """Seconds for the syncs of all clients (`sync`) and then until the next epoch (`wait`)."""

    @property
    def sent(self) -> int:
        """Number of clients whose batch the proxy has acknowledged."""
        return self.outcomes.get("sent", 0)


@dataclass(frozen=True, eq=False)
class SwarmResult:
    """What the clients sent, and what it cost them in epsilon."""

    plan: SwarmPlan
    people: Interactions
    terms: Terms
    epochs: list[SwarmEpoch]
    max_spent: float
    """The largest epsilon in any client's ledger."""
    problems: list[str]
    """All error messages of clients, without repetitions."""
    privacy_report: PrivacyReport
    """The largest privacy cost of these epochs for a client."""
    seconds: dict[str, float]
    """Seconds for making the clients (`make`) and for all epochs (`drive`)."""

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file."""
        return {
            "proxy": self.plan.proxy,
            "data": self.people.summary(),
            "clients": self.plan.clients,
            "processes": SWARM_PROCESSES,
            "seed": self.plan.seed,
            "terms": self.terms.as_dict(),
            "epochs": [{**asdict(epoch), "sent": epoch.sent} for epoch in self.epochs],
            "ledgers_spent_at_most": self.max_spent,
            "problems": self.problems,
            "privacy": {
                **self.privacy_report.as_dict(),
                "statement": self.privacy_report.statement(),
            },
            "seconds": self.seconds,
        }


def run_swarm(data: Interactions, plan: SwarmPlan, progress: SwarmProgress) -> SwarmResult:
    """Create clients with the histories of people in `data`, and let them take part."""
    with httpx.Client(verify=httpx.create_ssl_context(), trust_env=False) as http:
        reader = PublicReader(HttpProxy(http, plan.proxy), plan.key)
        first = reader.read_manifest()
        if first.manifest.public_key is None and first.manifest.next_token_key is None:
            raise RefusedError(FINISHED_MESSAGE)
        catalogue = reader.read_release(first).catalogue
        # Keep only items of the catalogue: no others can be in a report.
        people = data.match_items(catalogue.numbers).subset(users=plan.clients, seed=plan.seed)
        began = time.perf_counter()
        with temporary_folder("swarm") as folder, ClientPool(plan.proxy) as pool:
            swarm = _Swarm(plan, reader, pool, progress, first.manifest.terms)
            swarm.create_clients(people, folder)
            created = time.perf_counter()
            swarm.run_epochs()
        ended = time.perf_counter()
    event = swarm.terms.event
    return SwarmResult(
        plan,
        people,
        swarm.terms,
        swarm.epochs,
        swarm.max_spent,
        sorted(swarm.problems),
        make_privacy_report(
            replace(event, epochs=min(len(swarm.epochs), event.epochs)),
            min(epoch.sent for epoch in swarm.epochs),
        ),
        {"make": created - began, "drive": ended - created},
    )


class _Swarm:
    def __init__(
        self,
        plan: SwarmPlan,
        reader: PublicReader,
        pool: "ClientPool",
        progress: SwarmProgress,
        terms: Terms,
    ):
        self.terms = terms
        self.epochs: list[SwarmEpoch] = []
        self.max_spent = 0.0
        self.problems: set[str] = set()
        self._plan = plan
        self._reader = reader
        self._pool = pool
        self._progress = progress
        self._folders: list[Path] = []

    def create_clients(self, people: Interactions, folder: Path) -> None:
        """Create a client for each person, with a limit that just covers the planned epochs."""
        plan, users = self._plan, range(people.n_users)
        self._folders = [folder / f"{user:06}" for user in users]
        items = [[str(people.item_ids[row]) for row in people.histories[user]] for user in users]
        # With this limit, a client that is charged too much cannot report in the last epoch.
        limit = self.terms.epsilon * self.terms.reports * plan.epochs
        self._progress.begin_task("making clients", people.n_users)
        for _ in self._pool.create(self._folders, items, plan.proxy, plan.key, limit):
            self._progress.step()

    def run_epochs(self) -> None:
        """Take part in the planned number of epochs, or until the training is finished."""
        signed = self._find_epoch_with_time_left()
        self.terms = signed.manifest.terms
        # With accounts, the first epoch is used only to fetch tokens for the next epoch.
        if self._plan.attest:
            signed = self._wait_for_tokens(signed)
        while len(self.epochs) < self._plan.epochs and signed.manifest.public_key is not None:
            signed = self._run_epoch(signed)
        if not self.epochs:
            raise RefusedError(FINISHED_MESSAGE)

    def _wait_for_tokens(self, signed: SignedManifest) -> SignedManifest:
        # This sync fetches tokens for the next epoch. Nobody has a token for this one.
        self._sync(signed.manifest.epoch)
        return self._wait_after(signed, "tokens are for the next epoch", self._plan.wait)

    def _find_epoch_with_time_left(self) -> SignedManifest:
        """Return the current epoch, or the next one if it closes too soon."""
        signed = self._reader.read_manifest()
        manifest = signed.manifest
        seconds_left = manifest.closes - time.time()
        required = min(MIN_SECONDS_LEFT, (manifest.closes - manifest.opens) / 2)
        # An epoch that is open long after its closing time waits for a crowd, which may be this
        # swarm: join it.
        if -CLOSE_GRACE_SECONDS < seconds_left < required:
            task = f"epoch {manifest.epoch} is nearly over"
            with suppress(UnavailableError):
                signed = self._wait_after(signed, task, seconds_left + CLOSE_GRACE_SECONDS)
        return signed

    def _wait_after(self, signed: SignedManifest, task: str, patience: float) -> SignedManifest:
        self._progress.begin_task(task, 1)
        try:
            return self._reader.wait_for_epoch_after(signed.manifest.epoch, patience)
        finally:
            self._progress.step()

    def _run_epoch(self, signed: SignedManifest) -> SignedManifest:
        epoch, began = signed.manifest.epoch, time.perf_counter()
        outcomes, retries = self._sync(epoch)
        synced = time.perf_counter()
        task = f"epoch {epoch}: waiting for the server"
        following = self._wait_after(signed, task, self._plan.wait)
        seconds = {"sync": synced - began, "wait": time.perf_counter() - synced}
        # A discarded epoch leaves the model as it was.
        applied = following.manifest.model != signed.manifest.model
        counted = following.manifest.reports_behind if applied else 0
        self.epochs.append(SwarmEpoch(epoch, outcomes, retries, counted, seconds))
        return following

    def _sync(self, epoch: int) -> tuple[dict[str, int], int]:
        """Sync all clients; return their number by outcome, and the number of retries."""
        self._progress.begin_task(f"epoch {epoch}", len(self._folders), self.terms.reports)
        outcomes: Counter[str] = Counter()
        retries = 0
        for result in self._pool.sync(self._folders, self._plan.wait, self._plan.attest):
            outcomes[result.outcome] += 1
            retries += result.tries - 1
            self.max_spent = max(self.max_spent, result.spent)
            if result.problem:
                self.problems.add(result.problem)
            self._progress.step()
        return dict(outcomes), retries


@dataclass(frozen=True)
class SwarmSync:
    """The result of a client's sync."""

    outcome: str
    """The outcome in `sottovoce.client.SyncResult`; `unavailable` or `failed` after an error."""
    tries: int
    spent: float
    """Total epsilon in the ledger."""
    problem: str = ""
    """The error message; empty if there was no error."""


class ClientPool:
    """A pool of processes that run clients. Use it as a context manager."""

    def __init__(self, url: str):
        self._pool = ProcessPoolExecutor(
            # A forked process would share the parent's TLS state and locks.
            SWARM_PROCESSES,
            get_context("spawn"),
            initializer=_start_worker,
            initargs=(url,),
        )

    def create(
        self, folders: Sequence[Path], items: Sequence[list[str]], *arguments: Any
    ) -> Iterator[None]:
        """Create a client in each folder, with the items that its owner touched.

        Args:
            folders: The folders of the clients.
            items: The ids of the items in each history.
            *arguments: The first arguments of `_create_client`.
        """
        create = partial(_create_client, *arguments)
        yield from _check_pool(self._pool.map(create, folders, items, chunksize=CLIENTS_PER_PIECE))

    def sync(
        self, folders: Sequence[Path], patience: float, attest: str = ""
    ) -> Iterator[SwarmSync]:
        """Sync each client once, with retries for at most `patience` seconds."""
        sync = partial(_sync_in_pool, patience, attest)
        yield from _check_pool(self._pool.map(sync, folders, chunksize=CLIENTS_PER_PIECE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def _check_pool(results: Iterator[T]) -> Iterator[T]:
    try:
        yield from results
    except BrokenExecutor as error:
        raise UnavailableError("a process that clients run in has ended; begin again") from error


# The proxy, as the clients of this process of the pool share it.
_worker_api: ProxyApi | None = None


def _start_worker(url: str) -> None:
    global _worker_api
    set_up_worker()
    http = httpx.Client(verify=httpx.create_ssl_context(), trust_env=False)
    _worker_api = SharedDownloads(HttpProxy(http, url))


def _create_client(url: str, key: bytes, limit: float, folder: Path, items: list[str]) -> None:
    """Create a client whose owner has these items and accepts the current terms."""
    assert _worker_api is not None, "`_start_worker` has set it"
    with Client.create(folder, proxy_url=url, verification_key=key, limit=limit) as client:
        client.record(items)
        client.accept(client.fetch_manifest(_worker_api).terms, limit)


def _sync_in_pool(patience: float, attest: str, folder: Path) -> SwarmSync:
    assert _worker_api is not None, "`_start_worker` has set it"
    return sync_client(folder, _worker_api, patience, attest=attest)


class SharedDownloads:
    """A `ProxyApi` that downloads each file once, for all clients of a process."""

    def __init__(self, api: ProxyApi):
        self.manifest = api.manifest
        self.shelf = api.shelf
        self.check_taken = api.check_taken
        self.send = api.send
        self.token = api.token
        self.model = cache(api.model)
        self.catalogue = cache(api.catalogue)
        self.patch = cache(api.patch)


def sync_client(
    folder: Path,
    api: ProxyApi,
    patience: float,
    *,
    attest: str = "",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> SwarmSync:
    """Sync a client; try again while the proxy is unavailable and time is left.

    The client makes a batch only once, and sends the same batch again. It sends without jitter: a
    swarm is a test, so there is no wake-up time of a real device to hide.

    Args:
        folder: Folder of the client. The name of the folder is the name of the account.
        api: The proxy.
        patience: Seconds to try.
        attest: Address where the client gets an attestation of its account, to fetch a token for
            the next epoch; empty without accounts.
        clock: Returns seconds of a clock that is never adjusted.
        sleep: Waits for some seconds.
    """
    deadline = clock() + patience
    tries, pause = 1, FIRST_PAUSE_SECONDS
    attestation = make_attestation_fetcher(attest, folder.name) if attest else None
    with Client.open(folder) as client:
        while True:
            try:
                synced = client.sync(api, jitter=0, fetch_attestation=attestation)
                # A sync that has sent a batch fetches no token, so sync again to fetch the token
                # for the next epoch.
                if attestation is not None and synced.outcome == "sent":
                    client.sync(api, jitter=0, fetch_attestation=attestation)
                return SwarmSync(synced.outcome, tries, synced.spent)
            except UnavailableError as error:
                if clock() + pause > deadline:
                    spent = client.get_status().spent or 0.0
                    return SwarmSync("unavailable", tries, spent, str(error))
            except SottovoceError as error:
                problem = f"{type(error).__name__}: {error}"
                return SwarmSync("failed", tries, client.get_status().spent or 0.0, problem)
            sleep(pause)
            tries, pause = tries + 1, min(2 * pause, MAX_PAUSE_SECONDS)
