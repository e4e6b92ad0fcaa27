"""A server's keys and files, and a proxy in the same process: real bytes, no network."""

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sottovoce.client import Client, ProxyApi, SyncResult
from sottovoce.core.bounds import round_items
from sottovoce.errors import ClosedError, SpentError
from sottovoce.privacy import Charge
from sottovoce.protocol import (
    Catalogue,
    Item,
    Manifest,
    Shelf,
    SignedManifest,
    SignedShelf,
    Terms,
    derive_public_key,
    encode_items,
    generate_epoch_key,
)
from sottovoce.protocol.tokens import Issuer, TokenRequest
from sottovoce.training import Participation, Settings

ITEMS = 50
FACTORS = 3
REPORTS = 4
EPSILON = 2.5
TRAINING = Settings.preset(
    "loudest", epsilon=EPSILON, reports=REPORTS, factors=FACTORS, loud=10, seed=3
)
ASKED = Participation(min_clients=100, hold=0)
COST = REPORTS * EPSILON
DAY = 86_400


def ask_for_names(outcomes: int) -> dict[str, Any]:
    """Return the terms of a training of names with this number of outcomes."""
    kind = {"mechanism": "named", "parameters": {"names": outcomes}}
    return {**kind, "loud_fraction": 1 / outcomes}


def sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def item(number: int) -> str:
    return f"secret-item-{number:04d}"


def words(n_users: int, reports: int) -> NDArray[np.uint64]:
    """Return the same words every time: tests can make the same reports again."""
    stream = np.random.default_rng(7)
    shape = (n_users, reports + 1, 4)
    return stream.integers(0, 2**64, shape, dtype=np.uint64)


class Prompt(Client):
    """Sends at once and never really sleeps, unless told otherwise."""

    def sync(self, api: ProxyApi, **options: Any) -> SyncResult:
        return super().sync(api, **{"jitter": 0.0, "sleep": lambda _: None, **options})


class World:
    """Epoch e is open during day e."""

    def __init__(self, **changes: Any):
        self.signing_key = Ed25519PrivateKey.generate()
        self.verification_key = self.signing_key.public_key().public_bytes_raw()
        self.epoch_keys = {epoch: generate_epoch_key() for epoch in range(1, 9)}
        self.catalogue = Catalogue.from_items(
            Item(item(number), f"Title {number}", {"genre": ("x" * 100,)})
            for number in range(ITEMS)
        )
        self.files: dict[bytes, bytes] = {self.catalogue.hash: self.catalogue.raw}
        self.changes = changes
        self.now = 1.5 * DAY

    def items(self, epoch: int) -> NDArray[np.float32]:
        V = np.random.default_rng(epoch).standard_normal((ITEMS, FACTORS)) * 0.1
        V[:, 0] += 0.2
        return round_items(V)

    def add(self, content: bytes) -> bytes:
        """Serve a file; return its hash."""
        self.files[sha(content)] = content
        return sha(content)

    def terms(self, **changes: Any) -> Terms:
        return replace(Terms.from_settings(bytes(range(16)), TRAINING, ASKED, ITEMS), **changes)

    def manifest(self, epoch: int, **changes: Any) -> Manifest:
        """Make a manifest with changes of it or of its terms: no name is in both."""
        changes = {**self.changes, **changes}
        term_names = {term.name for term in fields(Terms)} & set(changes)
        accounts = changes.get("accounts", False)
        built = Manifest(
            epoch=epoch,
            terms=self.terms(**{name: changes.pop(name) for name in term_names}),
            items=ITEMS,
            alpha=TRAINING.alpha,
            regularization=TRAINING.regularization,
            model=self.add(encode_items(self.items(epoch))),
            catalogue=self.catalogue.hash,
            public_key=derive_public_key(self.epoch_keys[epoch]),
            token_key=issuer(epoch).public_key if accounts else None,
            next_token_key=issuer(epoch + 1).public_key if accounts else None,
            opens=epoch * DAY,
            closes=(epoch + 1) * DAY,
            epochs_left=0,
            reports_behind=1_000,
            start=None,
        )
        return replace(built, **changes)

    def signed(self, epoch: int, **changes: Any) -> SignedManifest:
        return SignedManifest.make(self.manifest(epoch, **changes), self.signing_key)

    def shelf(self, published: int, catalogue: bytes) -> SignedShelf:
        return SignedShelf.make(Shelf(published, catalogue), self.signing_key)

    def clock(self) -> float:
        return self.now

    def create(
        self, folder: Path, limit: float = 100.0, *, accept: bool = True, **changes: Any
    ) -> Client:
        """Create a client whose owner has accepted the first terms, except with `accept=False`."""
        client = Prompt.create(
            folder,
            proxy_url="https://proxy.example",
            verification_key=self.verification_key,
            limit=limit,
            **{"clock": self.clock, "monotonic": self.clock, **changes},
        )
        if accept:
            client.accept(self.manifest(1).terms, limit)
        return client

    def open(self, folder: Path, **changes: Any) -> Client:
        clocks = {"clock": self.clock, "monotonic": self.clock}
        return Prompt.open(folder, **{**clocks, **changes})


