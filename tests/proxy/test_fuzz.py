"""Many thousand requests that nobody would send on purpose."""

from __future__ import annotations

import asyncio
import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from tests.asgi import Answer, ask
from tests.proxy.world import CATALOGUE, World, serving

REQUESTS = int(os.environ.get("SOTTOVOCE_REQUESTS", "40000"))
PAGE = os.sysconf("SC_PAGE_SIZE")
METHODS = [*["GET", "POST"] * 4, "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "", "\x00"]
STEMS = [
    "/v2/batches", "/v2/batches", "/v2/batches", "/v2/manifest", "/v2/manifests/", "/v2/models/",
    "/v2/catalogues/", "/healthz", "/readyz", "/metrics", "/", "", "*", "//", "/v2/../metrics",
]  # fmt: skip
NAMES = [
    b"content-length", b"transfer-encoding", b"content-type", b"if-none-match", b"host", b"cookie",
    b"content-encoding", b"range", b"expect", b"x-forwarded-for", b"authorization", b"",
]  # fmt: skip
FINE = {200, 202, 304, 400, 404, 405, 409, 413}


class Fuzzer:
    """Half grammar, half noise."""

    def __init__(self, world: World, seed: int):
        self._draw = random.Random(seed)
        self._world = world
        self._known = [batch.encode() for batch in world.people.batches(world.now, 20)]
        manifest = world.now.manifest
        self._tails = [
            "",
            "1",
            "2",
            "0",
            "-1",
            "9" * 30,
            "9" * 5000,
            manifest.model.hex(),
            CATALOGUE.hash.hex(),
        ]

    def path(self) -> str:
        draw = self._draw
        if draw.random() < 0.1:
            return "".join(
                chr(draw.choice([0, 37, 47, 46, 0xD7FF, 0x1F600, 120])) for _ in range(9)
            )
        tail = draw.choice(self._tails) if draw.random() < 0.7 else draw.randbytes(4).hex()
        return draw.choice(STEMS) + (tail if draw.random() < 0.6 else "")

    def headers(self, body: bytes) -> list[tuple[bytes, bytes]]:
        draw = self._draw
        found = [(b"content-length", str(len(body)).encode())] if draw.random() < 0.6 else []
        if draw.random() < 0.1:
            found.append((b"if-none-match", b"*"))
        for _ in range(draw.randrange(4)):
            value = draw.choice(
                [b"", b"0", b"-1", b"1e9", b"9" * 20, b"9" * 6000, b"\xff\xfe", b"chunked", b"*",
                 b'"', b'W/"' + b"," * 50, b"bytes=0-", draw.randbytes(12)]
            )  # fmt: skip
            found.append((draw.choice(NAMES), value))
        return found

    def body(self) -> bytes:
        draw = self._draw
        kind = draw.random()
        if kind < 0.2:
            return draw.randbytes(draw.randrange(400))
        if kind < 0.23:
            return bytes(100_000)
        if kind < 0.25:
            return self._world.people.batch(self._world.now).encode()
        data = bytearray(draw.choice(self._known))
        for _ in range(draw.randrange(3)):
            at = draw.randrange(len(data))
            data[at] ^= draw.randrange(256)
        return bytes(data[: draw.choice([len(data), len(data), draw.randrange(len(data))])])

    def pieces(self, body: bytes) -> list[bytes]:
        cuts = sorted(self._draw.randrange(len(body) + 1) for _ in range(self._draw.randrange(4)))
        edges = [0, *cuts, len(body)]
        return [body[a:b] for a, b in pairwise(edges)]

    def client(self) -> tuple[str, int] | None:
        return self._draw.choice([None, ("", 0), ("192.0.2.1", 1), ("fe80::1%x", 2), (":::", 3)])

    def chance(self, probability: float) -> bool:
        return self._draw.random() < probability

    def method(self) -> str:
        return self._draw.choice(METHODS)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def check(answer: Answer) -> None:
    assert answer.status in FINE, answer
    assert b"Traceback" not in answer.body
    assert b".py" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.status >= 400 and answer.body:
        answer.problem()


@pytest.mark.slow
def test_no_request_breaks_it(world: World) -> None:
    """No exception comes out, no 5xx, no trace of the code; memory stays flat."""
    fuzzer = Fuzzer(world, seed=20_211)
    statuses: dict[int, int] = {}

    async def some(n: int) -> None:
        async with serving(world) as app:
            for _ in range(n):
                body = fuzzer.body()
                answer = await ask(
                    app, fuzzer.method(), fuzzer.path(), headers=fuzzer.headers(body),
                    body=fuzzer.pieces(body), client=fuzzer.client(),
                    hang_up=fuzzer.chance(0.05),
                )  # fmt: skip
                check(answer)
                statuses[answer.status] = statuses.get(answer.status, 0) + 1

    async def main() -> int:
        await some(REQUESTS // 5)
        before = resident()
        await some(REQUESTS - REQUESTS // 5)
        return resident() - before

    grown = asyncio.run(main())
    assert set(statuses) == FINE, statuses
    assert grown < 16 * 1024 * 1024, f"{grown} bytes more"
    with world.store.read() as tables:
        assert tables.count_batches() == world.proxy.intake.waiting > 20
