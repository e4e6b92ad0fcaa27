"""The proxy's intake: a real process on loopback, its disk synced, under more load than it takes.

The proxy is the real one, with its real application, web server and store; only the server behind
it is a stand-in, which closes the epoch when all batches have come and throws the chunks
away. So an epoch runs from the first batch through shuffling to the last chunk handed over.

The proxy's process imports this module. So nothing of a server or a simulator is imported here:
its memory is measured.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypeAlias

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED_BYTES, Batch, Chunk, Shelf, SignedShelf, routes
from sottovoce.protocol.contact import CROWD_ENOUGH, Contact, Reply
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Rate, build_app
from sottovoce.proxy.dummies import draw_dummies
from sottovoce.proxy.epoch_files import BatchTables
from sottovoce.sandbox.processes import is_ready
from sottovoce.service.listen import Listen
from sottovoce.service.listen import Watch as WatchSettings
from sottovoce.service.run import run_service
from sottovoce.service.watch import build_watch
from sottovoce_lab.bench.live.bench_server import BenchServer
from sottovoce_lab.bench.timing import (
    ResidentMemory,
    Spread,
    Watch,
    cpu_seconds,
    most_resident,
    resident,
)

SharedCount: TypeAlias = "Synchronized[int]"
"""A number that two processes see."""

CONNECTIONS = 64
CLOCK_TICK = 0.01
"""Seconds: finer than this no CPU time is told."""
PATIENCE = 120.0
"""Seconds for a proxy to be ready, or to hand its epoch over."""
HEAD = (
    f"POST {routes.BATCHES} HTTP/1.1\r\nHost: proxy\r\n"
    "Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n"
)


@dataclass(frozen=True)
class Intake:
    """Batches on disk, acknowledged."""

    batches: int
    reports_each: int
    rounds: int
    per_cpu_second: Spread
    """By CPU time of the proxy's process: what one core takes."""
    mixed_per_cpu_second: Spread
    """The same for mixing and handing in, when the epoch is over."""
    per_second: Spread
    """By the clock, proxy and sender on the same machine."""
    per_sync: Spread
    """Batches that share one synced transaction."""
    sender_busy: Spread
    """Part of the time that the sender's process was on a core; at 1 it is what was measured."""
    memory: list[ResidentMemory]
    """Of the proxy over the whole epoch, round by round."""


@dataclass(frozen=True)
class _Round:
    per_cpu_second: float
    mixed_per_cpu_second: float
    per_second: float
    per_sync: float
    sender_busy: float
    memory: ResidentMemory


def measure_intake(
    bench: BenchServer, folder: Path, *, batches: int, rounds: int, watch: Watch
) -> Intake:
    """An epoch of so many batches in each round, each at a proxy of its own."""
    found = []
    with ProcessPoolExecutor(1, get_context("spawn")) as sender:
        for number in range(rounds):
            watch(f"round {number + 1} of {rounds}: {batches:,} batches to a proxy")
            found.append(_round(bench, folder / f"proxy-{number}", sender, batches))
    return Intake(
        batches,
        bench.signed.manifest.terms.reports,
        rounds,
        Spread.of([each.per_cpu_second for each in found]),
        Spread.of([each.mixed_per_cpu_second for each in found]),
        Spread.of([each.per_second for each in found]),
        Spread.of([each.per_sync for each in found]),
        Spread.of([each.sender_busy for each in found]),
        [each.memory for each in found],
    )


def _round(bench: BenchServer, folder: Path, sender: ProcessPoolExecutor, batches: int) -> _Round:
    commits, handed_over = get_context("spawn").Value("q", 0), get_context("spawn").Value("q", 0)
    with _proxy(bench, folder, batches, commits, handed_over) as (process, port):
        pid = process.pid
        assert pid is not None, "it was started"
        start, cpu, synced = resident(pid), cpu_seconds(pid), commits.value
        epoch, reports = bench.signed.manifest.epoch, bench.signed.manifest.terms.reports
        load = Load(port, batches, CONNECTIONS, epoch, bench.signed.hash, reports)
        sent = sender.submit(send, load).result()
        taken, synced = cpu_seconds(pid), commits.value - synced
        if sent.accepted != batches:
            raise UnavailableError(f"the proxy took {sent.accepted} of {batches} batches")
        _until(lambda: handed_over.value > 0, process)
        mixed = max(cpu_seconds(pid) - taken, CLOCK_TICK)
        return _Round(
            batches / max(taken - cpu, CLOCK_TICK),
            batches / mixed,
            batches / sent.seconds,
            batches / synced,
            sent.cpu_seconds / sent.seconds,
            ResidentMemory(start, most_resident(pid)),
        )


