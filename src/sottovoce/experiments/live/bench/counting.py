"""The server's memory over an epoch of a million reports."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import UnavailableError
from sottovoce.experiments.live.bench.bench_server import PROXY, BenchServer
from sottovoce.experiments.live.bench.process import ResidentMemory, most_resident, resident
from sottovoce.protocol import SEALED, Opened
from sottovoce.server import Pool

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from sottovoce.experiments.bench.timing import Watch


@dataclass(frozen=True)
class Counting:
    """One epoch, in a process of its own."""

    reports: int
    opened_for_real: bool
    """Whether reports were sealed and opened; else a stand-in takes their bytes as they are."""
    memory: ResidentMemory
    opener: int | None
    """Most resident bytes of a process that opens; None if there was none."""


class OpensNothing:
    """An `Opener` that opens nothing: any 52 bytes are a report."""

    def open(
        self,
        sealed: bytes,
        private_key: bytes,  # noqa: ARG002 - nothing is opened
        manifest_hash: bytes,  # noqa: ARG002
        n_directions: int,
    ) -> Opened:
        words = np.frombuffer(sealed, np.uint32).reshape(-1, SEALED // 4)
        keys = np.ascontiguousarray(words[:, :2]).view(np.uint64).ravel()
        return Opened(words[:, 2] % np.uint32(2 * n_directions), keys, 0)


def measure_counting(
    bench: BenchServer,
    folder: Path,
    *,
    reports: int,
    chunk_reports: int,
    processes: int,
    for_real: bool,
    watch: Watch,
) -> Counting:
    """Chunks from files, so that nothing but the server is in the process that is measured."""
    chunks, total = folder / "chunks", -(-reports // chunk_reports)
    chunks.mkdir(parents=True)
    watch(f"{'sealing' if for_real else 'making'} {reports:,} reports")
    if for_real:
        sealed = bench.sealed_chunks(total, chunk_reports, processes)
    else:
        sealed = (bench.chunk(os.urandom(SEALED * chunk_reports)) for _ in range(total))
    for number, chunk in enumerate(sealed):
        (chunks / f"{number:05}").write_bytes(chunk.encode())
    watch(f"a server counts {reports:,} reports")
    ours, theirs = get_context("spawn").Pipe()
    arguments = (bench, folder / "counted", chunks, processes if for_real else 0, theirs)
    process = get_context("spawn").Process(target=count_epoch, args=arguments)
    process.start()
    theirs.close()
    try:
        memory, opener = ours.recv()
    except EOFError as error:
        raise UnavailableError("the measured server ended before its epoch did") from error
    finally:
        process.join()
    return Counting(total * chunk_reports, for_real, memory, opener)


def count_epoch(
    bench: BenchServer, folder: Path, chunks: Path, processes: int, pipe: Connection
) -> None:
    """In a process of its own: take all chunks; with 0 processes nothing is opened."""
    pool = Pool(processes) if processes else None
    with bench.fresh_server(folder, pool or OpensNothing()) as server:
        start, epoch = resident(os.getpid()), bench.signed.manifest.epoch
        for path in sorted(chunks.iterdir()):
            data = path.read_bytes()
            server.take_chunk(PROXY, epoch, sha256(data).hexdigest(), data)
        openers = [most_resident(child.pid) for child in active_children() if child.pid]
        memory = ResidentMemory(start, most_resident(os.getpid()))
    if pool is not None:
        pool.close()
    pipe.send((memory, max(openers, default=None)))
