"""Lists of operations: everybody sends, loses, repeats, dies and comes back, on a fake clock."""

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
from sottovoce.errors import RefusedError, UnavailableError
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, seal_reports
from sottovoce.proxy import ProxyStore
from sottovoce.server import ServerSettings, ServerStore
from sottovoce.server.transaction import OPEN, Epoch
from sottovoce.training import Participation, Settings
from tests.crash import UNLIMITED_STEPS
from tests.live.killable import (
    KillableClient,
    KillableProxy,
    KillableServer,
    Killed,
    Part,
    ReusedStore,
    charged_epochs,
)
from tests.live.network import Network, ProxyOverNetwork, ServerOverNetwork
from tests.live.sent_batches import SentBatches
from tests.proxy.world import Randomness
from tests.proxy.world import settings as proxy_settings
from tests.server.world import KEYS, World, make_settings

ITEMS = 80
FACTORS = 4
REPORTS = 2
DIRECTIONS = ITEMS * FACTORS
PEOPLES = DIRECTIONS // 2
"""People report in the lower half of them, dummies lie in the upper: see `Upwards`."""
TRAINING = Settings.preset("coordinate", reports=REPORTS, epochs=500, lifetime=999, factors=FACTORS)
PROXIES = ("east", "west")
# Seconds.
BEGIN = 1_000.0
EPOCH = 100
GRACE = 1e9
SHORT_GRACE = 40.0
HOLD = 300


class Templates:
    """Folders of parts that were set up before: copying is quicker than making."""

    def __init__(self, folder: Path):
        self._folder = folder
        items = (Item(f"film-{number}", "A film") for number in range(ITEMS))
        (folder / "catalogue.json").write_bytes(Catalogue.from_items(items).raw)
        self.settings = make_settings(folder, "sqlite://", training=TRAINING, epoch_seconds=EPOCH)
        self.server = cache(self._server)
        self.client = cache(self._client)
        self.proxy = cache(self._proxy)
        self.scratch = folder / "lists"
        self.scratch.mkdir()
        self.reused = ReusedStore(self.scratch / "server")

    def asking(self, least: int, dummies: int) -> ServerSettings:
        training = replace(TRAINING, dummies=dummies)
        return replace(self.settings, terms=terms_of(least), training=training)

    def _server(self, least: int, dummies: int) -> Path:
        """Epoch 1 is open."""
        folder = self._folder / f"server-{least}-{dummies}"
        folder.mkdir()
        url = f"sqlite:///{folder / 'server.sqlite'}"
        world = World.begin(replace(self.asking(least, dummies), database=url), now=BEGIN)
        world.server.tick()
        world.close()
        return folder

    def _proxy(self) -> Path:
        ProxyStore.create(self._folder / "proxy")
        return self._folder / "proxy"

    def _client(self, least: int, dummies: int) -> Path:
        """They have accepted what this server asks for."""
        folder = self._folder / f"client-{least}-{dummies}"
        store = ServerStore(f"sqlite:///{self.server(least, dummies) / 'server.sqlite'}")
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
            client.accept(signed.manifest.terms)
        return folder


def terms_of(least: int) -> Participation:
    return Participation(least_clients=least, hold=HOLD)


