"""A server in a folder, with one closed epoch that waits for its reports."""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import numpy as np

from sottovoce.protocol import (
    Catalogue,
    Chunk,
    Item,
    SignedManifest,
    seal_reports,
)
from sottovoce.protocol.contact import CROWD_ENOUGH, Contact
from sottovoce.server import (
    InProcessOpener,
    Keys,
    Opener,
    ProxyAccess,
    Server,
    ServerSettings,
    ServerStore,
)
from sottovoce.server.agreement import begin_service
from sottovoce.training import Participation, Settings

PROXY_NAME = "bench"
# Tasks for the processes that seal the reports of one chunk.
SEALING_TASKS_PER_CHUNK = 8


@dataclass(frozen=True)
class BenchServer:
    """A server with a closed epoch, from which every measurement starts."""

    folder: Path
    settings: ServerSettings
    secrets: tuple[bytes, bytes]
    """The server's keys as bytes, because this object is sent to other processes."""
    signed: SignedManifest
    private_key: bytes
    """Private key of the epoch."""
    catalogue: Catalogue
    model: bytes
    """The file of the first item matrix."""

    @classmethod
    def make(cls, folder: Path, *, items: int, training: Settings) -> Self:
        """Create a server with this number of items, and this training."""
        folder.mkdir(parents=True, exist_ok=True)
        catalogue = Catalogue.from_items(Item(f"item-{n}", f"Item {n}") for n in range(items))
        (folder / "catalogue.json").write_bytes(catalogue.raw)
        settings = ServerSettings(
            keys=folder / "keys.json",
            catalogue=folder / "catalogue.json",
            proxies={PROXY_NAME: ProxyAccess(sha256(b"bench").hexdigest())},
            database=_format_url(folder),
            training=training,
            terms=Participation(min_clients=1),
            epoch_seconds=1,
        )
        keys = Keys.generate()
        keys.write(settings.keys)
        store = ServerStore(settings.database)
        begin_service(store, settings, keys)
        server = _close_first_epoch(store, keys, settings)
        signed = server.get_signed_manifest()
        with store.read() as transaction:
            wrapped = transaction.find_wrapped_key(signed.manifest.epoch)
        model = server.get_file(signed.manifest.model, "model")
        store.close()
        assert wrapped is not None, "a closed epoch has its key"
        assert model is not None, "a published model is stored"
        private_key = keys.unwrap(signed.manifest.epoch, wrapped)
        secrets = keys.signing, keys.wrapping
        return cls(folder, settings, secrets, signed, private_key, catalogue, model)

    @property
    def keys(self) -> Keys:
        """Keys of the server."""
        return Keys(*self.secrets)

    @contextmanager
    def open_fresh_server(self, folder: Path, opener: Opener) -> Iterator[Server]:
        """Open a server on a new copy of the database, in which nothing is counted yet."""
        folder.mkdir(parents=True)
        shutil.copy(self.folder / "server.sqlite", folder)
        settings = replace(self.settings, database=_format_url(folder))
        store = ServerStore(settings.database)
        try:
            server = Server(store, self.keys, settings, opener=opener)
            server.prepare()
            yield server
        finally:
            store.close()
            shutil.rmtree(folder)

    def make_chunk(self, sealed: bytes) -> Chunk:
        """Return a chunk of this epoch with these sealed reports."""
        return Chunk(self.signed.manifest.epoch, self.signed.hash, sealed)

    def seal_chunks(self, number: int, reports: int, processes: int) -> Iterator[Chunk]:
        """Yield different chunks of sealed reports; sealing takes about as long as opening."""
        directions = self.signed.manifest.build().n_directions
        rng = np.random.default_rng(0)
        public_key, manifest_hash = self.signed.manifest.public_key, self.signed.hash
        assert public_key is not None, "this epoch asks for reports"
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for _ in range(number):
                drawn = rng.integers(0, 2 * directions, reports).astype(np.uint32)
                parts = [
                    pool.submit(seal_reports, part, public_key, manifest_hash)
                    for part in np.array_split(drawn, SEALING_TASKS_PER_CHUNK)
                ]
                yield self.make_chunk(b"".join(part.result() for part in parts))


def _close_first_epoch(store: ServerStore, keys: Keys, settings: ServerSettings) -> Server:
    """Return a server whose first epoch is closed."""
    # An epoch lasts until its closing time, so the server's clock is set forward.
    now = time.time()
    server = Server(store, keys, settings, opener=InProcessOpener(), clock=lambda: now)
    server.tick()
    signed = server.get_signed_manifest()
    server.handle_contact(PROXY_NAME, Contact(1, signed.hash, CROWD_ENOUGH, now, None))
    now += settings.epoch_seconds
    server.tick()
    return server


def _format_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'server.sqlite'}"
