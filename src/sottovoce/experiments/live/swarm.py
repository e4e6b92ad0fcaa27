"""A swarm: live clients over HTTP, epoch by epoch, held against the simulator.

The server learns from these clients as from any others; what is measured is the model that it
publishes, on the items that no device was told of.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from sottovoce.client import HttpProxy
from sottovoce.errors import RefusedError, SettingsError
from sottovoce.experiments.live.devices import Crew, Member
from sottovoce.experiments.live.people import choose_people
from sottovoce.experiments.live.reader import PublicReader
from sottovoce.experiments.live.simulated import Noise, simulate_from, training_of
from sottovoce.privacy import Account, Crowd, Reporting, account
from sottovoce.simulation import build_engine
from sottovoce.simulation.run import evaluate, evaluate_popularity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.data.split import SplitRule
    from sottovoce.experiments.live.people import People
    from sottovoce.protocol import SignedManifest
    from sottovoce.simulation import Engine
    from sottovoce.training import Settings


LEAST_TIME = 30.0
"""Seconds to an epoch's end: with less, the next one is waited for."""


class Watch(Protocol):
    """Is told what is going on."""

    def begin(self, what: str, total: int, reports_each: int = 0) -> None:
        """So many steps follow, of so many reports each."""

    def step(self, steps: int = 1) -> None:
        """So many are done."""

    def end(self) -> None:
        """It is over."""


@dataclass(frozen=True)
class Plan:
    """Whom to drive, against what."""

    proxy: str
    """Its address."""
    key: bytes
    """The server's verification key."""
    clients: int
    epochs: int
    """To be applied by the server while the swarm watches."""
    processes: int
    seed: int = 0
    """Of who takes part, what is left out, and against what it is ranked; never of a report."""
    split: SplitRule = "random"
    wait: float = 600.0
    """Seconds that one epoch may take after everybody has sent."""
    compare_runs: int = 0
    """Runs of the simulator to compare with."""
    training: Settings | None = None
    """What the server trains with, where it is known better than from the manifest."""
    keep: Path | None = None
    """Where the clients' folders go and stay; else a temporary folder."""

    def __post_init__(self) -> None:
        for name in ("clients", "epochs", "processes"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class Round:
    """One epoch, as it was and as it would have been."""

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
    simulated: dict[str, Noise] = field(default_factory=dict)
    """The same metrics of the simulator, if it was asked."""

    @property
    def sent(self) -> int:
        """Clients whose batch the proxy has acknowledged."""
        return self.outcomes.get("sent", 0)


@dataclass(frozen=True, eq=False)
class SwarmResult:
    """Everything that a swarm came to."""

    plan: Plan
    people: People
    settings: Settings
    rounds: list[Round]
    popularity: dict[str, float]
    """The metrics of recommending what most have touched: a reader must see them."""
    spent: float
    """The most that any client's ledger says."""
    problems: list[str]
    """The first words of what went wrong, each once."""
    account: Account
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "proxy": self.plan.proxy,
            "data": self.people.data.summary(),
            "clients": self.plan.clients,
            "processes": self.plan.processes,
            "seed": self.plan.seed,
            "split": self.plan.split,
            "settings": self.settings.as_dict(),
            "epochs": [{**asdict(each), "sent": each.sent} for each in self.rounds],
            "popularity": self.popularity,
            "ledgers_spent_at_most": self.spent,
            "problems": self.problems,
            "privacy": {**self.account.as_dict(), "statement": self.account.statement()},
            "seconds": self.seconds,
        }


def run_swarm(data: Interactions, plan: Plan, watch: Watch) -> SwarmResult:
    """Make the clients, drive them through the epochs, say how good the model got."""
    with httpx.Client(trust_env=False) as http:
        reader = PublicReader(HttpProxy(http, plan.proxy), plan.key)
        first = reader.manifest()
        if first.manifest.public_key is None:
            raise RefusedError("the training is finished: the server asks for no more reports")
        catalogue = reader.edition(first).catalogue
        people = choose_people(data, catalogue, plan.clients, split=plan.split, seed=plan.seed)
        began = time.perf_counter()
        with _folder(plan.keep) as folder, Crew(plan.proxy, plan.processes) as crew:
            swarm = _Swarm(plan, reader, people, crew, watch, first)
            swarm.make_clients(folder)
            made = time.perf_counter()
            swarm.drive()
        driven = time.perf_counter()
        rounds = swarm.compared()
    seconds = {
        "make": made - began,
        "drive": driven - made,
        "compare": time.perf_counter() - driven,
    }
    popularity = evaluate_popularity(people.candidates)
    return SwarmResult(
        plan,
        people,
        swarm.settings,
        rounds,
        popularity,
        swarm.spent,
        sorted(swarm.problems),
        swarm.account(),
        seconds,
    )