def measure_dummies(
    bench: BenchServer, folder: Path, *, dummies: int, rounds: int, watch: Watch
) -> Spread:
    """So many a second of a core: drawn, sealed and synced, in a store of their own each round."""
    watch(f"a proxy draws {rounds} x {dummies:,} dummies")
    found = []
    for number in range(rounds):
        ProxyStore.create(folder / f"dummies-{number}")
        with ProxyStore.open(folder / f"dummies-{number}") as store:
            store.begin_epoch(bench.signed.manifest.epoch)
            began = time.process_time()
            draw_dummies(store, bench.signed, dummies, os.urandom)
            found.append(dummies / max(time.process_time() - began, CLOCK_TICK))
    return Spread.of(found)


@contextmanager
def _proxy(
    bench: BenchServer, folder: Path, batches: int, commits: SharedCount, handed_over: SharedCount
) -> Iterator[tuple[SpawnProcess, int]]:
    ports = _free_port(), _free_port()
    shown = StandInServer(bench, handed_over)
    process = get_context("spawn").Process(
        target=serve_proxy, args=(folder, ports, batches, shown, commits), daemon=True
    )
    process.start()
    try:
        _until(lambda: is_ready(f"http://127.0.0.1:{ports[1]}"), process)
        yield process, ports[0]
    finally:
        process.terminate()
        process.join()


def _until(there: Callable[[], bool], process: SpawnProcess) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        if not process.is_alive() or time.monotonic() > deadline:
            raise UnavailableError("the measured proxy ended, or does not go on")
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class StandInServer:
    """An `Upstream` whose one epoch is over by the clock, and closed when its crowd is there."""

    def __init__(self, bench: BenchServer, handed_over: SharedCount):
        self.key = bench.keys.verification_key
        self._signed = bench.signed.encode()
        shelf = Shelf(bench.signed.manifest.opens, bench.catalogue.hash)
        self._shelf = SignedShelf.make(shelf, bench.keys.signer).encode()
        self._catalogue = bench.catalogue.raw
        self._model = bench.model
        self._handed_over = handed_over

    def manifest(self) -> bytes:
        return self._signed

    def shelf(self) -> bytes:
        return self._shelf

    def model(self, sha256: bytes, most: int) -> bytes:  # noqa: ARG002 - there is one
        return self._model

    def catalogue(self, sha256: bytes) -> bytes:  # noqa: ARG002 - there is one
        return self._catalogue

    def contact(self, contact: Contact) -> Reply:
        return Reply("closed" if contact.crowd == CROWD_ENOUGH else "open", contact.time, "00" * 8)

    def put_chunk(self, chunk: Chunk) -> None:
        """Drop the chunk."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:  # noqa: ARG002 - only counted
        """The epoch is over."""
        self._handed_over.value = reports


class CountingStore(ProxyStore):
    """Counts its transactions: each is one sync of the disk."""

    commits: SharedCount

    @contextmanager
    def write_batches(self, n_reports: int = 0) -> Iterator[BatchTables]:
        """One more, once it is on disk."""
        with super().write_batches(n_reports) as tables:
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
        watch=WatchSettings(port=ports[1]),
    )
    CountingStore.create(folder)
    with CountingStore.open(folder) as store:
        store.commits = commits
        proxy = Proxy(store, shown, settings)
        watch = build_watch(proxy.check_ready, proxy.metrics.render)
        run_service(build_app(proxy, settings), settings.listen, watch, settings.watch)


@dataclass(frozen=True)
class Load:
    port: int
    batches: int
    connections: int
    epoch: int
    manifest_hash: bytes
    reports: int
    """In a batch."""


@dataclass(frozen=True)
class Sent:
    seconds: float
    cpu_seconds: float
    """Of whoever sent: far below `seconds`, or the sender was what was measured."""
    accepted: int


def send(load: Load) -> Sent:
    """Send all of it. Reports are random bytes: a proxy cannot open them anyway."""
    began, cpu = time.perf_counter(), time.process_time()
    accepted = asyncio.run(_send(load))
    return Sent(time.perf_counter() - began, time.process_time() - cpu, accepted)


async def _send(load: Load) -> int:
    left = iter(range(load.batches))
    connections = (_connection(load, left) for _ in range(load.connections))
    return sum(await asyncio.gather(*connections))


async def _connection(load: Load, left: Iterator[int]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    accepted = 0
    for _ in left:
        writer.write(_request(load))
        status = await reader.readuntil(b"\r\n\r\n")
        accepted += b" 202 " in status.split(b"\r\n", 1)[0]
    writer.close()
    await writer.wait_closed()
    return accepted


def _request(load: Load) -> bytes:
    sealed = os.urandom(SEALED_BYTES * load.reports)
    body = Batch(load.epoch, load.manifest_hash, os.urandom(16), sealed).encode()
    return HEAD.format(len(body)).encode() + body
