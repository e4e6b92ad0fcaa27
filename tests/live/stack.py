"""The whole system in one process: real parts over HTTP without sockets; tests call `tick`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from anyio.from_thread import BlockingPortal, start_blocking_portal
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce import proxy as proxies
from sottovoce import server as servers
from sottovoce.client import Client, HttpProxy
from sottovoce.protocol import Batch, SignedManifest, decode_items, seal_reports
from sottovoce.proxy import HttpUpstream, Proxy, Rate
from sottovoce.server import ProxyAccess
from sottovoce.training import Participation
from tests.proxy.world import open_store
from tests.proxy.world import settings as proxy_settings
from tests.server.world import ITEMS, SECRETS, World, make_settings

# How long an epoch waits for its crowd.
HOLD_SECONDS = 1000
PROXY_URL = "https://proxy.example"
SERVER_URL = "https://server.example"


@dataclass
class RecordedRequest:
    """One request, as the application got it."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""

    def to_bytes(self) -> bytes:
        """Return all of its bytes."""
        lines = [b"%s: %s" % header for header in self.headers]
        return b"\n".join([self.method.encode(), self.path.encode(), self.query, *lines, self.body])


class Recorder:
    """Records every request to an application; `answer_instead` may answer it."""

    def __init__(self, app: ASGIApp):
        self._app = app
        self.requests: list[RecordedRequest] = []
        self.answer_instead: Callable[[RecordedRequest], bytes | None] = lambda _: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = RecordedRequest(
            scope["method"], scope["path"], scope["query_string"], list(scope["headers"])
        )
        self.requests.append(request)

        async def receive_and_record() -> Message:
            message = await receive()
            request.body += message.get("body", b"")
            return message

        answer = self.answer_instead(request)
        if answer is None:
            await self._app(scope, receive_and_record, send)
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": answer})


class AppTransport(httpx.BaseTransport):
    """Takes requests of an `httpx.Client` to an application, which runs in a loop's thread."""

    def __init__(self, app: ASGIApp, portal: BlockingPortal, source: tuple[str, int]):
        self._portal = portal
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False, client=source)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._portal.call(self._handle, request)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        body = httpx.ByteStream(await response.aread())
        return httpx.Response(response.status_code, headers=response.headers, stream=body)


@dataclass
class Gate:
    """One proxy, its database, and the way in."""

    name: str
    store: proxies.ProxyStore
    proxy: Proxy
    recorder: Recorder
    http: httpx.Client
    tick: Callable[[], None]

    def make_api(self) -> HttpProxy:
        return HttpProxy(self.http, PROXY_URL)

    def post(self, data: bytes, headers: dict[str, str] | None = None) -> int:
        """Send a batch as anybody could, and return the status."""
        return self.http.post(f"{PROXY_URL}/v2/batches", content=data, headers=headers).status_code

    def get_signed(self) -> SignedManifest:
        signed = self.proxy.manifest
        assert signed is not None
        return signed