class Run:
    """One list: `play` it, then `settle`, then ask whether all is well."""

    def __init__(self, seed: int, templates: Templates):
        self.rng = rng = Random(seed)
        self.now = BEGIN
        self.story: list[str] = []
        self.epochs, self.late, self.mixed_in = 0, 0, 0
        self._templates = templates
        self._folder = templates.scratch / str(seed)
        self.least = least = rng.choice((1, 1, 2, 3))
        self.dummies = dummies = (0, 3)[seed % 2]
        self.patient = rng.random() < 0.7
        self._settings = replace(
            templates.asking(least, dummies),
            grace_seconds=GRACE if self.patient else SHORT_GRACE,
            proxies={
                name: templates.settings.proxies[name] for name in PROXIES[: rng.choice((1, 1, 2))]
            },
        )
        self.sent_batches = SentBatches(least)
        self.network = Network(rng, rng.choice((0.0, 0.1, 0.3)))
        self.server = KillableServer(
            templates.reused,
            templates.server(least, dummies),
            self._settings,
            self._clock,
        )
        self.upstreams = {
            name: ServerOverNetwork(name, self.server, self.network)
            for name in self._settings.proxies
        }
        self.proxies = [self._proxy(name) for name in self._settings.proxies]
        self.clients: dict[str, KillableClient] = {}
        self.batches: list[tuple[KillableProxy, Batch]] = []
        self._free = cycle(d for d in rng.sample(range(DIRECTIONS), DIRECTIONS) if d < PEOPLES)
        """More than any epoch has."""
        self._made: dict[tuple[str, int], bytes] = {}
        self._drawn: list[int] = []

    def play(self, length: int) -> None:
        """Play the operations of the list, with their errors."""
        self._beat_proxies()
        names, weights = zip(*OPERATIONS.items(), strict=True)
        for operation in self.rng.choices(names, weights, k=length):
            self._attempt(operation.__name__, lambda do=operation: do(self))  # type: ignore[misc]

    def settle(self) -> None:
        """End all faults and check that an epoch with reports comes to its end."""
        self.network.faults = 0.0
        for part in self.parts():
            part.countdown.left = UNLIMITED_STEPS
        last = self._latest()
        if last.state == OPEN and not self.sent_batches.has_any(last.epoch):
            return
        for attempt in range(10):
            latest = self._latest()
            self.now = max(self.now, latest.closes if attempt < 5 else latest.ends)
            self._beat_all()
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
                self.sent_batches.check(epoch, sums[:PEOPLES], names, late)
                self._check_dummies(sums, row, late)
        for name, client in self.clients.items():
            spent = charged_epochs(client.folder)
            assert len(spent) == len(set(spent)), f"{name} was charged twice in an epoch"
            sent = {epoch for who, epoch in self._made if who == name}
            assert sent <= set(spent), f"{name} sent what it did not charge"

    def _check_dummies(self, sums: NDArray[np.int64], row: Epoch, late: Collection[str]) -> None:
        """Check that the counts without the dummies of the counted proxies are people's reports.

        Only a part of a late proxy's reports may be counted.
        """
        by_people = np.count_nonzero(sums[:PEOPLES])
        assert row.capped == 0
        assert late or row.reports == by_people, (
            f"epoch {row.epoch}: lost or doubled dummies: {row.reports} reports, not {by_people}"
        )
        dummies = np.abs(sums[PEOPLES:]).sum()
        assert dummies <= self.dummies * len(self.proxies)
        self.mixed_in += int(dummies)

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(shutil.rmtree, self._folder)
            for part in self.parts():
                closing.callback(part.close)

    def parts(self) -> list[Part]:
        return [self.server, *self.proxies, *self.clients.values()]

    # Operations

    def send(self) -> None:
        """Let a new person report."""
        part = self.rng.choice(self.proxies)
        signed = part.proxy.manifest
        if signed is not None and signed.manifest.public_key is not None:
            directions = self._directions()
            batch = self._sealed(signed, directions)
            self.sent_batches.made(batch.encode(), directions)
            self.batches.append((part, batch))
            self._api(part).send(batch.encode())

    def crowd(self) -> None:
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
        self.sent_batches.made(forged.encode(), ())
        self._api(part).send(forged.encode())

    def sync(self) -> None:
        """Let a real client take part, or finish what it began."""
        name = f"client-{self.rng.randrange(2)}"
        if name not in self.clients:
            folder = shutil.copytree(
                self._templates.client(self.least, self.dummies), self._folder / name
            )
            self.clients[name] = KillableClient(name, folder, self._clock)
        part = self.proxies[int(name[-1]) % len(self.proxies)]
        self.clients[name].sync(_Watched(self, name, self._api(part)), self._words)

    def beat_proxy(self) -> None:
        self.rng.choice(self.proxies).proxy.tick()

    def beat_server(self) -> None:
        self.server.server.tick()

    def pass_time(self) -> None:
        self.now += self.rng.choice((1, 30, EPOCH))

    def turn(self) -> None:
        """End the epoch; each part does what is due, and may be killed at it."""
        if self.rng.random() < 0.7:
            self.start_countdown()
        self.now = max(self.now, self._latest().closes)
        if self.rng.random() < 0.9:  # proxies dawdle: an impatient server goes on without them
            self._beat_proxies()
            self._attempt("close", lambda: self.server.server.tick())
            self.now += SHORT_GRACE
            self._attempt("apply", lambda: self.server.server.tick())
        self._beat_all()
        self._beat_proxies()

    def kill(self) -> None:
        """Kill a part while it does nothing."""
        part = self.rng.choice(self.parts())
        self.story[-1] += f" {part.name}"
        part.kill()

    def start_countdown(self) -> None:
        """Let a part die after this many steps."""
        part = self.rng.choice([*self.parts(), *self.proxies])
        part.countdown.left = self.rng.randrange(8)
        self.story[-1] += f" {part.name} {part.countdown.left}"

    def hand_in_again(self) -> None:
        """Hand in again an old chunk or commit, as a network that repeats messages does."""
        handed_in = [call for upstream in self.upstreams.values() for call in upstream.handed_in]
        if handed_in:
            self.network.carry(self.server, self.rng.choice(handed_in))

    # Everything that these need

    def _attempt(self, name: str, operation: Callable[[], None]) -> None:
        self.story.append(name)
        try:
            operation()
        except Killed as killed:
            self.story[-1] += f": {killed.part.name} died"
            killed.part.restart()
        except (RefusedError, UnavailableError) as error:
            self.story[-1] += f": {error}"

    def _beat_all(self) -> None:
        self._beat_proxies()
        self._attempt("close", lambda: self.server.server.tick())
        self._beat_proxies()
        self._attempt("apply", lambda: self.server.server.tick())

    def _beat_proxies(self) -> None:
        for part in self.proxies:
            self._attempt(part.name, lambda part=part: part.proxy.tick())  # type: ignore[misc]

    def _sealed(self, signed: SignedManifest, directions: list[int]) -> Batch:
        assert signed.manifest.public_key is not None
        reports = [direction << 1 | self.rng.getrandbits(1) for direction in directions]
        sealed = seal_reports(np.array(reports, np.uint32), signed.manifest.public_key, signed.hash)
        return Batch(signed.manifest.epoch, signed.hash, self.rng.randbytes(16), sealed)

    def _directions(self) -> list[int]:
        return [next(self._free) for _ in range(REPORTS)]

    def _words(self, n_users: int, reports: int) -> NDArray[np.uint64]:
        """Coins that fall so that each report has a direction of its own."""
        self._drawn = self._directions()
        words = np.zeros((n_users, reports + 1, 4), np.uint64)
        stream = np.random.default_rng(self.rng.getrandbits(32))
        words[:] = stream.integers(0, 2**64, words.shape, dtype=np.uint64)
        for place, direction in enumerate(self._drawn):
            words[0, place, 0] = (direction << 64) // DIRECTIONS + 1
        return words

    def came(self, client: str, batch: bytes) -> None:
        """Check that a client sends the same bytes as before in this epoch, or has drawn again."""
        first_batch = self._made.setdefault((client, int.from_bytes(batch[4:8], "little")), batch)
        assert first_batch == batch, f"{client} made two batches in one epoch"
        if batch not in self.sent_batches:
            self.sent_batches.made(batch, self._drawn)

    def _proxy(self, name: str) -> KillableProxy:
        folder = shutil.copytree(self._templates.proxy(), self._folder / name)
        settings = proxy_settings(
            folder,
            verification_key=KEYS.verification_key.hex(),
            chunk_reports=self.rng.choice((3, 5, 8)),
        )
        entropy = Upwards(self.rng.getrandbits(32))
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