@cache
def issuer(epoch: int) -> Issuer:
    """Return the issuer of the tokens of one epoch."""
    return Issuer(bytes([epoch]) * 32)


class FakeProxy:
    """Serves what a world publishes and keeps what it is sent."""

    def __init__(self, world: World, epoch: int = 1, **changes: Any):
        self.world = world
        self.publish(world.signed(epoch, **changes))
        self.received: list[bytes] = []
        self.calls: list[str] = []
        self.signed_elements: dict[int, bytes] = {}
        self.closed = False
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None

    def publish(self, signed: SignedManifest, key: Ed25519PrivateKey | None = None) -> None:
        self.signed = signed
        self.data = signed.encode()
        shelf = Shelf(signed.manifest.opens, signed.manifest.catalogue)
        signer = key or self.world.signing_key
        self.shelved = SignedShelf.make(shelf, signer, signed.statements).encode()

    def next_epoch(self) -> None:
        """Let a day pass."""
        self.world.now += DAY
        self.publish(self.world.signed(self.signed.manifest.epoch + 1))

    def manifest(self) -> bytes:
        return self._do("manifest", lambda: self.data)

    def shelf(self) -> bytes:
        return self._do("shelf", lambda: self.shelved)

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        return self._do("model", lambda: self.world.files[sha256])

    def catalogue(self, sha256: bytes) -> bytes:
        return self._do("catalogue", lambda: self.world.files[sha256])

    def patch(self, sha256: bytes) -> bytes:
        return self._do("patch", lambda: self.world.files[sha256])

    def token(self, request: bytes) -> bytes:
        asked = TokenRequest.decode(request)
        return self._do("token", lambda: self._evaluate(asked.epoch, asked.blinded))

    def _evaluate(self, epoch: int, element: bytes) -> bytes:
        if self.signed_elements.setdefault(epoch, element) != element:
            raise SpentError("this account has had its token")
        return issuer(epoch).evaluate(element)

    def check_taken(self, manifest_hash: bytes) -> None:
        assert manifest_hash == self.signed.hash
        self._do("taken?", lambda: b"")

    def send(self, batch: bytes) -> None:
        self._do("send", lambda: self._take(batch))

    def _take(self, batch: bytes) -> bytes:
        if self.closed:
            raise ClosedError("the epoch is over")
        self.received.append(batch)
        return b""

    def _do(self, call: str, work: Callable[[], bytes]) -> bytes:
        self.before(call)
        self.calls.append(call)
        answer = work()
        self.after(call)
        return answer


def pause_once_made(client: Client) -> Callable[[float], None]:
    """Return a sleep during which the owner pauses, as soon as a batch waits."""

    def sleep(_: float) -> None:
        if client.get_status().batches.get("charged"):
            client.pause()

    return sleep


def charges(folder: Path) -> list[Charge]:
    """Return the charges of the ledger, read as anybody could."""
    columns = (
        "training, epoch, purpose, mechanism, epsilon, reports, loud_fraction, clients, dummies"
    )
    with closing(sqlite3.connect(folder / "client.db")) as db:
        rows = db.execute(f"SELECT {columns} FROM ledger WHERE epoch IS NOT NULL ORDER BY record")
        return [Charge(*row) for row in rows]
