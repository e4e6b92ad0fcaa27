"""The proxy that is measured, in a process that holds nothing but what a real one holds."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sottovoce.protocol.crowd import ENOUGH
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Rate, build_app
from sottovoce.service import Listen, Watch, build_watch, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.sharedctypes import Synchronized
    from pathlib import Path

    from sottovoce.experiments.live.bench.bench_server import BenchServer
    from sottovoce.protocol import Chunk
    from sottovoce.protocol.crowd import Crowd
    from sottovoce.proxy.store import Tables

    SharedCount = Synchronized[int]
    """A number that two processes see."""


class StandInServer:
    """An `Upstream` whose one epoch is over by the clock, and closed when its crowd is there."""

    def __init__(self, bench: BenchServer, handed_over: SharedCount):
        self.key = bench.keys.verification_key
        self._signed = bench.signed.encode()
        self._catalogue = bench.catalogue.raw
        self._model = bench.model
        self._handed_over = handed_over

    def manifest(self) -> bytes:
        return self._signed

    def model(self, sha256: bytes, most: int) -> bytes:  # noqa: ARG002 - there is one
        return self._model

    def catalogue(self, sha256: bytes) -> bytes:  # noqa: ARG002 - there is one
        return self._catalogue

    def check_secret(self) -> None:
        """Any will do."""

    def waiting(self, epoch: int, crowd: Crowd) -> str:  # noqa: ARG002 - there is one
        return "closed" if crowd == ENOUGH else "open"

    def put_chunk(self, chunk: Chunk) -> None:
        """Drop the chunk."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:  # noqa: ARG002 - only counted
        """The epoch is over."""
        self._handed_over.value = reports


class CountingStore(ProxyStore):
    """Counts its transactions: each is one sync of the disk."""

    commits: SharedCount

    @contextmanager
    def write(self) -> Iterator[Tables]:
        """One more, once it is on disk."""
        with super().write() as tables:
            yield tables
        self.commits.value += 1


def serve_proxy(
    folder: Path, ports: tuple[int, int], batches: int, shown: StandInServer, commits: SharedCount
) -> None:
    """In a process of its own: as `sottovoce proxy run` does it, but quietly.

    All batches come from one address, so there is no limit for one.
    """
    logging.disable(logging.WARNING)
    settings = ProxySettings(
        folder=folder,
        server="http://127.0.0.1",
        secret_file=folder / "none",
        verification_key=shown.key.hex(),
        least_clients=batches,
        poll_seconds=0.1,
        rate=Rate(batches_per_minute=0, per_epoch=0),
        listen=Listen(port=ports[0], connections_per_address=0),
        watch=Watch(port=ports[1]),
    )
    with CountingStore.open(folder) as store:
        store.commits = commits
        proxy = Proxy(store, shown, settings)
        watch = build_watch(proxy.check, proxy.metrics.text)
        run(build_app(proxy, settings), settings.listen, watch, settings.watch)