class Upwards(Randomness):
    """Every word, as a signed direction, lies in the upper half."""

    def __call__(self, n: int) -> bytes:
        words = np.frombuffer(super().__call__(n), np.uint64)
        half = np.uint64(DIRECTIONS)
        return (words // (2 * half) * (2 * half) + half + words % half).tobytes()


class _Watched:
    """A client's way to its proxy, with somebody who looks at every batch that leaves."""

    def __init__(self, run: Run, client: str, api: ProxyOverNetwork):
        self._run, self._client, self._api = run, client, api
        self.manifest, self.model, self.catalogue = api.manifest, api.model, api.catalogue
        self.shelf, self.check_taken, self.token = api.shelf, api.check_taken, api.token

    def send(self, batch: bytes) -> None:
        self._run.came(self._client, batch)
        self._api.send(batch)


OPERATIONS: dict[Callable[[Run], None], int] = {
    Run.send: 4,
    Run.crowd: 4,
    Run.send_again: 4,
    Run.sync: 4,
    Run.beat_proxy: 6,
    Run.beat_server: 3,
    Run.turn: 4,
    Run.pass_time: 2,
    Run.start_countdown: 3,
    Run.kill: 1,
    Run.hand_in_again: 2,
    Run.forge: 3,
}
"""How often each is done."""


def run_list(seed: int, templates: Templates) -> Run:
    """Play one list to its end; what goes wrong is told with the list."""
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
