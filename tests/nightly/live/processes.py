"""Servers and proxies as real processes on this machine, and a sender of batches."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

import httpx
import numpy as np

from sottovoce.cli.proxy import app as proxy_app
from sottovoce.cli.server import app as server_app
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, seal_reports
from sottovoce.server import Keys, ServerSettings, ServerStore
from sottovoce.server.administration import begin_training
from sottovoce.server.transaction import Epoch, Transaction
from tests.live.operations import check_name_counts
from tests.live.sent_batches import SentBatches
from tests.processes import free_port, make_caller, wait_until

ROOT = Path(__file__).parents[3]
N_ITEMS = 20
N_FACTORS = 16
REPORTS_PER_BATCH = 2
# People that an epoch waits for.
CROWD_SIZE = 4
FILM_CATALOGUE = Catalogue.from_items(Item(f"f{n}", f"Film {n}") for n in range(N_ITEMS))
N_DIRECTIONS = N_ITEMS * N_FACTORS
TASTE_SETTINGS = f"""preset = "coordinate"
reports = {REPORTS_PER_BATCH}
factors = {N_FACTORS}
epochs = 1000
"""
# In a training of names, an outcome is a direction: they count from 0, and have no sign.
NAMES_SETTINGS = f"""preset = "named"
reports = {REPORTS_PER_BATCH}
names = {N_DIRECTIONS}
epochs = 1000
half_life = 1.0
"""


class Site:
    """Folders with settings, as the operators made them: a server's workers, and proxies."""

    def __init__(
        self,
        folder: Path,
        *,
        chunk_reports: int = 3,
        proxies: tuple[str, ...] = ("proxy",),
        workers: tuple[str, ...] = ("server",),
        database: str | None = None,
        dummies: int = 0,
    ):
        self.folder = folder
        self._dummies = dummies
        self.ports = {
            name: free_port() for part in (*workers, *proxies) for name in (part, f"watch {part}")
        }
        self.database = database or f"sqlite:///{folder / 'server' / 'server.sqlite'}"
        self.proxies = {name: f"http://127.0.0.1:{self.ports[name]}" for name in proxies}
        self.configs: dict[str, Path] = {}
        self._make_server(proxies)
        for name in workers:
            self._make_worker(name)
        for number, name in enumerate(proxies):
            worker = workers[number % len(workers)]
            self._make_proxy(name, self.ports[worker], chunk_reports)

    def _make_server(self, proxies: tuple[str, ...]) -> None:
        catalogue = self.folder / "films.json"
        catalogue.write_bytes(FILM_CATALOGUE.raw)
        named = [argument for name in proxies for argument in ("--proxy", name)]
        make_caller(server_app)(
            "init", self.folder / "server", "--catalogue", catalogue, "--database", self.database,
            "--preset", "coordinate", "--ends", "--min-clients", CROWD_SIZE,
            "--epoch-seconds", 1, *named,
        )  # fmt: skip
        self.key = Keys.read(self.folder / "server" / "keys.json").verification_key

    def _make_worker(self, name: str) -> None:
        """Write a file of its own next to the one that `init` made."""
        settings_file = self.folder / "server" / "server.toml"
        self.configs[name] = self.folder / "server" / f"{name}.toml"
        self.configs[name].write_text(settings_file.read_text())
        self.change(
            name,
            ("heartbeat = 5.0", "heartbeat = 0.02"),
            ("port = 8090", f"port = {self.ports[name]}"),
            ("port = 8091", f"port = {self.ports[f'watch {name}']}"),
            ("openers = 0", "openers = 1"),
            ('preset = "coordinate"\n', TASTE_SETTINGS + f"dummies = {self._dummies}\n"),
        )

    def _make_proxy(self, name: str, server: int, chunk_reports: int) -> None:
        self.configs[name] = self.folder / name / "proxy.toml"
        make_caller(proxy_app)(
            "init", self.folder / name, "--server", f"http://127.0.0.1:{server}",
            "--key", self.key.hex(), "--secret-file", self.folder / "server" / f"{name}.secret",
        )  # fmt: skip
        self.change(
            name,
            ("poll_seconds = 5.0", "poll_seconds = 0.02"),
            ("min_clients = 100", "min_clients = 1"),
            ("chunk_reports = 20000", f"chunk_reports = {chunk_reports}"),
            ("batches_per_minute = 60.0", "batches_per_minute = 0"),
            ("per_epoch = 20", "per_epoch = 0"),
            ("port = 8080", f"port = {self.ports[name]}"),
            ("port = 8081", f"port = {self.ports[f'watch {name}']}"),
        )

    def change(self, part: str, *changes: tuple[str, str]) -> None:
        """Replace texts in a settings file."""
        text = self.configs[part].read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.configs[part].write_text(text)

    def learn_names(self, workers: Iterable[str]) -> None:
        """Begin a training of names while the processes of the training of taste run."""
        for name in workers:
            self.change(name, (TASTE_SETTINGS, NAMES_SETTINGS))
        store = ServerStore(self.database)
        try:
            begin_training(store, ServerSettings.read(self.configs[name]), random_start=False)
        finally:
            store.close()

    def read_logs(self) -> str:
        """Return the logs of all processes."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def check(self, sent_batches: SentBatches) -> int:
        """Check each epoch that is over for lost or repeated reports; return how many there are."""
        store = ServerStore(self.database)
        try:
            with store.read() as transaction:
                over = [e for e in transaction.list_epochs() if e.state == "applied"]
                for epoch in over:
                    self._check_epoch(transaction, epoch, sent_batches)
        finally:
            store.close()
        return len(over)

    def _check_epoch(
        self, transaction: Transaction, epoch: Epoch, sent_batches: SentBatches
    ) -> None:
        """Check one epoch; with dummies, which may be on any direction, check only numbers."""
        proxies, sums = list(self.proxies), transaction.get_sums(epoch.epoch)
        is_of_names = self._asks_for_names(epoch)
        if is_of_names:
            check_name_counts(transaction, epoch)
        if not self._dummies:
            sent_batches.check(epoch.epoch, sums, proxies, [])
            return
        sent_batches.check_number(epoch.epoch, epoch.reports, proxies)
        crowds, rest = divmod(epoch.reports, CROWD_SIZE * REPORTS_PER_BATCH)
        assert rest == 0, f"epoch {epoch.epoch}: lost or doubled dummies"
        total = epoch.reports + crowds * self._dummies
        if is_of_names:
            assert sums.sum() == total
            return
        assert (sums.sum() - total) % 2 == 0
        assert np.abs(sums).sum() <= total

    def _asks_for_names(self, epoch: Epoch) -> bool:
        return SignedManifest.open(epoch.manifest, self.key).manifest.terms.asks_for_names


class Launcher:
    """Starts parts through `tests.nightly.live.launcher`, and knows which of them run."""

    def __init__(self, site: Site, process: subprocess.Popen[str]):
        self._site = site
        self._process = process
        self._started: dict[str, int] = {}

    def start(self, part: str) -> None:
        order = {
            "part": "proxy" if part in self._site.proxies else "server",
            "config": str(self._site.configs[part]),
            "log": str(self._site.folder / f"{part}.log"),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._started[part] = int(self._process.stdout.readline())

    def get_pid(self, part: str) -> int:
        return self._started[part]

    def is_dead(self, part: str) -> bool:
        try:
            os.kill(self._started[part], 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self, part: str, how: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._started[part], how)
        wait_until(lambda: self.is_dead(part), f"the {part} to end")

    def close(self) -> None:
        for part in self._started:
            self.kill(part)


@contextmanager
def run_launcher(site: Site) -> Iterator[Launcher]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.nightly.live.launcher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    launcher = Launcher(site, process)
    with process:
        try:
            yield launcher
        finally:
            launcher.close()


class Sender:
    """Sends batches until every proxy acknowledges its own; each has directions of its own."""

    def __init__(
        self,
        site: Site,
        http: httpx.Client,
        sent_batches: SentBatches | None = None,
        directions: Iterable[int] = range(N_DIRECTIONS),
    ):
        self._site = site
        self._http = http
        self._free = cycle(directions)
        self._sent: dict[str, dict[int, int]] = {name: {} for name in site.proxies}
        self.sent_batches = sent_batches or SentBatches(CROWD_SIZE)
        self.waiting: dict[str, list[bytes]] = {name: [] for name in site.proxies}

    def try_once(self) -> None:
        """Make the batches that each crowd needs, and send those that are not acknowledged."""
        for proxy, sent in self._sent.items():
            signed = self.fetch_manifest(proxy)
            if signed is None:
                continue
            waiting = [b for b in self.waiting[proxy] if b[8:40] == signed.hash]
            n_sent = sent.setdefault(signed.manifest.epoch, 0)
            waiting += [self.make_batch(signed) for _ in range(n_sent, CROWD_SIZE)]
            sent[signed.manifest.epoch] = CROWD_SIZE
            self.waiting[proxy] = [b for b in waiting if not self._post(proxy, b)]

    def fetch_manifest(self, proxy: str = "proxy") -> SignedManifest | None:
        with suppress(httpx.TransportError):
            answer = self._http.get(f"{self._site.proxies[proxy]}/v2/manifest")
            if answer.status_code == 200:
                return SignedManifest.open(answer.content, self._site.key)
        return None

    def make_batch(self, signed: SignedManifest) -> bytes:
        assert signed.manifest.public_key is not None
        directions = [next(self._free) for _ in range(REPORTS_PER_BATCH)]
        if signed.manifest.terms.asks_for_names:
            reports = np.array(directions, np.uint32)
        else:
            reports = np.array([direction << 1 | 1 for direction in directions], np.uint32)
        sealed = seal_reports(reports, signed.manifest.public_key, signed.hash)
        data = Batch(signed.manifest.epoch, signed.hash, os.urandom(16), sealed).encode()
        self.sent_batches.add(data, directions)
        return data

    def _post(self, proxy: str, batch: bytes) -> bool:
        """Return whether the batch is done: it was acknowledged, or came too late."""
        self.sent_batches.note_attempt(proxy, batch)
        try:
            answer = self._http.post(f"{self._site.proxies[proxy]}/v2/batches", content=batch)
        except httpx.TransportError:
            return False
        if answer.status_code == 202:
            self.sent_batches.note_acknowledgement(proxy, batch)
        assert answer.status_code in (202, 409, 410, 503), answer.text
        return answer.status_code != 503

    def send_until(self, done: Callable[[], bool], what: str) -> None:
        def sent_all() -> bool:
            self.try_once()
            return done()

        wait_until(sent_all, what)

    def wait_for_epochs(self, epochs: int) -> None:
        """Wait until this many more epochs have begun."""
        begun = self._count_begun()
        self.send_until(lambda: self._count_begun() >= begun + epochs, f"{epochs} more epochs")

    def _count_begun(self) -> int:
        return min(map(len, self._sent.values()))


@contextmanager
def open_sender(site: Site) -> Iterator[Sender]:
    with httpx.Client(trust_env=False, timeout=10) as http:
        yield Sender(site, http)
