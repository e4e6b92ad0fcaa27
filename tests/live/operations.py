"""Random lists of operations: send, lose, repeat, die and restart, on a fake clock."""

import shutil
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from sottovoce.client import Client
from sottovoce.core.mechanism import COIN_WORD, DIRECTION_WORD
from sottovoce.errors import RefusedError, UnavailableError
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, seal_reports
from sottovoce.proxy import ProxyStore
from sottovoce.server import ServerSettings, ServerStore
from sottovoce.server.transaction import OPEN, Epoch, Transaction
from sottovoce.training import Participation, Settings
from tests.crash import UNLIMITED_STEPS
from tests.live.killable import (
    KillableClient,
    KillableProxy,
    KillableServer,
    Killed,
    Part,
    ReusedStore,
    list_charged_epochs,
)
from tests.live.network import Network, ProxyOverNetwork, ServerOverNetwork
from tests.live.sent_batches import SentBatches
from tests.proxy.world import Randomness
from tests.proxy.world import settings as proxy_settings
from tests.server.world import KEYS, World, make_settings

# Every report has a direction of its own, 80 items are enough.
N_ITEMS = 80
N_FACTORS = 4
N_REPORTS = 2
N_DIRECTIONS = N_ITEMS * N_FACTORS
# People report in the lower half of the directions, dummies in the upper (`UpperHalfRandomness`).
N_PEOPLE_DIRECTIONS = N_DIRECTIONS // 2
# In a training of names, an outcome is a direction: they count from 0, and have no sign.
TRAININGS = {
    "taste": Settings.preset(
        "coordinate", reports=N_REPORTS, epochs=500, lifetime=999, factors=N_FACTORS
    ),
    "names": Settings.preset(
        "named",
        reports=N_REPORTS,
        epochs=500,
        lifetime=999,
        half_life=1.0,
        names=N_DIRECTIONS,
    ),
}
# Row of the table of names (`NameCounts`) that has the number of reports of all epochs.
LASTING_REPORTS_ROW = 3
PROXY_NAMES = ("east", "west")
START_TIME = 1_000.0
EPOCH_SECONDS = 100
# A patient server never goes on without its proxies.
LONG_GRACE_SECONDS = 1e9
SHORT_GRACE_SECONDS = 40.0
HOLD_SECONDS = 300


class Templates:
    """Folders of parts that are set up once, because copying is faster."""

    def __init__(self, folder: Path):
        self._folder = folder
        items = (Item(f"film-{number}", "A film") for number in range(N_ITEMS))
        (folder / "catalogue.json").write_bytes(Catalogue.from_items(items).raw)
        self.settings = make_settings(folder, "sqlite://", epoch_seconds=EPOCH_SECONDS)
        self.server = cache(self._server)
        self.client = cache(self._client)
        self.proxy = cache(self._proxy)
        self.scratch = folder / "lists"
        self.scratch.mkdir()
        self.reused = ReusedStore(self.scratch / "server")

    def adapt_settings(self, kind: str, least: int, dummies: int) -> ServerSettings:
        training = replace(TRAININGS[kind], dummies=dummies)
        return replace(self.settings, terms=make_terms(least), training=training)

    def _server(self, kind: str, least: int, dummies: int) -> Path:
        """Make a server whose first epoch is open."""
        folder = self._folder / f"server-{kind}-{least}-{dummies}"
        folder.mkdir()
        url = f"sqlite:///{folder / 'server.sqlite'}"
        world = World.begin(
            replace(self.adapt_settings(kind, least, dummies), database=url), now=START_TIME
        )
        world.server.tick()
        world.close()
        return folder

    def _proxy(self) -> Path:
        ProxyStore.create(self._folder / "proxy")
        return self._folder / "proxy"

    def _client(self, kind: str, least: int, dummies: int) -> Path:
        """Make a client that has accepted the terms of this server."""
        folder = self._folder / f"client-{kind}-{least}-{dummies}"
        store = ServerStore(f"sqlite:///{self.server(kind, least, dummies) / 'server.sqlite'}")
        with store.read() as transaction:
            latest = transaction.find_latest_epoch()
        store.close()
        assert latest is not None
        signed = SignedManifest.open(latest.manifest, KEYS.verification_key)
        with Client.create(
            folder,
            proxy_url="https://proxy.example",
            verification_key=KEYS.verification_key,
            limit=1e6,
        ) as client:
            client.record(["film-1", "film-7", "film-9"])
            client.accept(signed.manifest.terms, 1e6)
        return folder


def make_terms(least: int) -> Participation:
    return Participation(min_clients=least, hold=HOLD_SECONDS)


