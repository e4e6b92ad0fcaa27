"""A server and a proxy as real processes on this machine, and somebody who sends to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

import httpx
import numpy as np

from sottovoce.cli.proxy import app as proxy_app
from sottovoce.cli.server import app as server_app
from sottovoce.protocol import Batch, Catalogue, Item, SignedManifest, seal_reports
from sottovoce.server import Keys, ServerStore
from tests.live.sent_batches import SentBatches
from tests.processes import calling, free_port, wait_until

ROOT = Path(__file__).parents[2]
ITEMS, FACTORS, REPORTS = 20, 16, 2
CROWD = 4
"""An epoch waits for so many."""


class Site:
    """Two folders with settings, as two operators made them."""

    def __init__(
        self,
        folder: Path,
        *,
        chunk_reports: int = 3,
        database: str | None = None,
        server_port: int | None = None,
    ):
        """`server_port` is where the proxy finds the server, if something stands in between."""
        catalogue = folder / "films.json"
        catalogue.write_bytes(Catalogue.of(Item(f"f{n}", f"Film {n}") for n in range(ITEMS)).raw)
        ports = {name: free_port() for name in ("server", "proxy", "watch server", "watch proxy")}
        self.folder = folder
        self.database = database or f"sqlite:///{folder / 'server' / 'server.sqlite'}"
        self.proxy_url = f"http://127.0.0.1:{ports['proxy']}"
        self.configs = {
            "server": folder / "server" / "server.toml",
            "proxy": folder / "proxy" / "proxy.toml",
        }
        calling(server_app)(
            "init", folder / "server", "--catalogue", catalogue, "--port", ports["server"],
            "--preset", "coordinate", "--least-clients", CROWD, "--epoch-seconds", 1,
            "--database", self.database,
        )  # fmt: skip
        self.key = Keys.read(folder / "server" / "keys.json").verification_key
        calling(proxy_app)(
            "init", folder / "proxy",
            "--server", f"http://127.0.0.1:{server_port or ports['server']}",
            "--key", self.key.hex(), "--secret-file", folder / "server" / "proxy.secret",
        )  # fmt: skip
        training = f"reports = {REPORTS}\nfactors = {FACTORS}\nepochs = 1000\n"
        self._change(
            "server",
            ("heartbeat = 5", "heartbeat = 0.02"),
            ("port = 8091", f"port = {ports['watch server']}"),
            ("openers = 0", "openers = 1"),
            ('preset = "coordinate"\n', f'preset = "coordinate"\n{training}'),
        )
        self._change(
            "proxy",
            ("poll_seconds = 5.0", "poll_seconds = 0.02"),
            ("least_clients = 100", "least_clients = 1"),
            ("chunk_reports = 20000", f"chunk_reports = {chunk_reports}"),
            ("batches_per_minute = 60.0", "batches_per_minute = 0"),
            ("per_epoch = 20", "per_epoch = 0"),
            ("port = 8080", f"port = {ports['proxy']}"),
            ("port = 8081", f"port = {ports['watch proxy']}"),
        )

    def _change(self, part: str, *changes: tuple[str, str]) -> None:
        text = self.configs[part].read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.configs[part].write_text(text)

    def logs(self) -> str:
        """What both said."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def check(self, sent_batches: SentBatches) -> int:
        """Nothing lost, nothing twice, in every epoch that is over; how many there are."""
        store = ServerStore(self.database)
        try:
            with store.read() as transaction:
                over = [e.epoch for e in transaction.all_epochs() if e.state == "applied"]
                for epoch in over:
                    sent_batches.check(epoch, transaction.sums(epoch), ["proxy"], [])
        finally:
            store.close()
        return len(over)


class Launcher:
    """Starts parts through `tests.live.launcher`, and knows which of them run."""

    def __init__(self, site: Site, process: subprocess.Popen[str]):
        self._site = site
        self._process = process
        self._started: dict[str, int] = {}

    def start(
        self, part: str, kind: str | None = None, number: int = 1, *, after: bool = False
    ) -> None:
        order = {
            "part": part,
            "config": str(self._site.configs[part]),
            "log": str(self._site.folder / f"{part}.log"),
            "kind": kind,
            "number": number,
            "after": after,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._started[part] = int(self._process.stdout.readline())

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
def launching(site: Site) -> Iterator[Launcher]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.live.launcher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    found = Launcher(site, process)
    with process:
        try:
            yield found
        finally:
            found.close()


class Sender:
    """Sends batches until the proxy acknowledges them; each has directions of its own."""

    def __init__(self, site: Site, http: httpx.Client):
        self._site = site
        self._http = http
        self._free = cycle(range(ITEMS * FACTORS))
        self._sent: dict[int, int] = {}
        self.sent_batches = SentBatches(CROWD)
        self.waiting: list[bytes] = []

    def try_once(self) -> None:
        """Look what is open, make what its crowd lacks, send what was not acknowledged."""
        signed = self.manifest()
        if signed is None:
            return
        self.waiting = [b for b in self.waiting if b[8:40] == signed.hash]
        made = self._sent.setdefault(signed.manifest.epoch, 0)
        for _ in range(made, CROWD):
            self.waiting.append(self.batch(signed))
            self._sent[signed.manifest.epoch] += 1
        self.waiting = [batch for batch in self.waiting if not self.post(batch)]

    def manifest(self) -> SignedManifest | None:
        with suppress(httpx.TransportError):
            answer = self._http.get(f"{self._site.proxy_url}/v2/manifest")
            if answer.status_code == 200:
                return SignedManifest.open(answer.content, self._site.key)
        return None

    def batch(self, signed: SignedManifest) -> bytes:
        assert signed.manifest.public_key is not None
        directions = [next(self._free) for _ in range(REPORTS)]
        reports = np.array([direction << 1 | 1 for direction in directions], np.uint32)
        sealed = seal_reports(reports, signed.manifest.public_key, signed.hash)
        data = Batch(signed.manifest.epoch, signed.hash, os.urandom(16), sealed).encode()
        self.sent_batches.made(data, directions)
        return data

    def post(self, batch: bytes) -> bool:
        """Whether there is no more to do: it was acknowledged, or came too late."""
        self.sent_batches.tried("proxy", batch)
        try:
            answer = self._http.post(f"{self._site.proxy_url}/v2/batches", content=batch)
        except httpx.TransportError:
            return False
        if answer.status_code == 202:
            self.sent_batches.acknowledged("proxy", batch)
        assert answer.status_code in (202, 409, 410, 503), answer.text
        return answer.status_code != 503

    def until(self, done: Callable[[], bool], what: str) -> None:
        def sent_all() -> bool:
            self.try_once()
            return done()

        wait_until(sent_all, what)

    def go_on(self, epochs: int) -> None:
        """Until so many more epochs have begun."""
        begun = len(self._sent)
        self.until(lambda: len(self._sent) >= begun + epochs, f"{epochs} more epochs")


@contextmanager
def sender(site: Site) -> Iterator[Sender]:
    with httpx.Client(trust_env=False, timeout=10) as http:
        yield Sender(site, http)
