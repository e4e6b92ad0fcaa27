"""Opening: the speed of all of the server's work on reports, compared with that of X25519 alone."""

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
from sottovoce_lab.bench.live.bench_server import PROXY_NAME, BenchServer
from sottovoce_lab.bench.timing import Contender, Spread, Watch, compute_ratio, take_turns

# Prepares the work, which is not timed, and returns a function that does it.
Job = Callable[..., Callable[[], None]]

# Names of the contenders.
RAW_EXCHANGE = "X25519"
PARSED_EXCHANGE = "X25519 from bytes"
HPKE_DECRYPT = "Suite.decrypt"
WHOLE_SERVER = "server, all of it"
# Reports that start the server's processes before anything is timed.
WARM_UP_REPORTS = 512
# Different public keys for the exchanges, used in turn.
N_PUBLIC_KEYS = 256


@dataclass(frozen=True)
class OpeningRate:
    """The rate of one contender with a number of processes."""

    what: str
    processes: int
    seconds: list[float]
    """Seconds round by round."""
    per_second: Spread
    """Reports per second."""
    of_raw: Spread
    """Rate divided by that of raw X25519 with as many processes in the same round."""


def measure_opening(
    bench: BenchServer,
    folder: Path,
    *,
    processes: list[int],
    reports: int,
    rounds: int,
    watch: Watch,
) -> list[OpeningRate]:
    """Measure every contender with each number of processes, all in turns."""
    watch(f"sealing {rounds} x {reports:,} reports")
    chunks = list(bench.seal_chunks(rounds, reports, max(processes)))
    with ExitStack() as stack:
        contenders = []
        for number in processes:
            workers = stack.enter_context(Workers(number))
            pool = OpenerPool(number)
            stack.callback(pool.close)
            contenders += _make_contenders(bench, folder, workers, pool, number, chunks)
        seconds = take_turns(contenders, rounds, watch)
    return [
        OpeningRate(
            what,
            number,
            seconds[_name(what, number)],
            Spread.from_values(reports / np.asarray(seconds[_name(what, number)])),
            compute_ratio(seconds, _name(RAW_EXCHANGE, number), _name(what, number)),
        )
        for number in processes
        for what in (RAW_EXCHANGE, PARSED_EXCHANGE, HPKE_DECRYPT, WHOLE_SERVER)
    ]


@dataclass(frozen=True)
class CoreRate:
    """The rate of one core by CPU time, which excludes other work on the machine."""

    per_second: Spread
    """Reports that the server opens, checks, counts and stores per CPU second."""
    of_raw: Spread
    """Rate divided by that of raw X25519 in the same round."""


def measure_core(
    bench: BenchServer, folder: Path, *, reports: int, rounds: int, watch: Watch
) -> CoreRate:
    """Measure the server in this process, in turns with raw X25519."""
    watch(f"one core opens {rounds} x {reports:,} reports")
    (chunk,) = bench.seal_chunks(1, reports, 1)
    data, name, raw_work = chunk.encode(), chunk.name, prepare_exchange(reports)
    raw, served = [], []
    for number in range(rounds):
        raw.append(_measure_cpu_seconds(raw_work))
        with bench.open_fresh_server(folder / f"core-{number}", InProcessOpener()) as server:
            take = partial(server.take_chunk, PROXY_NAME, chunk.epoch, name, data)
            served.append(_measure_cpu_seconds(take))
    seconds = np.asarray(served)
    per_second = Spread.from_values(reports / seconds)
    return CoreRate(per_second, Spread.from_values(np.asarray(raw) / seconds))


def _measure_cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _name(what: str, processes: int) -> str:
    return f"{what}, {processes} processes"


def _make_contenders(
    bench: BenchServer,
    folder: Path,
    workers: Workers,
    pool: OpenerPool,
    number: int,
    chunks: list[Chunk],
) -> list[Contender]:
    """Return the contenders. Each does the work of one chunk, which is another in every round."""
    reports = chunks[0].reports
    shares = [(len(part),) for part in np.array_split(np.arange(reports), number)]
    to_decrypt, to_count = cycle(chunks), cycle(chunks)
    pool.open(
        chunks[0].sealed[: WARM_UP_REPORTS * number * SEALED_BYTES],
        bench.private_key,
        bench.signed.hash,
        bench.signed.manifest.build().n_directions,
    )

    def decrypt_all() -> float:
        parts = _split(next(to_decrypt).sealed, number)
        return workers.time(
            prepare_decryption, [(part, bench.private_key, bench.signed.hash) for part in parts]
        )

    def serve() -> float:
        chunk = next(to_count)
        data, name = chunk.encode(), chunk.name
        with bench.open_fresh_server(folder / f"served-by-{number}", pool) as server:
            began = time.perf_counter()
            is_new = server.take_chunk(PROXY_NAME, chunk.epoch, name, data)
            seconds = time.perf_counter() - began
            assert is_new, "a fresh database knows no chunk"
        return seconds

    return [
        Contender(_name(RAW_EXCHANGE, number), lambda: workers.time(prepare_exchange, shares)),
        Contender(
            _name(PARSED_EXCHANGE, number),
            lambda: workers.time(prepare_exchange_from_bytes, shares),
        ),
        Contender(_name(HPKE_DECRYPT, number), decrypt_all),
        Contender(_name(WHOLE_SERVER, number), serve),
    ]


def _split(sealed: bytes, parts: int) -> Iterator[bytes]:
    """Yield parts of whole reports, as equal as possible."""
    edges = np.linspace(0, len(sealed) // SEALED_BYTES, parts + 1).astype(int) * SEALED_BYTES
    for begin, end in pairwise(edges):
        yield sealed[begin:end]


class Workers:
    """Processes that do the same job at the same time; a context manager."""

    def __init__(self, processes: int):
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run_jobs, args=(theirs,), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def time(self, job: Job, arguments: Sequence[tuple[object, ...]]) -> float:
        """Return the seconds until all processes have done the job, each with its arguments."""
        for pipe, values in zip(self._pipes, arguments, strict=True):
            pipe.send((job, values))
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


def _run_jobs(pipe: Connection) -> None:
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


def prepare_exchange(number: int) -> Callable[[], None]:
    """Prepare X25519 exchanges with parsed keys, an upper bound of what a core can open."""
    private = X25519PrivateKey.generate()
    peers = [X25519PrivateKey.generate().public_key() for _ in range(N_PUBLIC_KEYS)]

    def run() -> None:
        for at in range(number):
            # Use many keys, because real reports have different keys. A single key would stay in
            # the processor's cache.
            private.exchange(peers[at % N_PUBLIC_KEYS])

    return run


def prepare_exchange_from_bytes(number: int) -> Callable[[], None]:
    """Prepare X25519 exchanges that also parse the keys from bytes."""
    private = X25519PrivateKey.generate()
    peers = [
        X25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(N_PUBLIC_KEYS)
    ]

    def run() -> None:
        for at in range(number):
            private.exchange(X25519PublicKey.from_public_bytes(peers[at % N_PUBLIC_KEYS]))

    return run


def prepare_decryption(
    sealed: bytes, private_key: bytes, manifest_hash: bytes
) -> Callable[[], None]:
    """Prepare HPKE: every report is opened, nothing is counted."""
    private = X25519PrivateKey.from_private_bytes(private_key)
    info = HPKE_INFO_PREFIX + manifest_hash
    reports = [sealed[at : at + SEALED_BYTES] for at in range(0, len(sealed), SEALED_BYTES)]

    def run() -> None:
        for report in reports:
            HPKE_SUITE.decrypt(report, private, info=info)

    return run
