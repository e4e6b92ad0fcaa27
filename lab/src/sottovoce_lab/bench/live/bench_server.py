"""A server in a folder, with one epoch that is closed and waits for its reports.

And its memory over an epoch of a million reports.
"""

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import numpy as np

from sottovoce.errors import UnavailableError
from sottovoce.protocol import (
    SEALED_BYTES,
    Catalogue,
    Chunk,
    Item,
    OpenedReports,
    SignedManifest,
    seal_reports,
)
from sottovoce.protocol.contact import CROWD_ENOUGH, Contact
from sottovoce.server import (
    InProcessOpener,
    Keys,
    Opener,
    OpenerPool,
    ProxyAccess,
    Server,
    ServerSettings,
    ServerStore,
)
from sottovoce.server.agreement import begin_service
from sottovoce.training import DEFAULT_PRESET, Participation, Settings
from sottovoce_lab.bench.timing import ResidentMemory, Watch, most_resident, resident

PROXY = "bench"
PIECES = 8
"""Parts in which a chunk's reports are sealed."""


@dataclass(frozen=True)
class BenchServer:
    """A server with a closed epoch, from which every measurement starts."""

    folder: Path
    settings: ServerSettings
    secrets: tuple[bytes, bytes]
    """The server's keys as bytes: this object goes to other processes."""
    signed: SignedManifest
    private_key: bytes
    """Of the epoch."""
    catalogue: Catalogue
    model: bytes
    """The file of the first item matrix."""

    @classmethod
    def make(cls, folder: Path, *, items: int, reports: int) -> Self:
        """For a catalogue of so many items and batches of so many reports."""
        folder.mkdir(parents=True, exist_ok=True)
        catalogue = Catalogue.from_items(Item(f"item-{n}", f"Item {n}") for n in range(items))
        (folder / "catalogue.json").write_bytes(catalogue.raw)
        settings = ServerSettings(
            keys=folder / "keys.json",
            catalogue=folder / "catalogue.json",
            proxies={PROXY: ProxyAccess(sha256(b"bench").hexdigest())},
            database=_url(folder),
            training=Settings.preset(DEFAULT_PRESET, reports=reports),
            terms=Participation(least_clients=1),
            epoch_seconds=1,
        )
        keys = Keys.generate()
        keys.write(settings.keys)
        store = ServerStore(settings.database)
        begin_service(store, settings, keys)
        server = _closed(store, keys, settings)
        signed = server.get_signed_manifest()
        with store.read() as transaction:
            wrapped = transaction.find_wrapped_key(signed.manifest.epoch)
        model = server.get_model(signed.manifest.model)
        store.close()
        assert wrapped is not None, "a closed epoch has its key"
        assert model is not None, "a published model is kept"
        private_key = keys.unwrap(signed.manifest.epoch, wrapped)
        secrets = keys.signing, keys.wrapping
        return cls(folder, settings, secrets, signed, private_key, catalogue, model)

    @property
    def keys(self) -> Keys:
        return Keys(*self.secrets)

    @contextmanager
    def fresh_server(self, folder: Path, opener: Opener) -> Iterator[Server]:
        """The same epoch with nothing counted, in a database of its own."""
        folder.mkdir(parents=True)
        shutil.copy(self.folder / "server.sqlite", folder)
        settings = replace(self.settings, database=_url(folder))
        store = ServerStore(settings.database)
        try:
            server = Server(store, self.keys, settings, opener=opener)
            server.prepare()
            yield server
        finally:
            store.close()
            shutil.rmtree(folder)

    def chunk(self, sealed: bytes) -> Chunk:
        return Chunk(self.signed.manifest.epoch, self.signed.hash, sealed)

    def sealed_chunks(self, number: int, reports: int, processes: int) -> Iterator[Chunk]:
        """Really sealed, no two alike; sealing takes about as long as opening."""
        directions = self.signed.manifest.build().n_directions
        rng = np.random.default_rng(0)
        public_key, manifest_hash = self.signed.manifest.public_key, self.signed.hash
        assert public_key is not None, "this epoch asks for reports"
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for _ in range(number):
                drawn = rng.integers(0, 2 * directions, reports).astype(np.uint32)
                parts = [
                    pool.submit(seal_reports, part, public_key, manifest_hash)
                    for part in np.array_split(drawn, PIECES)
                ]
                yield self.chunk(b"".join(part.result() for part in parts))


def _closed(store: ServerStore, keys: Keys, settings: ServerSettings) -> Server:
    """Its first epoch is over: no proxy can end it before its time, so that is set forward."""
    now = time.time()
    server = Server(store, keys, settings, opener=InProcessOpener(), clock=lambda: now)
    server.tick()
    signed = server.get_signed_manifest()
    server.handle_contact(PROXY, Contact(1, signed.hash, CROWD_ENOUGH, now, None))
    now += settings.epoch_seconds
    server.tick()
    return server


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'server.sqlite'}"


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
    ) -> OpenedReports:
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
    """Chunks from files, so that nothing but the server is in the process that is measured."""
    chunks, total = folder / "chunks", -(-reports // chunk_reports)
    chunks.mkdir(parents=True)
    watch(f"{'sealing' if for_real else 'making'} {reports:,} reports")
    if for_real:
        sealed = bench.sealed_chunks(total, chunk_reports, processes)
    else:
        sealed = (bench.chunk(os.urandom(SEALED_BYTES * chunk_reports)) for _ in range(total))
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
    pool = OpenerPool(processes) if processes else None
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
