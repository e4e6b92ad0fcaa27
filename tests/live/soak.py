"""A service that lives: hundreds of epochs, people and items who come and go, keys and terms too.

Real clients, proxies and a real server on a fake clock, over a network that loses and repeats, each
killed now and then. What must be true is worked out from what devices have sent: every batch that
was acknowledged is opened here, too.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.client import Client
from sottovoce.client.syncing import TermsError
from sottovoce.core import sum_signs
from sottovoce.data.synthetic import synthetic_people
from sottovoce.errors import SottovoceError, UnavailableError
from sottovoce.protocol import Batch, Catalogue, SignedManifest, open_reports
from sottovoce.proxy import ProxyStore
from sottovoce.server.administration import begin_training
from sottovoce.training import Participation, Settings
from tests.crash import FOREVER
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
from tests.live.simulated import Happened, Viewer, films_of, viewers_of
from tests.proxy.world import Randomness
from tests.proxy.world import settings as proxy_settings
from tests.server.changes import (
    change_catalogue,
    present,
    with_added,
    with_titles,
    without,
)
from tests.server.world import KEYS, World, make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.server import ServerStore
    from sottovoce.server.training import Training

PROXIES = ("east", "west")
FILMS, FIRST_FILMS = 60, 45
LEAST, EPOCH, HOLD, GRACE = 2, 100, 1000, 1e9
TRAINING = Settings.preset(
    "loudest",
    reports=10,
    epochs=100,
    lifetime=60,
    half_life=60.0,
    factors=3,
    epsilon=6.0,
    ridge=0.3,
)
SECOND = TRAINING.changed(epsilon=5.0, factors=4)
FAULTS = 0.03
ONLINE = 0.7
"""The chance that a device wakes up in an epoch."""


@dataclass
class Device:
    """Somebody, what they will touch in their life, and what was noticed of their device."""

    part: KillableClient
    gate: str
    viewer: Viewer
    joined: int
    is_done: bool = False
    """Whether nothing of it is on its way in this epoch."""
    made: dict[int, bytes] = field(default_factory=dict)
    """Batches by epoch, as they left."""


class Acknowledged:
    """By epoch and proxy, for `ProxyOverNetwork`."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, set[bytes]]] = defaultdict(lambda: defaultdict(set))

    def tried(self, proxy: str, batch: bytes) -> None:
        """It may not arrive."""

    def acknowledged(self, proxy: str, batch: bytes) -> None:
        self._found[int.from_bytes(batch[4:8], "little")][proxy].add(batch)

    def crowds(self, epoch: int) -> list[set[bytes]]:
        """Of the proxies that have one."""
        return [found for found in self._found[epoch].values() if len(found) >= LEAST]


