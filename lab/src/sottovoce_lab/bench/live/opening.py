"""Opening: what the server does end to end, beside X25519 alone on the same cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sottovoce.protocol import SEALED_BYTES, Chunk
from sottovoce.protocol.sealing import HPKE_INFO_PREFIX, HPKE_SUITE
from sottovoce.server import InProcessOpener, OpenerPool
from sottovoce_lab.bench.live.bench_server import PROXY, BenchServer
from sottovoce_lab.bench.timing import Contender, Spread, Watch, ratio, take_turns

Job = Callable[..., Callable[[], None]]
"""Makes ready, untimed, and gives what is to be timed."""

RAW = "X25519"
PARSED = "X25519 from bytes"
DECRYPT = "Suite.decrypt"
SERVER = "server, all of it"
WARM_UP = 512
"""Reports that start the server's processes."""
PEERS = 256
"""Public keys that exchanges go through, round and round."""


@dataclass(frozen=True)
class OpeningRate:
    """One contender on so many processes."""

    what: str
    processes: int
    seconds: list[float]
    """Round by round."""
    per_second: Spread
    of_raw: Spread
    """Part of the raw X25519 rate of the same processes in the same round."""


def measure_opening(
    bench: BenchServer,
    folder: Path,
    *,
    processes: list[int],
    reports: int,
    rounds: int,
    watch: Watch,
) -> list[OpeningRate]:
    """Every contender on each number of processes, all taking turns."""
    watch(f"sealing {rounds} x {reports:,} reports")
    chunks = list(bench.sealed_chunks(rounds, reports, max(processes)))
    with ExitStack() as open_things:
        contenders = []
        for number in processes:
            workers = open_things.enter_context(Workers(number))
            pool = OpenerPool(number)
            open_things.callback(pool.close)
            contenders += _contenders(bench, folder, workers, pool, number, chunks)
        seconds = take_turns(contenders, rounds, watch)
    return [
        OpeningRate(
            what,
            number,
            seconds[_name(what, number)],
            Spread.of(reports / np.asarray(seconds[_name(what, number)])),
            ratio(seconds, _name(RAW, number), _name(what, number)),
        )
        for number in processes
        for what in (RAW, PARSED, DECRYPT, SERVER)
    ]


@dataclass(frozen=True)
class CoreRate:
    """What one core does, by CPU time: others on the machine are not counted."""

    per_second: Spread
    """Reports that the server opens, checks, counts and syncs."""
    of_raw: Spread
    """Part of the raw X25519 rate, round by round."""


def measure_core(
    bench: BenchServer, folder: Path, *, reports: int, rounds: int, watch: Watch
) -> CoreRate:
    """In this process alone, taking turns with raw X25519."""
    watch(f"one core opens {rounds} x {reports:,} reports")
    (chunk,) = bench.sealed_chunks(1, reports, 1)
    data, name, raw_work = chunk.encode(), chunk.name, exchange(reports)
    raw, served = [], []
    for number in range(rounds):
        raw.append(_cpu_seconds(raw_work))
        with bench.fresh_server(folder / f"core-{number}", InProcessOpener()) as server:
            take = partial(server.take_chunk, PROXY, chunk.epoch, name, data)
            served.append(_cpu_seconds(take))
    seconds = np.asarray(served)
    return CoreRate(Spread.of(reports / seconds), Spread.of(np.asarray(raw) / seconds))


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _name(what: str, processes: int) -> str:
    return f"{what}, {processes} processes"


def _contenders(
    bench: BenchServer,
    folder: Path,
    workers: Workers,
    pool: OpenerPool,
    number: int,
    chunks: list[Chunk],
) -> list[Contender]:
    """Each does one chunk's worth of work; every round has a chunk of its own."""
    reports = chunks[0].reports
    shares = [(len(part),) for part in np.array_split(np.arange(reports), number)]
    to_decrypt, to_count = cycle(chunks), cycle(chunks)
    pool.open(
        chunks[0].sealed[: WARM_UP * number * SEALED_BYTES],
        bench.private_key,
        bench.signed.hash,
        bench.signed.manifest.build().n_directions,
    )

    def decrypt_all() -> float:
        parts = _split(next(to_decrypt).sealed, number)
        return workers.time(
            decrypt, [(part, bench.private_key, bench.signed.hash) for part in parts]
        )

    def serve() -> float:
        chunk = next(to_count)
        data, name = chunk.encode(), chunk.name
        with bench.fresh_server(folder / f"served-by-{number}", pool) as server:
            began = time.perf_counter()
            counted = server.take_chunk(PROXY, chunk.epoch, name, data)
            seconds = time.perf_counter() - began
            assert counted, "a fresh database knows no chunk"
        return seconds

    return [
        Contender(_name(RAW, number), lambda: workers.time(exchange, shares)),
        Contender(_name(PARSED, number), lambda: workers.time(exchange_from_bytes, shares)),
        Contender(_name(DECRYPT, number), decrypt_all),
        Contender(_name(SERVER, number), serve),
    ]


def _split(sealed: bytes, parts: int) -> Iterator[bytes]:
    """In as many runs of whole reports."""
    edges = np.linspace(0, len(sealed) // SEALED_BYTES, parts + 1).astype(int) * SEALED_BYTES
    for begin, end in pairwise(edges):
        yield sealed[begin:end]


class Workers:
    """Processes that do the same work at the same time, kept from one job to the next.

    Use it in a `with`.
    """

    def __init__(self, processes: int):
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def time(self, job: Job, arguments: Sequence[tuple[object, ...]]) -> float:
        """Seconds until the last has done the job; each has its own arguments."""
        for pipe, given in zip(self._pipes, arguments, strict=True):
            pipe.send((job, given))
        for pipe in self._pipes:
            pipe.recv()
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(None)
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()


def _work(pipe: Connection) -> None:
    while True:
        try:
            job, arguments = pipe.recv()
            run = job(*arguments)
            pipe.send("ready")
            pipe.recv()
            run()
            pipe.send("done")
        except (EOFError, KeyboardInterrupt):
            return


def exchange(number: int) -> Callable[[], None]:
    """X25519 with keys that are ready: what a core can do at most."""
    private = X25519PrivateKey.generate()
    peers = [X25519PrivateKey.generate().public_key() for _ in range(PEERS)]

    def run() -> None:
        for at in range(number):
            private.exchange(peers[at % PEERS])

    return run


def exchange_from_bytes(number: int) -> Callable[[], None]:
    """X25519 with keys as they come over a network."""
    private = X25519PrivateKey.generate()
    peers = [X25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(PEERS)]

    def run() -> None:
        for at in range(number):
            private.exchange(X25519PublicKey.from_public_bytes(peers[at % PEERS]))

    return run


def decrypt(sealed: bytes, private_key: bytes, manifest_hash: bytes) -> Callable[[], None]:
    """HPKE alone: every report opened, nothing counted."""
    private, info = (
        X25519PrivateKey.from_private_bytes(private_key),
        HPKE_INFO_PREFIX + manifest_hash,
    )
    reports = [sealed[at : at + SEALED_BYTES] for at in range(0, len(sealed), SEALED_BYTES)]

    def run() -> None:
        for report in reports:
            HPKE_SUITE.decrypt(report, private, info=info)

    return run
