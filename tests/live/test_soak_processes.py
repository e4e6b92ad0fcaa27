"""The soak with real processes and the real clock: some epochs here, 200 in `make nightly`.

By night there are more people, and the model is compared with simulated ones. What a few epochs of
a few people leave is noise, so any model would pass: then it is only shown that a simulator can
follow what happened. In CI it is `test_soak.py` that compares.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from sottovoce.cli.server import app as server_app
from sottovoce.client import Client, HttpProxy
from sottovoce.client.syncing import TermsError
from sottovoce.core import sum_signs
from sottovoce.data.synthetic import synthetic_people
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, decode_items, open_reports
from sottovoce.server import Keys, ServerStore
from tests.live.killable import charged_epochs
from tests.live.processes import Launcher, Site, launching
from tests.live.simulated import Happened, check_hit_ratio, films_of, simulated, viewers_of
from tests.processes import calling, wait_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.protocol import Manifest
    from sottovoce.server.store import Epoch, Transaction
    from sottovoce.server.training import Training

EPOCHS = int(os.environ.get("SOTTOVOCE_SOAK_EPOCHS", "8"))
BY_NIGHT = EPOCHS >= 100
PROXIES = ("east", "west")
CROWD = 8 if BY_NIGHT else 2
"""At each proxy: however slow the machine, so many take part in an epoch."""
PEOPLE, FIRST_DAY = 1000, 40 if BY_NIGHT else 6
"""Most have no device: the model is tested on all of them."""
FILMS, FIRST_FILMS = 60, 45
TRAINING = """preset = "loudest"
reports = 20
epochs = 1000
half_life = 60.0
factors = 3
epsilon = 6.0
ridge = 0.3
"""
MOST_DOUBTFUL = 10
operate = calling(server_app)


class Device:
    """A client and its way to a proxy; notes what left, of what it was made, what was taken."""

    def __init__(self, soak: Soak, number: int):
        self.number, self.proxy = number, PROXIES[number % len(PROXIES)]
        self._soak = soak
        self._api = HttpProxy(soak.http, soak.site.proxies[self.proxy])
        self.manifest, self.model, self.catalogue = (
            self._api.manifest, self._api.model, self._api.catalogue
        )  # fmt: skip
        self.made: dict[int, bytes] = {}
        self.histories: dict[int, list[str]] = {}
        self.folder = soak.site.folder / f"device-{number}"
        self.client = soak.opened.enter_context(
            Client.create(
                self.folder,
                proxy_url=soak.site.proxies[self.proxy],
                verification_key=soak.site.key,
                limit=1e6,
            )
        )
        self.films = soak.viewers[number].films
        self.client.record(self.films[: len(self.films) // 2])

    def send(self, batch: bytes) -> None:
        epoch = int.from_bytes(batch[4:8], "little")
        assert self.made.setdefault(epoch, batch) == batch
        self.histories.setdefault(epoch, self.client.touched())
        try:
            self._api.send(batch)
        except UnavailableError as error:
            if not isinstance(error.__cause__, httpx.ConnectError):
                self._soak.unanswered[epoch].add(batch)
            raise
        self._soak.acknowledged[epoch, self.proxy].add(batch)

    def wake(self) -> None:
        """Its owner says yes to whatever they are asked."""
        try:
            if self.client.sync(self, jitter=0).outcome == "not accepted":
                self.client.accept(self.client.asked(self))
        except TermsError as error:
            self.client.accept(error.asked)
        except UnavailableError:
            pass


class Soak:
    def __init__(self, site: Site, launcher: Launcher, opened: ExitStack, data: Interactions):
        self.site, self.launcher, self.opened = site, launcher, opened
        self.rng = Random(0)
        self.films, self.viewers = films_of(data), viewers_of(data, self.rng)
        self.http = opened.enter_context(httpx.Client(trust_env=False, timeout=10))
        self.store = ServerStore(site.database)
        opened.callback(self.store.close)
        self.unanswered: dict[int, set[bytes]] = defaultdict(set)
        """What may have arrived, or not."""
        self.acknowledged: dict[tuple[int, str], set[bytes]] = defaultdict(set)
        self.manifests: dict[int, Manifest] = {}
        self._private: dict[int, bytes] = {}
        self._chosen: dict[int, tuple[Training, Catalogue]] = {}
        self.over: set[int] = set()
        """Epochs that are over and checked."""
        self.happened: dict[int, Happened] = {}
        """Those of them that have counted something."""
        self.gone: list[Device] = []
        self.devices: list[Device] = []
        for _ in range(FIRST_DAY):
            self.join()

    # What happens in a service

    def join(self) -> None:
        self.devices.append(Device(self, len(self.devices) + len(self.gone)))

    def leave(self) -> None:
        self.gone.append(self.devices.pop(self.rng.randrange(len(self.devices))))

    def touch(self) -> None:
        """Somebody sees something more."""
        device = self.rng.choice(self.devices)
        device.client.record([self.rng.choice(device.films)])

    def change(self, command: str, *arguments: object) -> None:
        operate(*command.split(), "--config", self.site.configs["server"], *arguments)

    def add_items(self, items: list[Item]) -> None:
        new = self.site.folder / "new.json"
        new.write_bytes(Catalogue.of(items).raw)
        self.change("catalogue add", new)

    def begin_training(self) -> None:
        self.site.change("server", ("factors = 3", "factors = 4"))
        self.change("training begin", "--yes")

    def restart(self, name: str) -> None:
        self.launcher.kill(name)
        self.launcher.start(name)

    # From epoch to epoch

    def epoch(self) -> int:
        """The one that is open; what is known of it is remembered while it is."""
        with self.store.read() as transaction:
            latest = transaction.latest()
            assert latest is not None
            if latest.epoch not in self.manifests:
                self._remember(transaction, latest)
        return latest.epoch

    def _remember(self, transaction: Transaction, latest: Epoch) -> None:
        training = transaction.training(latest.training)
        catalogue = transaction.file(latest.catalogue, "catalogue")
        wrapped = transaction.wrapped_key(latest.epoch)
        assert training is not None
        assert catalogue is not None
        assert wrapped is not None
        keys = Keys.read(self.site.folder / "server" / "keys.json")
        self._private[latest.epoch] = keys.unwrap(latest.epoch, wrapped)
        self._chosen[latest.epoch] = training, Catalogue.decode(catalogue)
        signed = SignedManifest.open(latest.manifest, self.site.key)
        self.manifests[latest.epoch] = signed.manifest

    def until(self, epoch: int) -> None:
        """Who is awake in an epoch is whoever comes by before it ends."""

        def woken() -> bool:
            for device in self.rng.sample(self.devices, len(self.devices)):
                # Its key, before the last one that it waits for has reported.
                if self.epoch() > epoch:
                    return True
                device.wake()
            return False

        wait_until(woken, f"epoch {epoch} to end")

    def check(self) -> None:
        """Of every epoch that is newly over: all that was acknowledged once, and nothing else."""
        with self.store.read() as transaction:
            over = [e.epoch for e in transaction.all_epochs() if e.state == "applied"]
            new = {epoch: transaction.sums(epoch) for epoch in over if epoch not in self.over}
        for epoch, sums in new.items():
            self.over.add(epoch)
            if len(sums):
                self._note(epoch, self._counted(epoch, sums))

    def _counted(self, epoch: int, sums: NDArray[np.int64]) -> set[bytes]:
        """What was sent but never acknowledged, because somebody died, may be in it or not."""
        crowds = [self.acknowledged[epoch, proxy] for proxy in PROXIES]
        sure = set().union(*(crowd for crowd in crowds if len(crowd) >= CROWD))
        doubtful = self.unanswered[epoch].union(*crowds) - sure
        assert len(doubtful) <= MOST_DOUBTFUL, epoch
        rest = sums - self._sum(epoch, sure)
        for size in range(len(doubtful) + 1):
            for some in combinations(doubtful, size):
                if np.array_equal(rest, self._sum(epoch, some)):
                    return sure.union(some)
        raise AssertionError(f"epoch {epoch} has counted something else")

    def _note(self, epoch: int, counted: set[bytes]) -> None:
        takers = [d for d in [*self.devices, *self.gone] if d.made.get(epoch) in counted]
        assert len(takers) == len(counted)
        histories = [device.histories[epoch] for device in takers]
        self.happened[epoch] = Happened(*self._chosen[epoch], histories)

    def check_model(self) -> None:
        """That of the newest manifest is one that could have come of the epochs before it.

        More than 6 standard deviations from the mean of 60 runs is Student's t with 59 degrees of
        freedom beyond 5.95: a false alarm in 6 million nights.
        """
        with self.store.read() as transaction:
            latest = transaction.latest()
            assert latest is not None
            content = transaction.file(latest.model, "model") or b""
        manifest = SignedManifest.open(latest.manifest, self.site.key).manifest
        V = decode_items(content, manifest.items, manifest.terms.factors)
        self.check()
        happened = [self.happened[epoch] for epoch in sorted(self.happened) if epoch < latest.epoch]
        if BY_NIGHT:
            check_hit_ratio(V, happened, self.viewers, width=6.0)
        else:
            assert simulated(happened, run=0).shape == V.shape

    def _sum(self, epoch: int, batches: Iterable[bytes]) -> NDArray[np.int64]:
        manifest = self.manifests[epoch]
        n_directions = manifest.build().n_directions
        total = np.zeros(n_directions, np.int64)
        for batch in batches:
            sealed = Batch.decode(batch, manifest.terms.reports).sealed
            opened = open_reports(sealed, self._private[epoch], batch[8:40], n_directions)
            total += sum_signs(opened.reports, n_directions)
        return total


@contextmanager
def soaking(folder: Path) -> Iterator[Soak]:
    data = synthetic_people(PEOPLE, FILMS, seed=0)
    site = Site(
        folder,
        proxies=PROXIES,
        training=TRAINING,
        crowd=CROWD,
        chunk_reports=100,
        catalogue=Catalogue.of(films_of(data)[:FIRST_FILMS]),
    )
    with launching(site) as launcher, ExitStack() as opened:
        for name in ("server", *PROXIES):
            launcher.start(name)

        def is_up() -> bool:
            try:
                return all(httpx.get(f"{u}/v2/manifest").status_code == 200 for u in urls)
            except httpx.TransportError:
                return False

        urls = site.proxies.values()
        wait_until(is_up, "the proxies to have a manifest")
        yield Soak(site, launcher, opened, data)


def live(soak: Soak) -> None:
    """The story: what happens in which epoch."""
    retired, renamed, added = (
        iter(soak.films[first:]) for first in (0, FIRST_FILMS // 2, FIRST_FILMS)
    )
    for number in range(EPOCHS):
        step, epoch = number % max(EPOCHS // 2, 4), soak.epoch()
        if step == 0:
            soak.add_items(list(islice(added, 5)))
            soak.change("catalogue rename", next(renamed).id, f"Renamed {number}")
        if step == 1:
            soak.change("keys rotate")
            soak.restart("server")
        if number == EPOCHS // 2:
            soak.begin_training()
        if step == 2:
            soak.change("catalogue retire", next(retired).id)
        if number % 8 == 3:
            soak.join()
        if number % 8 == 5:
            soak.leave()
        if number % 3 == 2:
            soak.restart(soak.rng.choice(("server", *PROXIES)))
        soak.touch()
        soak.until(epoch)
        soak.check()


@pytest.mark.slow
def test_a_service_of_real_processes(folder: Path) -> None:
    with soaking(folder) as soak:
        live(soak)
        assert len(soak.happened) >= EPOCHS - 1
        last = soak.manifests[max(soak.manifests)]
        assert last.catalogue_version >= 4
        with soak.store.read() as transaction:
            latest = transaction.latest()
        assert latest is not None
        assert len(SignedManifest.open(latest.manifest, soak.site.key).statements) == 2
        for device in [*soak.devices, *soak.gone]:
            assert charged_epochs(device.folder) == sorted(device.made)
        first_day = [device for device in soak.devices if device.number < FIRST_DAY]
        assert any(max(device.made) >= EPOCHS - 1 for device in first_day), "they still take part"
        soak.check_model()
    assert "Traceback" not in soak.site.logs()
