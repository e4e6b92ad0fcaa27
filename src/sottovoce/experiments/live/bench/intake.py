"""The proxy's intake: a real process on loopback, its disk synced, under more load than it takes.

The proxy is the real one, with its real application, web server and store; only the server behind
it is a stand-in, which closes the epoch when all batches have come and throws the chunks
away. So an epoch runs from the first batch through shuffling to the last chunk handed over.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from sottovoce.errors import UnavailableError
from sottovoce.experiments.bench.timing import Spread
from sottovoce.experiments.live.bench.load import Load, send
from sottovoce.experiments.live.bench.measured_proxy import StandInServer, serve_proxy
from sottovoce.experiments.live.bench.process import (
    ResidentMemory,
    cpu_seconds,
    most_resident,
    resident,
)
from sottovoce.experiments.live.children import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

    from sottovoce.experiments.bench.timing import Watch
    from sottovoce.experiments.live.bench.bench_server import BenchServer
    from sottovoce.experiments.live.bench.measured_proxy import SharedCount

CONNECTIONS = 64
CLOCK_TICK = 0.01
"""Seconds: finer than this no CPU time is told."""
PATIENCE = 120.0
"""Seconds for a proxy to be ready, or to hand its epoch over."""


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