class _Swarm:
    """The clients between two epochs."""

    def __init__(
        self,
        plan: Plan,
        reader: PublicReader,
        people: People,
        crew: Crew,
        watch: Watch,
        first: SignedManifest,
    ):
        self.settings = training_of(first.manifest, plan.epochs, plan.training)
        self.spent = 0.0
        self.problems: set[str] = set()
        self._plan = plan
        self._reader = reader
        self._people = people
        self._crew = crew
        self._watch = watch
        self._first = first
        self._engine: Engine = build_engine("cpu", people.train, self.settings)
        self._first_items: NDArray[np.float32] | None = None
        self._folders: list[Path] = []
        self._rounds: list[Round] = []

    def make_clients(self, folder: Path) -> None:
        """Each with what its owner touched, and a limit that the epochs to come just fit into."""
        plan, users = self._plan, range(self._people.train.n_users)
        members = [Member(folder / f"{user:06}", self._people.items_of(user)) for user in users]
        self._folders = [member.folder for member in members]
        limit = self.settings.epsilon * self.settings.reports * plan.epochs
        self._watch.begin("making clients", len(members))
        for made in self._crew.make(members, plan.proxy, plan.key, limit):
            self._watch.step(made)
        self._watch.end()

    def drive(self) -> None:
        """Epoch after epoch, until there are enough or the training is finished."""
        self._first = signed = self._with_time_left(self._reader.manifest())
        self._first_items = self._reader.edition(signed).V
        while len(self._rounds) < self._plan.epochs and signed.manifest.public_key is not None:
            signed = self._one(signed)

    def _with_time_left(self, signed: SignedManifest) -> SignedManifest:
        """Rather the next epoch than one that ends while clients are sending."""
        manifest, now = signed.manifest, time.time()
        if manifest.closes - now < min(LEAST_TIME, (manifest.closes - manifest.opens) / 2):
            self._watch.begin(f"epoch {manifest.epoch} is nearly over", 1)
            signed = self._reader.after(manifest.epoch, self._plan.wait)
            self._watch.step()
            self._watch.end()
        return signed

    def _one(self, signed: SignedManifest) -> SignedManifest:
        epoch, began = signed.manifest.epoch, time.perf_counter()
        outcomes, retries = self._sync(epoch)
        synced = time.perf_counter()
        self._watch.begin(f"epoch {epoch}: waiting for the server", 1)
        following = self._reader.after(epoch, self._plan.wait)
        waited = time.perf_counter()
        self._watch.step()
        self._watch.end()
        metrics = evaluate(self._engine, self._reader.edition(following).V, self._people.candidates)
        # An epoch that was discarded, by a proxy with too few people, leaves the model as it was.
        applied = following.manifest.model != signed.manifest.model
        counted = following.manifest.previous_reports if applied else 0
        seconds = {"sync": synced - began, "wait": waited - synced}
        self._rounds.append(Round(epoch, outcomes, retries, counted, seconds, metrics))
        return following

    def _sync(self, epoch: int) -> tuple[dict[str, int], int]:
        self._watch.begin(f"epoch {epoch}", len(self._folders), self.settings.reports)
        outcomes: Counter[str] = Counter()
        retries = 0
        for some in self._crew.sync(self._folders, self._plan.wait):
            for took in some:
                outcomes[took.outcome] += 1
                retries += took.tries - 1
                self.spent = max(self.spent, took.spent)
                if took.problem:
                    self.problems.add(took.problem)
            self._watch.step(len(some))
        self._watch.end()
        return dict(outcomes), retries

    def compared(self) -> list[Round]:
        """The rounds, each beside what the simulator makes of the same people and epochs."""
        runs, rounds = self._plan.compare_runs, self._rounds
        if not runs or self._first_items is None:
            return rounds
        self._watch.begin("simulating", runs * self.settings.epochs)
        first, done = self._first_items, self._first.manifest.epoch - 1
        simulated = simulate_from(first, done, self.settings, self._people, runs, self._watch.step)
        self._watch.end()
        return [
            _beside(each, [run[number] for run in simulated]) for number, each in enumerate(rounds)
        ]

    def account(self) -> Account:
        """What taking part in all of these epochs cost each client."""
        rho = self.settings.build(self._first.manifest.items).loud_fraction
        event = Reporting(self.settings.epsilon, self.settings.reports, len(self._rounds), rho)
        return account(event, Crowd.of(min(each.sent for each in self._rounds)))


def _beside(live: Round, simulated: list[dict[str, float]]) -> Round:
    noise = {name: Noise.of([run[name] for run in simulated]) for name in live.metrics}
    return Round(**{**vars(live), "simulated": noise})


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Removed at the end, unless it was asked for."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sottovoce-swarm-") as temporary:
            yield Path(temporary)
        return
    if keep.exists() and any(keep.iterdir()):
        raise SettingsError(f"{keep} is not empty: clients are begun in a folder of their own")
    keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield keep
