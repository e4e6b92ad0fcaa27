"""Copies of one garbage batch, handed in as chunks to a real server: each report is opened once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED, Chunk, SignedManifest, routes
from sottovoce.server import ServerStore
from tests.live.processes import CROWD, REPORTS, Site, launching
from tests.processes import wait_until
from tests.server.world import sealed

COPIES = 10_000 if os.environ.get("SOTTOVOCE_ATTACK") == "full" else 2_000
BATCH = 100
"""Reports: a million in all, or as many as fill ten chunks."""
LIMIT = 30.0
"""Seconds for all of them; opening each would take minutes."""


class EvilProxy:
    """Speaks for the proxy that the server knows."""

    def __init__(self, site: Site, http: httpx.Client):
        self._site = site
        self._http = http
        secret = (site.folder / "server" / "proxy.secret").read_text().strip()
        self._headers = {"Authorization": f"Bearer {secret}"}

    def ask(self, method: str, path: str, content: bytes = b"") -> httpx.Response:
        url = f"http://127.0.0.1:{self._site.ports['server']}{path}"
        return self._http.request(method, url, content=content, headers=self._headers)

    def manifest(self) -> SignedManifest:
        return SignedManifest.open(self.ask("GET", routes.MANIFEST).content, self._site.key)

    def is_closed(self, epoch: int) -> bool:
        told = json.dumps({"crowd": "enough"}).encode()
        answer = self.ask("POST", routes.WAITING.format(epoch=epoch), told)
        return answer.status_code == 200 and answer.json() == {"state": "closed"}

    def hand_in(self, chunk: Chunk) -> int:
        path = routes.CHUNK.format(epoch=chunk.epoch, sha256=chunk.name)
        return self.ask("PUT", path, chunk.encode()).status_code


def shuffled_copies(garbage: bytes) -> Iterator[bytes]:
    """As many as there are, in chunks of which no two are alike."""
    rng = np.random.default_rng(0)
    rows = np.tile(np.frombuffer(garbage, np.uint8).reshape(-1, SEALED), (COPIES, 1))
    for at in range(0, len(rows), MAX_CHUNK_REPORTS):
        yield rng.permutation(rows[at : at + MAX_CHUNK_REPORTS]).tobytes()


def is_up(site: Site) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{site.ports['watch server']}/readyz").is_success
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_copies_of_garbage_cost_next_to_nothing(folder: Path) -> None:
    site = Site(folder)
    reports = np.array([number << 1 | 1 for number in range(CROWD * REPORTS)], np.uint32)
    with launching(site) as launcher, httpx.Client(timeout=60, trust_env=False) as http:
        launcher.start("server")
        wait_until(lambda: is_up(site), "the server")
        evil = EvilProxy(site, http)
        signed = evil.manifest()
        epoch = signed.manifest.epoch
        wait_until(lambda: evil.is_closed(epoch), "the epoch to be closed")
        begun = time.monotonic()
        for data in shuffled_copies(os.urandom(SEALED * BATCH)):
            assert evil.hand_in(Chunk(epoch, signed.hash, data)) == 200
        assert time.monotonic() - begun < LIMIT
        honest = Chunk(epoch, signed.hash, sealed(reports, signed))
        assert evil.hand_in(honest) == 200
    database = f"sqlite:///{folder / 'server' / 'server.sqlite'}"
    with closing(ServerStore(database)) as store, store.read() as transaction:
        found = transaction.epoch(epoch)
    assert found is not None
    counted = (found.reports, found.undecodable, found.duplicates)
    assert counted == (len(reports), BATCH, (COPIES - 1) * BATCH)
