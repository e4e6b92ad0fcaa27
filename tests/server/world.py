"""A server with a clock in hand, and what people and proxies would send it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import sum_counts
from sottovoce.protocol import SEALED_BYTES, Catalogue, Chunk, Item, SignedManifest, seal_reports
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
from sottovoce.training import Participation, Settings
from tests.asgi import Headers

SECRETS = {"east": "the secret of east", "west": "the secret of west"}
KEYS = Keys.generate()
ITEMS = 20
TRAINING = Settings.preset("loudest", reports=5, epochs=3, factors=2, ridge=0.1)


def make_settings(folder: Path, url: str, **changes: Any) -> ServerSettings:
    """Small and quick."""
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
        terms=Participation(least_clients=1, hold=1000),
    )
    return replace(settings, **changes)


@dataclass
class World:
    """One worker's view; `another` gives a further worker on the same database."""

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
        """Create the database, as `sottovoce server init` does; return its first worker."""
        world = cls(settings, **more)
        begin_service(world.store, settings, world.keys)
        return world

    def add_worker(self, **changes: Any) -> World:
        """A further worker; closed with this one."""
        settings = replace(self.settings, **changes)
        self._others.append(World(settings, self.keys, self.opener, self.now))
        return self._others[-1]

    def close(self) -> None:
        for other in self._others:
            other.close()
        self.store.close()

    def get_signed(self) -> SignedManifest:
        return self.server.get_signed_manifest()

    def n_directions(self) -> int:
        return self.get_signed().manifest.build().n_directions

    def close_epoch(self) -> SignedManifest:
        """Let the open epoch's time pass, with a crowd at east and nobody at west; its manifest."""
        self.server.tick()
        signed = self.get_signed()
        self.now = signed.manifest.closes
        self.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_NONE)
        return signed

    def report_crowds(self, signed: SignedManifest, **crowds: Crowd) -> None:
        """Proxies say what they hold; then the server beats."""
        for proxy, crowd in crowds.items():
            self.contact(proxy, signed, crowd)
        self.server.tick()

    def contact(self, proxy: str, signed: SignedManifest, crowd: Crowd | None = None) -> State:
        """A proxy that is at this epoch speaks, and has the right time."""
        said = Contact(signed.manifest.epoch, signed.hash, crowd, self.now, None)
        return self.server.handle_contact(proxy, said).state

    def get_state(self, epoch: int) -> str:
        return self.server.list_epochs()[epoch - 1].state

    def draw_reports(self, number: int, seed: int = 0) -> NDArray[np.uint32]:
        rng = np.random.default_rng(seed)
        return rng.integers(0, 2 * self.n_directions(), number).astype(np.uint32)

    def send(self, proxy: str, chunk: Chunk) -> bool:
        return self.server.take_chunk(proxy, chunk.epoch, chunk.name, chunk.encode())

    def commit(self, proxy: str, signed: SignedManifest, chunks: Iterable[Chunk] = ()) -> None:
        given = list(chunks)
        reports = sum(chunk.reports for chunk in given)
        epoch = signed.manifest.epoch
        self.server.commit(proxy, epoch, signed.hash, len(given), reports)

    def make_chunk(self, signed: SignedManifest, reports: int) -> Chunk:
        return chunk_of(sealed(self.draw_reports(reports), signed), signed)

    def apply(self, signed: SignedManifest, *chunks: Chunk) -> None:
        """East hands these in, west nothing; the epoch is applied."""
        for chunk in chunks:
            self.send("east", chunk)
        self.commit("east", signed, chunks)
        self.commit("west", signed)
        self.server.tick()

    def get_sums(self, epoch: int) -> NDArray[np.int64]:
        """Of all that was counted so far, or, when it is applied, of what is in the model."""
        with self.store.read() as transaction:
            counts = list(transaction.get_counts(epoch).values())
            return sum_counts(np.sum(counts, axis=0)) if counts else transaction.get_sums(epoch)

    def get_counts(self, epoch: int) -> tuple[int, int, int, int]:
        """Chunks, reports, duplicates, undecodable."""
        with self.store.read() as transaction:
            found = transaction.find_epoch(epoch)
        assert found is not None
        return found.chunks, found.reports, found.duplicates, found.undecodable


def sealed(reports: NDArray[np.uint32], signed: SignedManifest) -> bytes:
    """As devices seal them."""
    assert signed.manifest.public_key is not None
    return seal_reports(reports, signed.manifest.public_key, signed.hash)


def chunk_of(data: bytes, signed: SignedManifest) -> Chunk:
    return Chunk(signed.manifest.epoch, signed.hash, data)


def chunks_of(data: bytes, signed: SignedManifest, reports: int) -> list[Chunk]:
    """Cut into chunks of so many reports."""
    size = SEALED_BYTES * reports
    return [chunk_of(data[at : at + size], signed) for at in range(0, len(data), size)]


def bearer(proxy: str) -> Headers:
    """The header that says which proxy this is."""
    return [("authorization", f"Bearer {SECRETS[proxy]}")]


MakeWorld = Callable[..., World]
NewUrl = Callable[[], str]
