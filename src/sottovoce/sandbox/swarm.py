"""A swarm: live clients over HTTP, epoch by epoch.

The server learns from these clients as from any others; what is measured is the model that it
publishes, on the items that no device was told of.
"""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import httpx

from sottovoce.client import HttpProxy
from sottovoce.data import Interactions
from sottovoce.errors import RefusedError, UnavailableError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.protocol import Manifest, SignedManifest
from sottovoce.sandbox.devices import PROCESSES, ClientPool, People, PublicReader, choose_people
from sottovoce.sandbox.system import new_folder
from sottovoce.simulation import build_engine
from sottovoce.simulation.engines import AUTO
from sottovoce.simulation.evaluation.metrics import summary
from sottovoce.simulation.run import evaluate, popularity_ranks
from sottovoce.training import Settings

LEAST_TIME = 30.0
"""Seconds to an epoch's end: with less, the next one is waited for,"""
BEATS = 5.0
"""and so long beyond it: one that is still there then waits for its crowd, which is us."""


def training_of(manifest: Manifest, epochs: int, known: Settings | None = None) -> Settings:
    """The settings behind a manifest; what it does not say is `known`, else the preset's.

    For some epochs of it: whose turn they are is not among them.
    """
    base = known or Settings.preset(manifest.terms.mechanism)
    return replace(manifest.training(base), epochs=epochs, lifetime=0)


class SwarmProgress(Protocol):
    """Is told how far the swarm is."""

    def begin(self, what: str, total: int, reports_each: int = 0) -> None:
        """Begin a task of `total` steps, each of `reports_each` reports; the last one is done."""

    def step(self) -> None:
        """Another step is done."""


@dataclass(frozen=True)
class SwarmPlan:
    """Which clients to run, and against which proxy."""

    proxy: str
    """Its address."""
    key: bytes
    """The server's verification key."""
    clients: int
    epochs: int
    seed: int = 0
    """Of who takes part, what is left out, and against what it is ranked; never of a report."""
    wait: float = 600.0
    """Seconds that one epoch may take after everybody has sent."""
    training: Settings | None = None
    """What the server trains with, where it is known better than from the manifest."""
    attest: str = ""
    """Where each client has an account, if reports need one."""


@dataclass(frozen=True)
class Round:
    """One epoch of the swarm."""

    epoch: int
    outcomes: dict[str, int]
    """How many clients' syncs came to what."""
    retries: int
    counted: int
    """Reports behind the new model, as the server says."""
    seconds: dict[str, float]
    """`sync`, of all clients; `wait`, until the next manifest was there."""
    metrics: dict[str, float]
    """Of the new model."""

    @property
    def sent(self) -> int:
        """Clients whose batch the proxy has acknowledged."""
        return self.outcomes.get("sent", 0)


@dataclass(frozen=True, eq=False)
class SwarmResult:
    plan: SwarmPlan
    people: People
    settings: Settings
    rounds: list[Round]
    popularity: dict[str, float]
    """The metrics of recommending what most have touched: a reader must see them."""
    spent: float
    """The largest epsilon that any client's ledger shows."""
    problems: list[str]
    """Every error message, once."""
    privacy_report: PrivacyReport
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {
            "proxy": self.plan.proxy,
            "data": self.people.data.summary(),
            "clients": self.plan.clients,
            "processes": PROCESSES,
            "seed": self.plan.seed,
            "settings": self.settings.as_dict(),
            "epochs": [{**asdict(each), "sent": each.sent} for each in self.rounds],
            "popularity": self.popularity,
            "ledgers_spent_at_most": self.spent,
            "problems": self.problems,
            "privacy": {
                **self.privacy_report.as_dict(),
                "statement": self.privacy_report.statement(),
            },
            "seconds": self.seconds,
        }


def run_swarm(data: Interactions, plan: SwarmPlan, watch: SwarmProgress) -> SwarmResult:
    """Make the clients, drive them through the epochs, say how good the model got."""
    with httpx.Client(verify=httpx.create_ssl_context(), trust_env=False) as http:
        reader = PublicReader(HttpProxy(http, plan.proxy), plan.key)
        first = reader.manifest()
        if first.manifest.public_key is None and first.manifest.next_token_key is None:
            raise RefusedError("the training is finished: the server asks for no more reports")
        catalogue = reader.release(first).catalogue
        people = choose_people(data, catalogue, plan.clients, plan.seed)
        began = time.perf_counter()
        with new_folder("swarm") as folder, ClientPool(plan.proxy) as pool:
            swarm = _Swarm(plan, reader, people, pool, watch, first)
            swarm.make_clients(folder)
            made = time.perf_counter()
            swarm.drive()
        driven = time.perf_counter()
    seconds = {"make": made - began, "drive": driven - made}
    return SwarmResult(
        plan,
        people,
        swarm.settings,
        swarm.rounds,
        summary(popularity_ranks(people.candidates)),
        swarm.spent,
        sorted(swarm.problems),
        swarm.make_privacy_report(),
        seconds,
    )