class Soak:
    def __init__(self, folder: Path, seed: int, people: int):
        self.rng = Random(seed)
        self.now = 1_000.0
        self.acknowledged = Acknowledged()
        self.network = Network(self.rng, FAULTS)
        self.happened: list[Happened] = []
        self.devices: list[Device] = []
        self.gone: list[Device] = []
        self.discarded = 0
        self._folder = folder
        self._keys: dict[int, bytes] = {}
        self._data = synthetic_people(people, FILMS, seed)
        self._people = iter(range(people))
        self.viewers = viewers_of(self._data, self.rng)
        self._server(folder)
        self._upstreams = {
            name: ServerOverNetwork(name, self.server, self.network) for name in PROXIES
        }
        self.proxies = {name: self._proxy(name) for name in PROXIES}
        for part in self.proxies.values():
            self._patiently(part.proxy.tick)

    # What happens in a service

    def join(self) -> None:
        """Somebody new, with the terms of today."""
        number = next(self._people)
        viewer = self.viewers[number]
        folder = self._folder / f"device-{number}"
        with Client.create(
            folder,
            proxy_url="https://proxy.example",
            verification_key=KEYS.verification_key,  # that of the first day, ever
            limit=1e6,
        ) as client:
            client.record(viewer.films[: len(viewer.films) // 2])
            client.accept(self.signed().manifest.terms)
        part = KillableClient(folder.name, folder, self._clock, Randomness(number))
        gate = PROXIES[number % len(PROXIES)]
        self.devices.append(Device(part, gate, viewer, self.signed().manifest.epoch))

    def leave(self) -> None:
        self.gone.append(self.devices.pop(self.rng.randrange(len(self.devices))))

    def touch(self) -> None:
        """Somebody sees something more."""
        device = self.rng.choice(self.devices)
        with Client.open(device.part.folder) as client:
            client.record([self.rng.choice(device.viewer.films)])

    def add_items(self) -> None:
        with self._looking() as store:
            known = present(store).catalogue.numbers
            missing = [item for item in films_of(self._data) if item.id not in known]
            change_catalogue(store, partial(with_added, items=missing[:5]))

    def retire_item(self) -> None:
        with self._looking() as store:
            gone = self.rng.choice(present(store).catalogue.items).id
            change_catalogue(store, partial(without, ids=[gone]))

    def rename_item(self) -> None:
        with self._looking() as store:
            item = self.rng.choice(present(store).catalogue.items)
            change_catalogue(store, partial(with_titles, titles={item.id: item.title + "!"}))

    def rotate(self) -> None:
        """The server is restarted with its new key."""
        self.server.keys = self.server.keys.rotated()
        self.server.kill()

    def begin_training(self) -> None:
        self.server.settings = replace(self.server.settings, training=SECOND)
        with self._looking() as store:
            begin_training(store, self.server.settings, anew=False)

    def kill(self) -> None:
        """Somebody dies at once, or some steps from now."""
        services = [self.server, *self.proxies.values()]
        part = self.rng.choice(services if self.rng.random() < 0.5 else self._parts())
        if self.rng.random() < 0.3:
            part.kill()
        else:
            part.countdown.left = self.rng.randrange(8)

    # From epoch to epoch

    def epoch(self) -> None:
        """Devices wake up, its time passes, everybody does what is to be done, all is compared."""
        signed = self.signed()
        number = signed.manifest.epoch
        self._remember_key(number)
        for device in self.devices:
            device.is_done = False
            if self.rng.random() < ONLINE:
                self._wake(device)
        for part in [self.server, *self.proxies.values(), *self._parts()]:
            part.countdown.left = FOREVER
        faults, self.network.faults = self.network.faults, 0.0
        chosen = self._chosen(signed)
        self._end(number)
        self.network.faults = faults
        self._check(number, chosen)

    def _end(self, number: int) -> None:
        """First all who were offline come by, and what is on its way arrives."""
        for device in self.devices:
            if not device.is_done:
                self._wake(device)
        for then in (self.signed().manifest.closes, self.signed().manifest.ends):
            self.now = then
            for _ in range(4):
                self._patiently(self.server.server.tick)
                over = self.signed().manifest.epoch > number
                for part in self.proxies.values():
                    self._patiently(part.proxy.tick)
                if over:
                    return
        raise AssertionError(f"epoch {number} does not end")

    def _wake(self, device: Device) -> None:
        try:
            words = partial(_words, self.rng)
            device.part.sync(self._api(device), words)
        except Killed as killed:
            killed.part.restart()
        except TermsError as error:
            self._ask_owner(device, error)
        except UnavailableError:
            device.is_done = False
        else:
            device.is_done = True

    def _ask_owner(self, device: Device, error: TermsError) -> None:
        """Only of another training: half of the owners say yes today, the others perhaps later."""
        assert "another training" in str(error)
        if self.rng.random() < 0.5:
            with Client.open(device.part.folder, clock=self._clock) as client:
                client.accept(error.asked)

    def _check(self, number: int, chosen: tuple[Training, Catalogue]) -> None:
        """Every report that was acknowledged, from a crowd, once; and no other."""
        crowds = self.acknowledged.crowds(number)
        n_directions = chosen[0].mechanism(len(chosen[1].items)).n_directions
        expected = np.zeros(n_directions, np.int64)
        for batch in set().union(*crowds):
            opened = open_reports(
                Batch.decode(batch, chosen[0].settings.reports).sealed,
                self._keys[number],
                batch[8:40],
                n_directions,
            )
            assert not opened.undecodable
            expected += sum_signs(opened.reports, n_directions)
        with self._looking() as store, store.read() as transaction:
            found = transaction.sums(number)
        assert np.array_equal(found, expected if crowds else []), f"epoch {number}"
        self._note(number, chosen, set().union(*crowds))

    def _note(self, number: int, chosen: tuple[Training, Catalogue], counted: set[bytes]) -> None:
        self.discarded += not counted
        takers = [d for d in self.devices if d.made.get(number) in counted]
        assert len(takers) == len(counted)
        histories = [_history(device.part.folder) for device in takers]
        if counted:
            self.happened.append(Happened(*chosen, histories))

    def check_ledgers(self) -> None:
        """What was charged is what was made: once an epoch, and never more than was agreed to."""
        for device in [*self.devices, *self.gone]:
            charged = charged_epochs(device.part.folder)
            assert charged == sorted(device.made), device.part.name
            with Client.open(device.part.folder) as client:
                terms, status = client.status().terms, client.status()
            assert terms is not None
            assert status.epochs is not None
            assert status.epochs <= terms.epochs

    def signed(self) -> SignedManifest:
        with self._looking() as store, store.read() as transaction:
            latest = transaction.latest()
        assert latest is not None
        return SignedManifest.open(latest.manifest, KEYS.verification_key)

    def close(self) -> None:
        with ExitStack() as closing:
            for part in [self.server, *self.proxies.values(), *self._parts()]:
                closing.callback(part.close)

    # Everything that these need

    def _server(self, folder: Path) -> None:
        begin = folder / "begin"
        begin.mkdir()
        raw = Catalogue.of(films_of(self._data)[:FIRST_FILMS]).raw
        (begin / "catalogue.json").write_bytes(raw)
        settings = make_settings(
            begin,
            f"sqlite:///{begin / 'server.sqlite'}",
            training=TRAINING,
            epoch_seconds=EPOCH,
            grace_seconds=GRACE,
            terms=Participation(least_clients=LEAST, hold=HOLD),
            keep_epochs=3,
        )
        world = World(settings, now=self.now)
        world.server.tick()
        world.close()
        self.server = KillableServer(ReusedStore(folder / "server"), begin, settings, self._clock)

    def _proxy(self, name: str) -> KillableProxy:
        folder = self._folder / name
        ProxyStore.open(folder).close()
        key = KEYS.verification_key.hex()
        settings = proxy_settings(folder, verification_key=key, chunk_reports=20)
        entropy = Randomness(self.rng.getrandbits(32))
        upstream = self._upstreams[name]
        return KillableProxy(name, folder, upstream, settings, self._clock, entropy)

    def _api(self, device: Device) -> Watched:
        way = ProxyOverNetwork(self.proxies[device.gate], self.network, self.acknowledged)
        return Watched(way, device)

    def _parts(self) -> list[Part]:
        return [device.part for device in self.devices]

    def _patiently(self, tick: Callable[[], None]) -> None:
        """A beat that fails is tried again at the next."""
        try:
            tick()
        except Killed as killed:
            killed.part.restart()
        except SottovoceError:
            pass

    def _remember_key(self, number: int) -> None:
        with self._looking() as store, store.read() as transaction:
            wrapped = transaction.wrapped_key(number)
        assert wrapped is not None
        self._keys[number] = KEYS.unwrap(number, wrapped)

    @contextmanager
    def _looking(self) -> Iterator[ServerStore]:
        """The database from outside: what is done here is no step of the server's."""
        countdown = self.server.countdown
        left, countdown.left = countdown.left, FOREVER
        yield self.server.store
        countdown.left = left

    def _chosen(self, signed: SignedManifest) -> tuple[Training, Catalogue]:
        """Of this epoch; the operator may have chosen others for the next."""
        with self._looking() as store, store.read() as transaction:
            latest = transaction.latest()
            assert latest is not None
            training = transaction.training(latest.training)
            raw = transaction.file(signed.manifest.catalogue, "catalogue")
        assert training is not None
        assert raw is not None
        return training, Catalogue.decode(raw)

    def _clock(self) -> float:
        return self.now


class Watched:
    """A device's way to its proxy; notes what leaves."""

    def __init__(self, api: ProxyOverNetwork, device: Device):
        self._api, self._device = api, device
        self.manifest, self.model, self.catalogue = api.manifest, api.model, api.catalogue

    def send(self, batch: bytes) -> None:
        epoch = int.from_bytes(batch[4:8], "little")
        known = self._device.made.setdefault(epoch, batch)
        assert known == batch, f"{self._device.part.name} made two batches of epoch {epoch}"
        self._api.send(batch)


def _history(folder: Path) -> list[str]:
    with Client.open(folder) as client:
        return client._store.history.items()


def _words(rng: Random, n_users: int, reports: int) -> NDArray[np.uint64]:
    stream = np.random.default_rng(rng.getrandbits(64))
    return stream.integers(0, 2**64, (n_users, reports + 1, 4), dtype=np.uint64)
