"""The proxy's intake: a real process that takes batches over loopback as fast as it can.

The proxy waits for its disk as in operation.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

from sottovoce.errors import UnavailableError
from sottovoce.proxy import ProxyStore
from sottovoce.proxy.dummies import draw_dummies
from sottovoce.sandbox.processes import is_ready
from sottovoce_lab.bench.live.bench_proxy import SharedCount, StandInServer, serve_proxy
from sottovoce_lab.bench.live.bench_server import BenchServer
from sottovoce_lab.bench.live.sender import Load, send
from sottovoce_lab.bench.timing import (
    ResidentMemory,
    Spread,
    Watch,
    read_cpu_seconds,
    read_max_resident_bytes,
    read_resident_bytes,
)

# Connections over which batches are sent at the same time.
N_CONNECTIONS = 64
# Linux counts CPU time in steps of this length; shorter times count as one step.
CPU_CLOCK_SECONDS = 0.01
# A proxy must be ready, and deliver its epoch, within this time.
PROXY_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Intake:
    """Rates of batches that are on disk and acknowledged."""

    batches: int
    reports_each: int
    rounds: int
    per_cpu_second: Spread
    """Batches per CPU second of the proxy."""
    mixed_per_cpu_second: Spread
    """Batches that the proxy mixes and delivers after the epoch, per CPU second of the proxy."""
    per_second: Spread
    """Batches per second; proxy and sender share the machine."""
    per_sync: Spread
    """Mean number of batches in a transaction."""
    sender_busy: Spread
    """CPU seconds of the sender per second. If it is near 1, the sender limits the rate."""
    memory: list[ResidentMemory]
    """Memory of the proxy over the whole epoch, round by round."""


@dataclass(frozen=True)
class IntakeRound:
    """The rates of one round."""

    per_cpu_second: float
    mixed_per_cpu_second: float
    per_second: float
    per_sync: float
    sender_busy: float


def measure_intake(
    bench: BenchServer, folder: Path, *, batches: int, rounds: int, watch: Watch
) -> Intake:
    """Measure an epoch of `batches` batches in each round; each round has its own proxy."""
    results: list[IntakeRound] = []
    memory: list[ResidentMemory] = []
    with ProcessPoolExecutor(1, get_context("spawn")) as sender:
        for number in range(rounds):
            watch(f"round {number + 1} of {rounds}: {batches:,} batches to a proxy")
            rates, resident = _measure_round(bench, folder / f"proxy-{number}", sender, batches)
            results.append(rates)
            memory.append(resident)
    spreads = {
        field.name: Spread.from_values([getattr(rates, field.name) for rates in results])
        for field in fields(IntakeRound)
    }
    reports = bench.signed.manifest.terms.reports
    return Intake(batches, reports, rounds, memory=memory, **spreads)


def _measure_round(
    bench: BenchServer, folder: Path, sender: ProcessPoolExecutor, batches: int
) -> tuple[IntakeRound, ResidentMemory]:
    commits, delivered = get_context("spawn").Value("q", 0), get_context("spawn").Value("q", 0)
    with _start_proxy(bench, folder, batches, commits, delivered) as (process, port):
        pid = process.pid
        assert pid is not None, "it was started"
        start, cpu, synced = read_resident_bytes(pid), read_cpu_seconds(pid), commits.value
        epoch, reports = bench.signed.manifest.epoch, bench.signed.manifest.terms.reports
        load = Load(port, batches, N_CONNECTIONS, epoch, bench.signed.hash, reports)
        sent = sender.submit(send, load).result()
        taken, synced = read_cpu_seconds(pid), commits.value - synced
        if sent.accepted != batches:
            raise UnavailableError(f"the proxy took {sent.accepted} of {batches} batches")
        _wait_until(lambda: delivered.value > 0, process)
        mixed = max(read_cpu_seconds(pid) - taken, CPU_CLOCK_SECONDS)
        rates = IntakeRound(
            per_cpu_second=batches / max(taken - cpu, CPU_CLOCK_SECONDS),
            mixed_per_cpu_second=batches / mixed,
            per_second=batches / sent.seconds,
            per_sync=batches / synced,
            sender_busy=sent.cpu_seconds / sent.seconds,
        )
        return rates, ResidentMemory(start, read_max_resident_bytes(pid))


def measure_dummies(
    bench: BenchServer, folder: Path, *, dummies: int, rounds: int, watch: Watch
) -> Spread:
    """Measure how many dummies a proxy draws, seals and stores per CPU second.

    Each round has a new store.
    """
    watch(f"a proxy draws {rounds} x {dummies:,} dummies")
    rates = []
    for number in range(rounds):
        ProxyStore.create(folder / f"dummies-{number}")
        with ProxyStore.open(folder / f"dummies-{number}") as store:
            store.begin_epoch(bench.signed.manifest.epoch)
            began = time.process_time()
            draw_dummies(store, bench.signed, dummies, os.urandom)
            rates.append(dummies / max(time.process_time() - began, CPU_CLOCK_SECONDS))
    return Spread.from_values(rates)


@contextmanager
def _start_proxy(
    bench: BenchServer, folder: Path, batches: int, commits: SharedCount, delivered: SharedCount
) -> Iterator[tuple[SpawnProcess, int]]:
    ports = _find_free_port(), _find_free_port()
    server = StandInServer(bench, delivered)
    process = get_context("spawn").Process(
        target=serve_proxy, args=(folder, ports, batches, server, commits), daemon=True
    )
    process.start()
    try:
        _wait_until(lambda: is_ready(f"http://127.0.0.1:{ports[1]}"), process)
        yield process, ports[0]
    finally:
        process.terminate()
        process.join()


def _wait_until(condition: Callable[[], bool], process: SpawnProcess) -> None:
    deadline = time.monotonic() + PROXY_TIMEOUT_SECONDS
    while not condition():
        if not process.is_alive() or time.monotonic() > deadline:
            raise UnavailableError("the measured proxy exited or stopped answering")
        time.sleep(0.02)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