class _Swarm:
    def __init__(
        self,
        plan: SwarmPlan,
        reader: PublicReader,
        people: People,
        pool: ClientPool,
        watch: SwarmProgress,
        first: SignedManifest,
    ):
        self.settings = training_of(first.manifest, plan.epochs, plan.training)
        self.spent = 0.0
        self.problems: set[str] = set()
        self._plan = plan
        self._reader = reader
        self._people = people
        self._pool = pool
        self._watch = watch
        self._first = first
        self._engine = build_engine(AUTO, people.tested, self.settings)
        self._folders: list[Path] = []
        self.rounds: list[Round] = []

    def make_clients(self, folder: Path) -> None:
        """Each with what its owner touched, and a limit that the epochs to come just fit into."""
        plan, users = self._plan, range(self._people.train.n_users)
        self._folders = [folder / f"{user:06}" for user in users]
        items = [self._people.items_of(user) for user in users]
        limit = self.settings.epsilon * self.settings.reports * plan.epochs
        self._watch.begin("making clients", len(users))
        for _ in self._pool.make(self._folders, items, plan.proxy, plan.key, limit):
            self._watch.step()

    def drive(self) -> None:
        """Epoch after epoch, until there are enough or the training is finished."""
        self._first = signed = self._with_time_left(self._reader.manifest())
        if self._plan.attest:
            signed = self._with_tokens(signed)
        while len(self.rounds) < self._plan.epochs and signed.manifest.public_key is not None:
            signed = self._one(signed)

    def _with_tokens(self, signed: SignedManifest) -> SignedManifest:
        """The epoch after this one: everybody fetches a token for it, and nobody has one now."""
        self._sync(signed.manifest.epoch)
        self._watch.begin("tokens are for the next epoch", 1)
        following = self._reader.after(signed.manifest.epoch, self._plan.wait)
        self._watch.step()
        return following

    def _with_time_left(self, signed: SignedManifest) -> SignedManifest:
        """The next epoch, if this one would end while clients are sending."""
        manifest = signed.manifest
        left = manifest.closes - time.time()
        if -BEATS < left < min(LEAST_TIME, (manifest.closes - manifest.opens) / 2):
            self._watch.begin(f"epoch {manifest.epoch} is nearly over", 1)
            with suppress(UnavailableError):
                signed = self._reader.after(manifest.epoch, left + BEATS)
            self._watch.step()
        return signed

    def _one(self, signed: SignedManifest) -> SignedManifest:
        epoch, began = signed.manifest.epoch, time.perf_counter()
        outcomes, retries = self._sync(epoch)
        synced = time.perf_counter()
        self._watch.begin(f"epoch {epoch}: waiting for the server", 1)
        following = self._reader.after(epoch, self._plan.wait)
        waited = time.perf_counter()
        self._watch.step()
        metrics = evaluate(self._engine, self._reader.release(following).V)
        # An epoch whose crowd did not come leaves the model as it was.
        applied = following.manifest.model != signed.manifest.model
        counted = following.manifest.reports_behind if applied else 0
        seconds = {"sync": synced - began, "wait": waited - synced}
        self.rounds.append(Round(epoch, outcomes, retries, counted, seconds, metrics))
        return following

    def _sync(self, epoch: int) -> tuple[dict[str, int], int]:
        self._watch.begin(f"epoch {epoch}", len(self._folders), self.settings.reports)
        outcomes: Counter[str] = Counter()
        retries = 0
        for result in self._pool.sync(self._folders, self._plan.wait, self._plan.attest):
            outcomes[result.outcome] += 1
            retries += result.tries - 1
            self.spent = max(self.spent, result.spent)
            if result.problem:
                self.problems.add(result.problem)
            self._watch.step()
        return dict(outcomes), retries

    def make_privacy_report(self) -> PrivacyReport:
        """What taking part in these epochs cost each client, at most."""
        event = self._first.manifest.terms.event
        epochs = min(len(self.rounds), event.epochs)
        return make_privacy_report(
            replace(event, epochs=epochs), min(each.sent for each in self.rounds)
        )
