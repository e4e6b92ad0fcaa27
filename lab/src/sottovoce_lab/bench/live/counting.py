"""Counting: the memory of a server over an epoch of a million reports."""

import os
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from sottovoce.errors import UnavailableError
from sottovoce.protocol import SEALED_BYTES, OpenedReports
from sottovoce.server import OpenerPool
from sottovoce_lab.bench.live.bench_server import PROXY_NAME, BenchServer
from sottovoce_lab.bench.timing import (
    ResidentMemory,
    Watch,
    read_max_resident_bytes,
    read_resident_bytes,
)


@dataclass(frozen=True)
class Counting:
    """Memory of a server that counts one epoch in a separate process."""

    reports: int
    opened_for_real: bool
    """Whether reports were encrypted and decrypted; otherwise `FakeOpener` took random bytes."""
    memory: ResidentMemory
    opener: int | None
    """Peak resident bytes of the largest process that decrypts reports; None if there is none."""


class FakeOpener:
    """An `Opener` without decryption: any 52 bytes are a report."""

    def open(
        self,
        sealed: bytes,
        private_key: bytes,  # noqa: ARG002 - nothing is opened
        manifest_hash: bytes,  # noqa: ARG002
        n_directions: int,
    ) -> OpenedReports:
        """Return reports made of the bytes."""
        words = np.frombuffer(sealed, np.uint32).reshape(-1, SEALED_BYTES // 4)
        keys = np.ascontiguousarray(words[:, :2]).view(np.uint64).ravel()
        return OpenedReports(words[:, 2] % np.uint32(2 * n_directions), keys, 0)


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
    """Measure the memory of a process that contains only the server."""
    # The chunks come from files, so that they do not count as memory.
    chunks, total = folder / "chunks", -(-reports // chunk_reports)
    chunks.mkdir(parents=True)
    watch(f"{'sealing' if for_real else 'making'} {reports:,} reports")
    if for_real:
        sealed = bench.seal_chunks(total, chunk_reports, processes)
    else:
        sealed = (bench.make_chunk(os.urandom(SEALED_BYTES * chunk_reports)) for _ in range(total))
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
    """Count all chunks and send the used memory to the pipe.

    If `processes` is 0, `FakeOpener` replaces decryption.
    """
    pool = OpenerPool(processes) if processes else None
    with bench.open_fresh_server(folder, pool or FakeOpener()) as server:
        start, epoch = read_resident_bytes(os.getpid()), bench.signed.manifest.epoch
        for path in sorted(chunks.iterdir()):
            data = path.read_bytes()
            server.take_chunk(PROXY_NAME, epoch, sha256(data).hexdigest(), data)
        openers = [read_max_resident_bytes(child.pid) for child in active_children() if child.pid]
        memory = ResidentMemory(start, read_max_resident_bytes(os.getpid()))
    if pool is not None:
        pool.close()
    pipe.send((memory, max(openers, default=None)))
