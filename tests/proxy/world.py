"""A small world around a proxy: a signing key, a server in memory, people who send batches.

Also its application as it runs, without sockets.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.types import Message, Scope

from sottovoce.errors import (
    ClosedError,
    NotFoundError,
    RefusedError,
    SottovoceError,
    TooEarlyError,
    UnavailableError,
)
from sottovoce.protocol import (
    SEALED_BYTES,
    Batch,
    Catalogue,
    Chunk,
    Item,
    Manifest,
    OpenedReports,
    Shelf,
    SignedManifest,
    SignedShelf,
    Terms,
    derive_public_key,
    encode_items,
    generate_epoch_key,
    open_reports,
)
from sottovoce.protocol.contact import Contact, Reply, State
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Rate, build_app
from sottovoce.proxy.app import BatchEndpoint
from sottovoce.proxy.epoch_files import BatchTables
from sottovoce.proxy.group_commit import GroupCommit
from sottovoce.proxy.rate_limit import RateLimit
from sottovoce.proxy.store import DATABASE_FILE
from sottovoce.training import Participation, Settings
from tests.asgi import Answer, ask

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ITEMS = 3
FACTORS = 2
CATALOGUE = Catalogue.from_items(
    Item(f"film-{number}", f"Film {number}") for number in range(ITEMS)
)
OPENS = 10_000
CLOSES = 20_000
HOLD = 1_000
ENDS = CLOSES + HOLD


def model_of(epoch: int) -> bytes:
    return encode_items(np.full((ITEMS, FACTORS), epoch, dtype=np.float32))


@cache
def private_key(epoch: int) -> bytes:
    """Return the private key of the epoch with this number, in all worlds."""
    return generate_epoch_key()


def opened(sealed: Sequence[bytes], of: SignedManifest) -> OpenedReports:
    """Open sealed reports as the server does."""
    n_directions = of.manifest.build().n_directions
    return open_reports(b"".join(sealed), private_key(of.manifest.epoch), of.hash, n_directions)


def manifest(epoch: int = 1, **changes: Any) -> Manifest:
    """Return an epoch of four reports that needs three people."""
    asked = {"reports": 4, "dummies": 0}
    asked |= {name: changes.pop(name) for name in tuple(asked) if name in changes}
    training = Settings.preset(changes.pop("preset", "coordinate"), factors=FACTORS, **asked)
    crowd = Participation(min_clients=changes.pop("min_clients", 3), hold=HOLD)
    plain = Manifest(
        epoch=epoch,
        terms=Terms.from_settings(bytes(16), training, crowd, ITEMS),
        items=ITEMS,
        alpha=training.alpha,
        regularization=training.regularization,
        model=hashlib.sha256(model_of(epoch)).digest(),
        catalogue=CATALOGUE.hash,
        public_key=derive_public_key(private_key(epoch)),
        token_key=None,
        next_token_key=None,
        opens=OPENS,
        closes=CLOSES,
        epochs_left=0,
        reports_behind=0,
        start=None,
    )
    return replace(plain, **changes)


def signed(epoch: int = 1, **changes: object) -> SignedManifest:
    return SignedManifest.make(manifest(epoch, **changes), KEY)


def shelved(published: int, catalogue: bytes) -> SignedShelf:
    return SignedShelf.make(Shelf(published, catalogue), KEY)


def open_store(folder: Path) -> ProxyStore:
    """Open the store of a folder, which is created if it is empty."""
    if not (folder / DATABASE_FILE).exists():
        ProxyStore.create(folder)
    return ProxyStore.open(folder)


def settings(folder: Path, **changes: object) -> ProxySettings:
    plain = ProxySettings(
        folder=folder,
        server="https://server.example",
        secret_file=folder / "secret",
        verification_key=KEY.public_key().public_bytes_raw().hex(),
        min_clients=1,
        chunk_reports=5,
        rate=Rate(batches_per_minute=0, per_epoch=0),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now: float = OPENS + 1):
        self.now = now

    def __call__(self) -> float:
        return self.now


class Randomness:
    """A source of random bytes like `os.urandom`, with the same bytes in every run."""

    def __init__(self, seed: int = 0):
        self._stream = np.random.default_rng(seed)

    def __call__(self, n: int) -> bytes:
        return self._stream.bytes(n)


class People:
    """People who make batches; their sealed bytes are random, because sealed bytes look random."""

    def __init__(self, seed: int = 1):
        self.draw = Randomness(seed)

    def batch(self, of: SignedManifest, **changes: object) -> Batch:
        sealed = self.draw(SEALED_BYTES * of.manifest.terms.reports)
        plain = Batch(of.manifest.epoch, of.hash, self.draw(16), sealed)
        return replace(plain, **changes)  # type: ignore[arg-type]

    def batches(self, of: SignedManifest, n: int) -> list[Batch]:
        return [self.batch(of) for _ in range(n)]


class ServerInMemory:
    """An `Upstream` that keeps the rules of the protocol and records all calls."""

    def __init__(self, now: SignedManifest):
        self.now = now
        model = model_of(now.manifest.epoch)
        self.files = {now.manifest.model: model, CATALOGUE.hash: CATALOGUE.raw}
        self.states: dict[int, State] = {now.manifest.epoch: "open"}
        self.behind = 0.0
        """Seconds that its clock is behind the proxy's."""
        self.hashes = {now.manifest.epoch: now.hash}
        self.chunks: dict[int, dict[str, Chunk]] = {}
        self.commits: dict[int, tuple[int, int]] = {}
        self.told: list[tuple[int, str]] = []
        self.reachable = True
        self.shelved: SignedShelf | None = None
        self.before: Callable[[str], None] = lambda _: None
        """Called with the name of each call, before and after it: where tests crash it."""

    def go_on(self, to: SignedManifest) -> None:
        """Publish the next epoch."""
        self.states[self.now.manifest.epoch] = "applied"
        self.now = to
        self.states[to.manifest.epoch] = "open"
        self.hashes[to.manifest.epoch] = to.hash
        self.files[to.manifest.model] = model_of(to.manifest.epoch)

    def reports(self, epoch: int) -> list[bytes]:
        """Return all reports that arrived, in the order of arrival."""
        chunks = self.chunks.get(epoch, {}).values()
        return [report for chunk in chunks for report in reports_of(chunk.sealed)]

    def manifest(self) -> bytes:
        self._begin("manifest")
        return self.now.encode()

    def shelf(self) -> bytes:
        """Return the shelf of the current epoch's catalogue, or the one that a test set."""
        self._begin("shelf")
        now = self.now.manifest
        return (self.shelved or shelved(now.opens, now.catalogue)).encode()

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        self._begin("model")
        assert len(self.files[sha256]) <= max_bytes
        return self.files[sha256]

    def catalogue(self, sha256: bytes) -> bytes:
        self._begin("catalogue")
        return self.files[sha256]

    def patch(self, sha256: bytes) -> bytes:
        self._begin("patch")
        return self.files[sha256]

    def contact(self, contact: Contact) -> Reply:
        self._begin("contact")
        if contact.crowd is not None:
            self.told.append((contact.epoch, contact.crowd))
        if contact.epoch and contact.epoch not in self.states:
            raise NotFoundError("no such epoch")
        state = self.states.get(contact.epoch, "none")
        return Reply(state, contact.time - self.behind, "00" * 8)

    def put_chunk(self, chunk: Chunk) -> None:
        self._begin("put_chunk")
        self._check(chunk.epoch, chunk.manifest_hash)
        self.chunks.setdefault(chunk.epoch, {})[chunk.name] = chunk
        self.before("after put_chunk")

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        self._begin("commit")
        self._check(epoch, manifest_hash)
        if (chunks, reports) != (len(self.chunks.get(epoch, {})), len(self.reports(epoch))):
            raise RefusedError(f"not what is here: {chunks} chunks, {reports} reports")
        self.commits[epoch] = (chunks, reports)
        self.before("after commit")

    def _begin(self, call: str) -> None:
        self.before(call)
        if not self.reachable:
            raise UnavailableError("no route")

    def _check(self, epoch: int, manifest_hash: bytes) -> None:
        if epoch not in self.states:
            raise NotFoundError("no such epoch")
        if self.states[epoch] == "open":
            raise TooEarlyError("still open")
        if self.states[epoch] == "applied":
            raise ClosedError("applied")
        assert manifest_hash == self.hashes[epoch]