class Run:
    """One list of operations: `play` it, `settle` it, then `check` that all is well."""

    def __init__(self, seed: int, templates: Templates):
        self.rng = rng = Random(seed)
        self.now = START_TIME
        self.story: list[str] = []
        self.epochs, self.late, self.mixed_in = 0, 0, 0
        self._templates = templates
        self._folder = templates.scratch / str(seed)
        self.least = least = rng.choice((1, 1, 2, 3))
        self.dummies = dummies = (0, 3)[seed % 2]
        self.kind = kind = ("taste", "names")[seed // 2 % 2]
        self.patient = rng.random() < 0.7
        names = PROXY_NAMES[: rng.choice((1, 1, 2))]
        self._settings = replace(
            templates.adapt_settings(kind, least, dummies),
            grace_seconds=LONG_GRACE_SECONDS if self.patient else SHORT_GRACE_SECONDS,
            proxies={name: templates.settings.proxies[name] for name in names},
        )
        self.sent_batches = SentBatches(least)
        self.network = Network(rng, rng.choice((0.0, 0.1, 0.3)))
        self.server = KillableServer(
            templates.reused,
            templates.server(kind, least, dummies),
            self._settings,
            self._clock,
        )
        self.upstreams = {
            name: ServerOverNetwork(name, self.server, self.network)
            for name in self._settings.proxies
        }
        self.proxies = [self._make_proxy(name) for name in self._settings.proxies]
        self.clients: dict[str, KillableClient] = {}
        self.batches: list[tuple[KillableProxy, Batch]] = []
        directions = rng.sample(range(N_DIRECTIONS), N_DIRECTIONS)
        self._free = cycle(d for d in directions if d < N_PEOPLE_DIRECTIONS)
        """Directions of the next reports, more than any epoch needs."""
        self._made: dict[tuple[str, int], bytes] = {}
        self._drawn: list[int] = []

    def play(self, length: int) -> None:
        """Play the operations of the list, with their errors."""
        self._tick_proxies()
        names, weights = zip(*OPERATION_WEIGHTS.items(), strict=True)
        for operation in self.rng.choices(names, weights, k=length):
            self._attempt(operation.__name__, lambda do=operation: do(self))  # type: ignore[misc]

    def settle(self) -> None:
        """End all faults and check that an epoch with reports comes to its end."""
        self.network.faults = 0.0
        for part in self.list_parts():
            part.countdown.left = UNLIMITED_STEPS
        last = self._latest()
        if last.state == OPEN and not self.sent_batches.has_any(last.epoch):
            return
        for attempt in range(10):
            latest = self._latest()
            self.now = max(self.now, latest.closes if attempt < 5 else latest.ends)
            self._tick_all()
            if self._latest().epoch > last.epoch:
                return
        raise AssertionError("the system is stuck: the epoch is never applied")

    def check(self) -> None:
        """Check that nothing is lost or counted twice, and that a client pays once for an epoch."""
        names = list(self._settings.proxies)
        self.epochs = self._latest().epoch - 1
        with self.server.store.read() as transaction:
            for epoch in range(1, self.epochs + 1):
                done = [name for name in names if transaction.find_commit(epoch, name) is not None]
                late = set(names) - set(done)
                self.late += len(late)
                assert not (late and self.patient), f"epoch {epoch} was applied without {late}"
                sums, row = transaction.get_sums(epoch), transaction.find_epoch(epoch)
                assert row is not None
                self.sent_batches.check(epoch, sums[:N_PEOPLE_DIRECTIONS], names, late)
                self._check_dummies(sums, row, late)
                if self.kind == "names":
                    check_name_counts(transaction, row)
        for name, client in self.clients.items():
            spent = list_charged_epochs(client.folder)
            assert len(spent) == len(set(spent)), f"{name} was charged twice in an epoch"
            sent = {epoch for who, epoch in self._made if who == name}
            assert sent <= set(spent), f"{name} sent what it did not charge"

    def _check_dummies(self, sums: NDArray[np.int64], row: Epoch, late: Collection[str]) -> None:
        """Check that the counts without the dummies of the counted proxies are people's reports.

        Only a part of a late proxy's reports may be counted.
        """
        by_people = np.count_nonzero(sums[:N_PEOPLE_DIRECTIONS])
        assert row.capped == 0
        assert late or row.reports == by_people, (
            f"epoch {row.epoch}: lost or doubled dummies: {row.reports} reports, not {by_people}"
        )
        dummies = np.abs(sums[N_PEOPLE_DIRECTIONS:]).sum()
        assert dummies <= self.dummies * len(self.proxies)
        self.mixed_in += int(dummies)

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(shutil.rmtree, self._folder)
            for part in self.list_parts():
                closing.callback(part.close)

    def list_parts(self) -> list[Part]:
        return [self.server, *self.proxies, *self.clients.values()]

    # Operations.

    def send(self) -> None:
        """Let a new person report."""
        part = self.rng.choice(self.proxies)
        signed = part.proxy.manifest
        if signed is not None and signed.manifest.public_key is not None:
            directions = self._take_directions()
            batch = self._seal(signed, directions)
            self.sent_batches.add(batch.encode(), directions)
            self.batches.append((part, batch))
            self._api(part).send(batch.encode())

    def send_many(self) -> None:
        """Let several people report at once, as when an epoch opens."""
        for _ in range(3):
            self._attempt("send", self.send)

    def send_again(self) -> None:
        """Send the same bytes again, in time or too late, sometimes to another proxy."""
        if self.batches:
            part, batch = self.rng.choice(self.batches)
            if self.rng.random() < 0.4:
                part = self.rng.choice(self.proxies)
            self._api(part).send(batch.encode())

    def forge(self) -> None:
        """Send old reports or noise that does not open, under a current header or a wrong one."""
        if not self.batches:
            return
        part, batch = self.rng.choice(self.batches)
        signed = part.proxy.manifest
        assert signed is not None
        name = self.rng.randbytes(16)
        forged = replace(batch, id=name, epoch=batch.epoch + 1)
        if self.rng.random() < 0.7:
            old = batch.epoch != signed.manifest.epoch
            sealed = batch.sealed if old else self.rng.randbytes(len(batch.sealed))
            forged = Batch(signed.manifest.epoch, signed.hash, name, sealed)
        self.sent_batches.add(forged.encode(), ())
        self._api(part).send(forged.encode())

    def sync(self) -> None:
        """Let a real client take part, or finish what it began."""
        name = f"client-{self.rng.randrange(2)}"
        if name not in self.clients:
            folder = shutil.copytree(
                self._templates.client(self.kind, self.least, self.dummies), self._folder / name
            )
            self.clients[name] = KillableClient(name, folder, self._clock)
        part = self.proxies[int(name[-1]) % len(self.proxies)]
        self.clients[name].sync(_WatchedProxy(self, name, self._api(part)), self._draw_words)

    def tick_proxy(self) -> None:
        self.rng.choice(self.proxies).proxy.tick()

    def tick_server(self) -> None:
        self.server.server.tick()

    def pass_time(self) -> None:
        self.now += self.rng.choice((1, 30, EPOCH_SECONDS))

    def end_epoch(self) -> None:
        """End the epoch; each part does what is due, and may be killed at it."""
        if self.rng.random() < 0.7:
            self.start_countdown()
        self.now = max(self.now, self._latest().closes)
        # Otherwise proxies are late, and an impatient server goes on without them.
        if self.rng.random() < 0.9:
            self._tick_proxies()
            self._attempt("close", lambda: self.server.server.tick())
            self.now += SHORT_GRACE_SECONDS
            self._attempt("apply", lambda: self.server.server.tick())
        self._tick_all()
        self._tick_proxies()

    def kill(self) -> None:
        """Kill a part while it does nothing."""
        part = self.rng.choice(self.list_parts())
        self.story[-1] += f" {part.name}"
        part.kill()

    def start_countdown(self) -> None:
        """Let a part die after this many steps."""
        part = self.rng.choice([*self.list_parts(), *self.proxies])
        part.countdown.left = self.rng.randrange(8)
        self.story[-1] += f" {part.name} {part.countdown.left}"

    def hand_in_again(self) -> None:
        """Hand in again an old chunk or commit, as a network that repeats messages does."""
        handed_in = [call for upstream in self.upstreams.values() for call in upstream.handed_in]
        if handed_in:
            self.network.carry(self.server, self.rng.choice(handed_in))

    # Helpers of the operations.

    def _attempt(self, name: str, operation: Callable[[], None]) -> None:
        self.story.append(name)
        try:
            operation()
        except Killed as killed:
            self.story[-1] += f": {killed.part.name} died"
            killed.part.restart()
        except (RefusedError, UnavailableError) as error:
            self.story[-1] += f": {error}"

    def _tick_all(self) -> None:
        self._tick_proxies()
        self._attempt("close", lambda: self.server.server.tick())
        self._tick_proxies()
        self._attempt("apply", lambda: self.server.server.tick())

    def _tick_proxies(self) -> None:
        for part in self.proxies:
            self._attempt(part.name, lambda part=part: part.proxy.tick())  # type: ignore[misc]

    def _seal(self, signed: SignedManifest, directions: list[int]) -> Batch:
        assert signed.manifest.public_key is not None
        reports = directions
        if self.kind == "taste":
            reports = [direction << 1 | self.rng.getrandbits(1) for direction in directions]
        sealed = seal_reports(np.array(reports, np.uint32), signed.manifest.public_key, signed.hash)
        return Batch(signed.manifest.epoch, signed.hash, self.rng.randbytes(16), sealed)

    def _take_directions(self) -> list[int]:
        return [next(self._free) for _ in range(N_REPORTS)]

    def _draw_words(self, n_users: int, reports: int) -> NDArray[np.uint64]:
        """Return random words with which each report gets a direction of its own."""
        self._drawn = self._take_directions()
        words = np.zeros((n_users, reports + 1, 4), np.uint64)
        stream = np.random.default_rng(self.rng.getrandbits(32))
        words[:] = stream.integers(0, 2**64, words.shape, dtype=np.uint64)
        for place, direction in enumerate(self._drawn):
            words[0, place, DIRECTION_WORD] = (direction << 64) // N_DIRECTIONS + 1
            if self.kind == "names":
                words[0, place, COIN_WORD] = 0  # so it is not the name, which others have as well
        return words

    def check_sent(self, client: str, batch: bytes) -> None:
        """Check that a client sends the same bytes as before in this epoch, or has drawn again."""
        first_batch = self._made.setdefault((client, int.from_bytes(batch[4:8], "little")), batch)
        assert first_batch == batch, f"{client} made two batches in one epoch"
        if batch not in self.sent_batches:
            self.sent_batches.add(batch, self._drawn)

    def _make_proxy(self, name: str) -> KillableProxy:
        folder = shutil.copytree(self._templates.proxy(), self._folder / name)
        settings = proxy_settings(
            folder,
            verification_key=KEYS.verification_key.hex(),
            chunk_reports=self.rng.choice((3, 5, 8)),
        )
        n_signs = 2 if self.kind == "taste" else 1
        entropy = UpperHalfRandomness(self.rng.getrandbits(32), n_signs * N_DIRECTIONS)
        return KillableProxy(name, folder, self.upstreams[name], settings, self._clock, entropy)

    def _api(self, part: KillableProxy) -> ProxyOverNetwork:
        return ProxyOverNetwork(part, self.network, self.sent_batches)

    def _latest(self) -> Epoch:
        with self.server.store.read() as transaction:
            latest = transaction.find_latest_epoch()
        assert latest is not None
        return latest

    def _clock(self) -> float:
        return self.now


class UpperHalfRandomness(Randomness):
    """Random words that are all reports in the upper half."""

    def __init__(self, seed: int, n_reports: int):
        super().__init__(seed)
        self._half = np.uint64(n_reports // 2)

    def __call__(self, n: int) -> bytes:
        words, half = np.frombuffer(super().__call__(n), np.uint64), self._half
        return (words // (2 * half) * (2 * half) + half + words % half).tobytes()


def check_name_counts(transaction: Transaction, epoch: Epoch) -> None:
    """Check that the table of names counts all reports of an applied epoch of names once."""
    before, after = (
        transaction.get_name_counts(number)[LASTING_REPORTS_ROW]
        for number in (epoch.epoch, epoch.epoch + 1)
    )
    assert np.array_equal(after - before, np.full(len(before), epoch.reports)), (
        f"epoch {epoch.epoch}: names of {after - before} reports, not of {epoch.reports}"
    )


class _WatchedProxy:
    """A client's connection to its proxy, which checks every batch that leaves."""

    def __init__(self, run: Run, client: str, api: ProxyOverNetwork):
        self._run, self._client, self._api = run, client, api
        self.manifest, self.model, self.catalogue = api.manifest, api.model, api.catalogue
        self.shelf, self.check_taken, self.token = api.shelf, api.check_taken, api.token
        self.patch = api.patch

    def send(self, batch: bytes) -> None:
        self._run.check_sent(self._client, batch)
        self._api.send(batch)


# How often each operation is drawn.
OPERATION_WEIGHTS: dict[Callable[[Run], None], int] = {
    Run.send: 4,
    Run.send_many: 4,
    Run.send_again: 4,
    Run.sync: 4,
    Run.tick_proxy: 6,
    Run.tick_server: 3,
    Run.end_epoch: 4,
    Run.pass_time: 2,
    Run.start_countdown: 3,
    Run.kill: 1,
    Run.hand_in_again: 2,
    Run.forge: 3,
}


def run_list(seed: int, templates: Templates) -> Run:
    """Play one list to its end; an error quotes the list."""
    run = Run(seed, templates)
    try:
        run.play(run.rng.randint(4, 10))
        run.settle()
        run.check()
    except Exception as error:
        story = "\n  ".join(run.story)
        raise AssertionError(f"list {seed}: {error!r}\n  {story}") from error
    finally:
        run.close()
    return run