class Stack:
    """A server, its proxies, and one clock for all of them."""

    def __init__(self, folder: Path, opened: ExitStack, names: tuple[str, ...], **changes: Any):
        proxies = {name: ProxyAccess(_hash_secret(name)) for name in names}
        url = f"sqlite:///{folder / 'server.sqlite'}"
        proxy_changes = {
            name: changes.pop(name)
            for name in ("chunk_reports", "source", "accounts_key")
            if name in changes
        }
        least = changes.pop("min_clients", 1)
        changes.setdefault("terms", Participation(min_clients=least, hold=HOLD_SECONDS))
        self.folder = folder
        self._opened = opened
        self.ahead = {"server": 0.0, "device": 0.0, **dict.fromkeys(names, 0.0)}
        """Seconds by which a clock is wrong."""
        now = changes.pop("now", 1_000.0)
        settings = make_settings(folder, url, proxies=proxies, **changes)
        is_new = not (folder / "server.sqlite").exists()
        self.world = (World.begin if is_new else World)(settings, now=now)
        self.world.server._clock = lambda: self.read_clock("server")
        opened.callback(self.world.close)
        self.tick = detach_tick(self.world.server)
        self.tick()
        self._portal = opened.enter_context(start_blocking_portal())
        app = servers.build_app(self.world.server, self.world.settings)
        self.recorder, self.http = self._serve(app, ("192.0.2.2", 50_001))
        self.gates = {name: self._open_gate(name, **proxy_changes) for name in names}
        for gate in self.gates.values():
            gate.tick()

    def read_clock(self, whose: str = "device") -> float:
        return self.world.now + self.ahead[whose]

    def add_client(self, name: str, items: list[str]) -> Client:
        """Return a device whose owner accepted the current terms; it is closed with the stack."""
        client = Client.create(
            self.folder / "clients" / name,
            proxy_url=PROXY_URL,
            verification_key=self.world.keys.verification_key,
            limit=1e6,
            clock=self.read_clock,
            monotonic=lambda: self.world.now,
        )
        client.record(items)
        client.accept(self.world.get_signed().manifest.terms, 1e6)
        return self._opened.enter_context(client)

    def end_epoch(self, *, crowd: bool = True) -> int:
        """Go to the end of the open epoch and into the next one."""
        signed = self.world.get_signed()
        self.world.now = signed.manifest.closes if crowd else signed.manifest.ends
        self.hand_in()
        assert self.world.get_signed().manifest.epoch == signed.manifest.epoch + 1
        return signed.manifest.epoch

    def hand_in(self) -> None:
        """Let every part do what is due: contact and close, flush and apply, mirror."""
        for _ in range(3):
            self.tick()
            for gate in self.gates.values():
                gate.tick()

    def load_model(self) -> NDArray[np.float32]:
        """Return the published V."""
        manifest = self.world.get_signed().manifest
        content = self.world.server.get_file(manifest.model, "model")
        assert content is not None
        return decode_items(content, ITEMS, manifest.terms.factors)

    def make_batch(self, gate: Gate, reports: NDArray[np.uint32], name: bytes) -> Batch:
        """Return a batch for the epoch that this proxy shows, sealed as a device does."""
        signed = gate.get_signed()
        assert signed.manifest.public_key is not None
        data = seal_reports(reports, signed.manifest.public_key, signed.hash)
        return Batch(signed.manifest.epoch, signed.hash, name, data)

    def make_random_batch(self, gate: Gate, seed: int) -> Batch:
        rng = np.random.default_rng(seed)
        manifest = gate.get_signed().manifest
        reports = rng.integers(0, 2 * manifest.build().n_directions, manifest.terms.reports)
        return self.make_batch(gate, reports.astype(np.uint32), rng.bytes(16))

    def _open_gate(
        self,
        name: str,
        *,
        chunk_reports: int = 97,
        source: tuple[str, int] = ("192.0.2.1", 50_000),
        accounts_key: str | None = None,
    ) -> Gate:
        folder = self.folder / name
        settings = proxy_settings(
            folder,
            verification_key=self.world.keys.verification_key.hex(),
            chunk_reports=chunk_reports,
            poll_seconds=3600,
            rate=Rate(batches_per_minute=0, per_epoch=0),
            accounts_key=accounts_key,
        )
        store = self._opened.enter_context(open_store(folder))
        upstream = HttpUpstream(self.http, SERVER_URL, SECRETS[name])
        clock = partial(self.read_clock, name)
        proxy = Proxy(store, upstream, settings, clock=clock, monotonic=clock)
        tick = detach_tick(proxy)
        app = proxies.build_app(proxy, settings)
        recorder, http = self._serve(app, source)
        return Gate(name, store, proxy, recorder, http, tick)

    def _serve(self, app: Starlette, source: tuple[str, int]) -> tuple[Recorder, httpx.Client]:
        """Run an application with its writer and heartbeat; return a client that reaches it."""
        lifespan = app.router.lifespan_context(app)
        self._opened.enter_context(self._portal.wrap_async_context_manager(lifespan))
        recorder = Recorder(app)
        http = httpx.Client(transport=AppTransport(recorder, self._portal, source))
        return recorder, self._opened.enter_context(http)


@contextmanager
def run_stack(folder: Path, *names: str, **changes: Any) -> Iterator[Stack]:
    """Run a stack with these proxies."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as opened:
        yield Stack(folder, opened, names or ("east",), **changes)


def _hash_secret(name: str) -> str:
    return sha256(SECRETS[name].encode()).hexdigest()


def detach_tick(part: Any) -> Callable[[], None]:
    """Switch off the application's heartbeat: tests call `tick` themselves."""
    tick: Callable[[], None] = part.tick
    part.tick = lambda: None
    return tick
