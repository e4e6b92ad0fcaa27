"""The soak with real processes and the real clock: some epochs here, 200 in `make nightly`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from sottovoce.cli.server import app as server_app
from sottovoce.client import Client, HttpProxy
from sottovoce.client.terms import TermsError
from sottovoce.errors import UnavailableError
from sottovoce.mechanism import sum_signs
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, open_reports
from sottovoce.server import Keys, ServerStore
from tests.live.killable import charged_epochs
from tests.live.processes import Launcher, Site, launching
from tests.processes import calling, wait_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.protocol import Manifest

EPOCHS = int(os.environ.get("SOTTOVOCE_SOAK_EPOCHS", "8"))
PROXIES = ("east", "west")
CROWD = 2
TRAINING = """preset = "loudest"
reports = 4
epochs = 1000
half_life = 20.0
factors = 3
"""
operate = calling(server_app)


class Device:
    """A client and its way to a proxy; notes what left and what was acknowledged."""

    def __init__(self, soak: Soak, number: int):
        self.proxy = PROXIES[number % len(PROXIES)]
        self._soak = soak
        self._api = HttpProxy(soak.http, soak.site.proxies[self.proxy])
        self.manifest, self.model, self.catalogue = (
            self._api.manifest, self._api.model, self._api.catalogue
        )  # fmt: skip
        self.made: dict[int, bytes] = {}
        self.client = soak.opened.enter_context(
            Client.create(
                soak.site.folder / f"device-{number}",
                proxy_url=soak.site.proxies[self.proxy],
                verification_key=soak.site.key,
                limit=1e6,
            )
        )
        self.client.record(f"f{n}" for n in soak.rng.sample(range(20), 6))

    def send(self, batch: bytes) -> None:
        epoch = int.from_bytes(batch[4:8], "little")
        assert self.made.setdefault(epoch, batch) == batch
        self._soak.tried[epoch, self.proxy].add(batch)
        self._api.send(batch)
        self._soak.acknowledged[epoch, self.proxy].add(batch)

    def wake(self) -> None:
        """Its owner says yes to whatever they are asked."""
        try:
            if self.client.status().terms is None:
                self.client.accept(self.client.asked(self))
            self.client.sync(self, jitter=0)
        except TermsError as error:
            self.client.accept(error.asked)
        except UnavailableError:
            pass


class Soak:
    def __init__(self, site: Site, launcher: Launcher, opened: ExitStack):
        self.site, self.launcher, self.opened = site, launcher, opened
        self.rng = Random(0)
        self.http = opened.enter_context(httpx.Client(trust_env=False, timeout=10))
        self.store = ServerStore(site.database)
        opened.callback(self.store.close)
        self.tried: dict[tuple[int, str], set[bytes]] = defaultdict(set)
        self.acknowledged: dict[tuple[int, str], set[bytes]] = defaultdict(set)
        self.manifests: dict[int, Manifest] = {}
        self._private: dict[int, bytes] = {}
        self.checked: dict[int, bool] = {}
        """Whether an epoch that is over has counted something."""
        self.devices = [Device(self, number) for number in range(6)]

    def epoch(self) -> int:
        """The one that is open; its key is remembered while there is one."""
        with self.store.read() as transaction:
            latest = transaction.latest()
            assert latest is not None
            wrapped = transaction.wrapped_key(latest.epoch)
        if wrapped is not None and latest.epoch not in self._private:
            keys = Keys.read(self.site.folder / "server" / "keys.json")
            self._private[latest.epoch] = keys.unwrap(latest.epoch, wrapped)
            signed = SignedManifest.open(latest.manifest, self.site.key)
            self.manifests[latest.epoch] = signed.manifest
        return latest.epoch

    def until(self, epoch: int) -> None:
        def woken() -> bool:
            for device in self.devices:
                self.epoch()  # its key, before the last one that it waits for has reported
                device.wake()
            return self.epoch() > epoch

        wait_until(woken, f"epoch {epoch} to end")

    def change(self, command: str, *arguments: object) -> None:
        operate(*command.split(), "--config", self.site.configs["server"], *arguments)

    def restart(self, name: str) -> None:
        self.launcher.kill(name)
        self.launcher.start(name)

    def check(self) -> None:
        """Of every epoch that is newly over: all that was acknowledged once, and nothing else."""
        with self.store.read() as transaction:
            over = [e.epoch for e in transaction.all_epochs() if e.state == "applied"]
            new = {epoch: transaction.sums(epoch) for epoch in over if epoch not in self.checked}
        for epoch, sums in new.items():
            self.checked[epoch] = len(sums) > 0
            if len(sums):
                self._check(epoch, sums)

    def _check(self, epoch: int, sums: NDArray[np.int64]) -> None:
        """What was sent but never acknowledged, because somebody died, may be in it or not."""
        crowds = [self.acknowledged[epoch, proxy] for proxy in PROXIES]
        sure = set().union(*(crowd for crowd in crowds if len(crowd) >= CROWD))
        doubtful = [
            batch for proxy in PROXIES for batch in self.tried[epoch, proxy] if batch not in sure
        ]
        rest = sums - self._sum(epoch, sure)
        subsets = chain.from_iterable(
            combinations(doubtful, size) for size in range(len(doubtful) + 1)
        )
        assert any(np.array_equal(rest, self._sum(epoch, each)) for each in subsets), epoch

    def _sum(self, epoch: int, batches: object) -> NDArray[np.int64]:
        manifest = self.manifests[epoch]
        n_directions = manifest.build().n_directions
        total = np.zeros(n_directions, np.int64)
        for batch in batches:  # type: ignore[attr-defined]
            sealed = Batch.decode(batch, manifest.terms.reports).sealed
            opened = open_reports(sealed, self._private[epoch], batch[8:40], n_directions)
            total += sum_signs(opened.reports, n_directions)
        return total


@contextmanager
def soaking(folder: Path) -> Iterator[Soak]:
    site = Site(folder, proxies=PROXIES, training=TRAINING, crowd=CROWD, chunk_reports=100)
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
        yield Soak(site, launcher, opened)


@pytest.mark.slow
def test_a_service_of_real_processes(folder: Path) -> None:
    with soaking(folder) as soak:
        new = folder / "new.json"
        for number in range(EPOCHS):
            step, epoch = number % max(EPOCHS // 2, 4), soak.epoch()
            if step == 0:
                new.write_bytes(Catalogue.of([Item(f"new-{number}", "New")]).raw)
                soak.change("catalogue add", new)
                soak.change("catalogue rename", f"f{number % 20}", f"Renamed {number}")
            if step == 1:
                soak.change("keys rotate")
                soak.restart("server")
            if number == EPOCHS // 2:
                soak.change("training begin", "--yes")
            if step == 2:
                soak.change("catalogue retire", f"new-{number - 2}")
            if step == 3:
                soak.devices.append(Device(soak, len(soak.devices)))
            if number % 3 == 2:
                soak.restart(soak.rng.choice(("server", *PROXIES)))
            soak.until(epoch)
            soak.check()
        assert sum(soak.checked.values()) >= EPOCHS - 1
        last = soak.manifests[max(soak.manifests)]
        assert last.catalogue_version >= 4
        with soak.store.read() as transaction:
            latest = transaction.latest()
        assert latest is not None
        assert len(SignedManifest.open(latest.manifest, soak.site.key).statements) == 2
        for device in soak.devices:
            folder = soak.site.folder / f"device-{soak.devices.index(device)}"
            assert charged_epochs(folder) == sorted(device.made)
        first = [device for device in soak.devices[:6] if max(device.made) >= EPOCHS - 1]
        assert first, "devices of the first day still take part"
    assert "Traceback" not in soak.site.logs()