def accept(proxy: Proxy, data: bytes) -> None:
    """Send a batch to the endpoint of a proxy; raise the error that its answer would report.

    An end of the process in the thread that stores the batch ends the caller.
    """
    ends: list[BaseException] = []

    def store(batches: Sequence[Batch]) -> list[SottovoceError | None]:
        try:
            return proxy.intake.store_batches(batches)
        except BaseException as end:
            ends.append(end)
            raise RuntimeError from end

    async def receive() -> Message:
        return {"type": "http.request", "body": data}

    limit = RateLimit(Rate(batches_per_minute=0, per_epoch=0), Clock(0))
    endpoint = BatchEndpoint(Starlette(), proxy, GroupCommit(store), limit, origins=())
    scope: Scope = {"type": "http", "method": "POST", "headers": [], "client": None}
    # In a thread of its own: a test of a browser has a running event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(lambda: asyncio.run(endpoint.take(scope, receive)))
    try:
        answer.result()
    except RuntimeError:
        raise ends[0] from None


class World:
    """A proxy, its server, its clock, its people."""

    def __init__(self, folder: Path, first: SignedManifest | None = None, **changes: object):
        self.folder = folder
        self.clock = self.monotonic = Clock()
        self.people = People()
        self.server = ServerInMemory(first or signed())
        self.settings = settings(folder, **changes)
        self.store = open_store(folder)
        self.proxy = self._proxy()

    def _proxy(self) -> Proxy:
        return Proxy(
            self.store,
            self.server,
            self.settings,
            clock=self.clock,
            monotonic=self.monotonic,
            entropy=Randomness(2),
        )

    @property
    def now(self) -> SignedManifest:
        return self.server.now

    def send(self, n: int) -> list[Batch]:
        """Send the batches of this many people."""
        batches = self.people.batches(self.now, n)
        for batch in batches:
            self.accept(batch)
        return batches

    def accept(self, batch: Batch) -> None:
        accept(self.proxy, batch.encode())

    def close_epoch(self) -> None:
        """Set the clock to the end of the epoch, and close it at the server."""
        self.clock.now = max(self.clock.now, self.now.manifest.closes)
        self.server.states[self.now.manifest.epoch] = "closed"

    def end_epoch(self) -> None:
        """Close the epoch, and let the proxy hand in its reports."""
        self.close_epoch()
        self.proxy.tick()

    def reopen(self) -> None:
        """Open the proxy again, as after a restart."""
        self.store.close()
        self.store = ProxyStore.open(self.folder)
        self.proxy = self._proxy()


