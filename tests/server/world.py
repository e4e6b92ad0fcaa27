"""A server with a clock that tests set, and what people and proxies would send it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import sum_counts
from sottovoce.protocol import (
    SEALED_BYTES,
    Catalogue,
    Chunk,
    Item,
    SignedManifest,
    decode_items,
    seal_reports,
)
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, Contact, Crowd, State
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
from sottovoce.simulation.start import encode_start
from sottovoce.training import Participation, Settings
from sottovoce.training.start import Provenance, Start
from tests.asgi import Headers

# Secrets of the two proxies.
SECRETS = {"east": "the secret of east", "west": "the secret of west"}
KEYS = Keys.generate()
# Items in the catalogue.
ITEMS = 20
TRAINING = Settings.preset("loudest", reports=5, epochs=3, factors=2, ridge=0.1)
NAMING = Settings.preset("named", reports=5, epochs=5, half_life=1.0)


def make_settings(folder: Path, url: str, **changes: Any) -> ServerSettings:
    """Return settings of a small training with short epochs."""
    catalogue = folder / "catalogue.json"
    if not catalogue.exists():
        items = (Item(f"film-{number}", f"Film {number}") for number in range(ITEMS))
        catalogue.write_bytes(Catalogue.from_items(items).raw)
    settings = ServerSettings(
        keys=folder / "keys.json",
        catalogue=catalogue,
        proxies={
            name: ProxyAccess(hashlib.sha256(secret.encode()).hexdigest())
            for name, secret in SECRETS.items()
        },
        database=url,
        training=TRAINING,
        epoch_seconds=100,
        grace_seconds=50,
        terms=Participation(min_clients=1, hold=1000),
    )
    return replace(settings, **changes)


def make_start(factors: int = 2, seed: int = 0) -> Start:
    """Return a start that has all items of the catalogue but the last four, and one more."""
    V = np.random.default_rng(seed).random((ITEMS - 3, factors)).astype(np.float32)
    ids = (*(f"film-{number}" for number in range(ITEMS - 4)), "film-that-is-gone")
    return Start(V, ids, Provenance("Volunteers", 600, "2026-01-31", "they published theirs"))


def write_start(folder: Path, start: Start | None = None) -> Path:
    """Write a start as `sottovoce start` does."""
    path = folder / "start.safetensors"
    path.write_bytes(encode_start(start or make_start()))
    return path


@dataclass
class World:
    """One worker of a server."""

    settings: ServerSettings
    keys: Keys = KEYS
    opener: Opener = field(default_factory=InProcessOpener)
    now: float = 1_000.0

    def __post_init__(self) -> None:
        self._others: list[World] = []
        if not self.settings.keys.exists():
            self.keys.write(self.settings.keys)
        self.store = ServerStore(self.settings.database)
        self.server = Server(
            self.store, self.keys, self.settings, clock=lambda: self.now, opener=self.opener
        )

    @classmethod
    def begin(cls, settings: ServerSettings, **more: Any) -> World:
        """Create the database, as `sottovoce server init` does, and return its first worker."""
        world = cls(settings, **more)
        begin_service(world.store, settings, world.keys)
        return world

    def add_worker(self, **changes: Any) -> World:
        """Add a worker on the same database, which is closed with this one."""
        settings = replace(self.settings, **changes)
        self._others.append(World(settings, self.keys, self.opener, self.now))
        return self._others[-1]

    def close(self) -> None:
        for other in self._others:
            other.close()
        self.store.close()

    def get_signed(self) -> SignedManifest:
        return self.server.get_signed_manifest()

    @property
    def n_directions(self) -> int:
        return self.get_signed().manifest.build().n_directions

    def close_epoch(self) -> SignedManifest:
        """Let the open epoch's time pass, with a crowd at east and nobody at west."""
        self.server.tick()
        signed = self.get_signed()
        self.now = signed.manifest.closes
        self.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_NONE)
        return signed

    def report_crowds(self, signed: SignedManifest, **crowds: Crowd) -> None:
        """Report the crowds of proxies; then tick."""
        for proxy, crowd in crowds.items():
            self.contact(proxy, signed, crowd)
        self.server.tick()

    def contact(self, proxy: str, signed: SignedManifest, crowd: Crowd | None = None) -> State:
        """Contact the server as a proxy that is at this epoch and has the right time."""
        contact = Contact(signed.manifest.epoch, signed.hash, crowd, self.now, None)
        return self.server.handle_contact(proxy, contact).state

    def get_state(self, epoch: int) -> str:
        return self.server.list_epochs()[epoch - 1].state

    def draw_reports(self, number: int, seed: int = 0) -> NDArray[np.uint32]:
        rng = np.random.default_rng(seed)
        return rng.integers(0, 2 * self.n_directions, number).astype(np.uint32)

    def send(self, proxy: str, chunk: Chunk) -> bool:
        return self.server.take_chunk(proxy, chunk.epoch, chunk.name, chunk.encode())

    def commit(self, proxy: str, signed: SignedManifest, chunks: Sequence[Chunk] = ()) -> None:
        reports = sum(chunk.reports for chunk in chunks)
        epoch = signed.manifest.epoch
        self.server.commit(proxy, epoch, signed.hash, len(chunks), reports)

    def make_chunk(self, signed: SignedManifest, reports: int | NDArray[np.uint32]) -> Chunk:
        """Return a chunk with these reports, or with random ones."""
        if isinstance(reports, int):
            reports = self.draw_reports(reports)
        return to_chunk(seal(reports, signed), signed)

    def apply(self, signed: SignedManifest, *chunks: Chunk) -> None:
        """Hand these in at east and nothing at west, and apply the epoch."""
        for chunk in chunks:
            self.send("east", chunk)
        self.commit("east", signed, chunks)
        self.commit("west", signed)
        self.server.tick()

    def get_sums(self, epoch: int) -> NDArray[np.int64]:
        """Return the sums of all counts so far; of an applied epoch those behind the model."""
        with self.store.read() as transaction:
            counts = list(transaction.get_counts(epoch).values())
            return sum_counts(np.sum(counts, axis=0)) if counts else transaction.get_sums(epoch)

    def get_counts(self, epoch: int) -> tuple[int, int, int, int]:
        """Return the numbers of chunks, reports, duplicates and undecodable reports."""
        (row,) = (row for row in self.server.list_epochs() if row.epoch == epoch)
        return row.chunks, row.reports, row.duplicates, row.undecodable

    def load_model(self, signed: SignedManifest | None = None) -> NDArray[np.float32]:
        """Return the model of a manifest, or of the current one."""
        manifest = (signed or self.get_signed()).manifest
        content = self.server.get_file(manifest.model, "model")
        assert content is not None
        return decode_items(content, manifest.items, manifest.terms.factors)

    def run_epoch(self) -> SignedManifest:
        """Run an epoch with reports, and return the manifest after it."""
        signed = self.close_epoch()
        self.apply(signed, self.make_chunk(signed, 200))
        return self.get_signed()


def seal(reports: NDArray[np.uint32], signed: SignedManifest) -> bytes:
    """Seal reports as devices do."""
    assert signed.manifest.public_key is not None
    return seal_reports(reports, signed.manifest.public_key, signed.hash)


def to_chunk(data: bytes, signed: SignedManifest) -> Chunk:
    return Chunk(signed.manifest.epoch, signed.hash, data)


def split_chunks(data: bytes, signed: SignedManifest, reports: int) -> list[Chunk]:
    """Cut sealed reports into chunks of that many."""
    size = SEALED_BYTES * reports
    return [to_chunk(data[at : at + size], signed) for at in range(0, len(data), size)]


def make_auth_headers(proxy: str) -> Headers:
    """Return the header that names a proxy."""
    return [("authorization", f"Bearer {SECRETS[proxy]}")]


MakeWorld = Callable[..., World]
NewUrl = Callable[[], str]
