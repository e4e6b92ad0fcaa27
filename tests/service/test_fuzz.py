"""Random malformed requests break neither a proxy nor a server."""

import asyncio
import json
import logging
import os
import random
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

import tests.proxy.world as proxies
import tests.server.world as servers
from sottovoce.server import build_app
from tests.asgi import Answer, ask

REQUESTS = int(os.environ.get("SOTTOVOCE_REQUESTS", "10000"))
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "", "\x00", "X" * 99]
ODD = [
    "", "0", "-1", "1e9", "9" * 20, "9" * 5000, ".", "..", "%2e", "\x00", "٣", "é", "\ud800", "*",
    "a" * 3000, "chunked", "0" * 64, "W/" + "," * 50, "bytes=0-", "https://evil.example",
]  # fmt: skip
NAMES = [
    "content-length", "transfer-encoding", "content-type", "if-none-match", "host", "cookie",
    "content-encoding", "range", "expect", "x-forwarded-for", "authorization", "origin", "",
]  # fmt: skip
CLIENTS = [None, ("", 0), ("192.0.2.1", 1), ("fe80::1%x", 2), (":::", 3)]
Sane = list[tuple[str, str, bytes]]


class Fuzzer:
    """Requests as they should be, with any part of them damaged or replaced."""

    def __init__(self, sane: Sane, headers: list[tuple[str, str]]):
        self._draw = random.Random(20_211)
        self._sane = sane
        self._headers = headers
        self.statuses: Counter[int] = Counter()

    async def ask(self, app: ASGIApp) -> Answer:
        draw = self._draw
        method, path, body = draw.choice(self._sane)
        headers = [*self._headers, ("content-length", str(len(body)))]
        for damage in draw.sample(["method", "path", "body", "header", "none"], 2):
            if damage == "method":
                method = draw.choice(METHODS)
            elif damage == "path":
                parts = path.split("/")
                parts[draw.randrange(len(parts))] = draw.choice(ODD)
                path = "/".join(parts)
            elif damage == "body":
                at = draw.randrange(len(body) + 1)
                body = body[:at] + draw.randbytes(draw.choice([0, 2, 2, 3, 99])) + body[at + 2 :]
            elif damage == "header":
                headers.insert(0, (draw.choice(NAMES), draw.choice(ODD)))
        cut = draw.randrange(len(body) + 1)
        answer = await ask(
            app, method, path, [body[:cut], body[cut:]], headers, client=draw.choice(CLIENTS),
            hang_up=draw.random() < 0.05,
        )  # fmt: skip
        self.statuses[answer.status] += 1
        assert answer.status < 500, answer
        assert b"Traceback" not in answer.body
        assert b".py" not in answer.body
        return answer

    async def play(self, app: ASGIApp) -> None:
        """Memory stays flat."""
        used = []
        for _ in range(4):
            for _ in range(REQUESTS // 4):
                await self.ask(app)
            used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        assert used[-1] - used[0] < 60, used


@pytest.mark.slow
def test_no_request_breaks_a_proxy(tmp_path: Path) -> None:
    world = proxies.World(tmp_path / "proxy")
    world.proxy.tick()
    manifest = world.now.manifest
    files = ["manifest", "manifests/1", f"models/{manifest.model.hex()}", "nothing"]
    sane: Sane = [("GET", f"/v2/{name}", b"") for name in files]
    sane += [("POST", "/v2/batches", b.encode()) for b in world.people.batches(world.now, 20)]
    fuzzer = Fuzzer(sane, [])

    async def main() -> None:
        async with proxies.serving(world) as app:
            await fuzzer.play(app)

    asyncio.run(main())
    assert {200, 202, 304, 400, 403, 404, 405, 409, 413} <= set(fuzzer.statuses)
    assert len(proxies.stored(world)) == world.proxy.intake.n_waiting >= 20
    world.store.close()


@pytest.mark.slow
def test_no_request_breaks_a_server(tmp_path: Path) -> None:
    logging.getLogger("sottovoce").setLevel(logging.CRITICAL)
    world = servers.World.begin(servers.make_settings(tmp_path, f"sqlite:///{tmp_path / 'db'}"))
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 3)
    commit = {"manifest": signed.hash.hex(), "chunks": 1, "reports": 10**9}  # never right
    contact = {"epoch": 1, "manifest": signed.hash.hex(), "time": 1.0}
    odd: list[Any] = [-1, 2**53, 10**400, 1.5, True, None, "1", [], {}, "\ud800", "short", 5]
    sane = [
        ("GET", "/v2/manifest", b""),
        ("GET", f"/v2/models/{signed.manifest.model.hex()}", b""),
        ("PUT", f"/v2/epochs/1/chunks/{chunk.name}", chunk.encode()),
        ("PUT", f"/v2/epochs/1/chunks/{chunk.name}", bytes(2_000_000)),
        *(("POST", "/v2/contact", json.dumps(contact | {"crowd": o}).encode()) for o in odd),
        *(
            ("POST", "/v2/epochs/1/commit", json.dumps({**commit, "chunks": o}).encode())
            for o in odd
        ),
    ]
    fuzzer = Fuzzer(sane, [("authorization", f"Bearer {servers.SECRETS['east']}")])
    asyncio.run(fuzzer.play(build_app(world.server, world.settings)))
    logging.getLogger("sottovoce").setLevel(logging.NOTSET)
    assert {200, 400, 401, 404, 405, 409, 413} <= set(fuzzer.statuses)
    assert world.get_counts(1) == (1, 3, 0, 0), "the one good chunk counted once"
    world.close()