def reports_of(sealed: bytes) -> list[bytes]:
    return [sealed[at : at + SEALED_BYTES] for at in range(0, len(sealed), SEALED_BYTES)]


def all_reports(batches: list[Batch]) -> list[bytes]:
    return [report for batch in batches for report in reports_of(batch.sealed)]


def raw_bytes(folder: Path) -> bytes:
    """Return the names and contents of all files in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"\0".join(str(path).encode() + b"\0" + path.read_bytes() for path in files)


def metric(world: World, name: str) -> float:
    """Return a value of `/metrics`."""
    lines = world.proxy.metrics.render().decode().splitlines()
    (value,) = (
        line.rpartition(" ")[2] for line in lines if line.startswith(f"sottovoce_proxy_{name} ")
    )
    return float(value)


@asynccontextmanager
async def serving(world: World, clock: Clock | None = None) -> AsyncIterator[Starlette]:
    """Run the application with its writer and heartbeat."""
    app = build_app(world.proxy, world.settings, clock=clock or Clock(0))
    async with app.router.lifespan_context(app):
        yield app


async def post(app: Starlette, data: bytes, **more: Any) -> Answer:
    """Send a batch as a client does."""
    length = ("content-length", str(len(data)))
    return await ask(app, "POST", "/v2/batches", data, [length], **more)


def within(
    world: World, work: Callable[[Starlette], Coroutine[Any, Any, Any]], clock: Clock | None = None
) -> Any:
    """Return the result of this work with the application of a world."""

    async def main() -> Any:
        async with serving(world, clock) as app:
            return await work(app)

    return asyncio.run(main())


def stored(world: World) -> list[bytes]:
    """Return the reports of each batch that waits."""
    if not is_waiting(world):
        return []
    with world.store.read_batches() as tables:
        return reports_in(tables, "batches")


def dummies(world: World) -> list[bytes]:
    """Return the dummies in the order in which they were drawn; none after the epoch."""
    if not is_waiting(world):
        return []
    with world.store.read_batches() as tables:
        return reports_of(b"".join(reports_in(tables, "dummies")))


def reports_in(tables: BatchTables, table: str) -> list[bytes]:
    rows = tables.connection.execute(f"SELECT sealed FROM {table} ORDER BY rowid")
    return [sealed for (sealed,) in rows]


def is_waiting(world: World) -> bool:
    """Return whether there is a file of batches; it is deleted when its epoch is over."""
    return any(world.folder.glob("epoch-*-batches.sqlite3"))


def count_batches(world: World) -> int:
    """Return the number of batches that wait."""
    return len(stored(world))


MakeWorld = Callable[..., World]
