"""Very many requests that nobody would send on purpose, and some that one would."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import random
import resource
from collections import Counter
from typing import Any

import pytest

from sottovoce.protocol import Chunk
from sottovoce.server import build_app
from tests.asgi import ask
from tests.server.world import SECRETS, MakeWorld, World, chunk_of, sealed

REQUESTS = int(os.environ.get("SOTTOVOCE_REQUESTS", "20000"))

AT_ONCE = 50

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "", "X" * 99]

WEIRD: list[Any] = [-1, 2**53, 10**400, 1.5, True, None, "1", [], {}, "\ud800", "x" * 5000]


class Mischief:
    """Generates requests: valid ones, damaged ones, noise."""

    def __init__(self, world: World, seed: int):
        self.random = random.Random(seed)
        self.signed = world.closed()
        base = sealed(world.reports(3), self.signed)
        self.chunk = chunk_of(base, self.signed)
        self.words = [
            "1", "2", "0", "-1", "9" * 20, "٣", "", ".", "..", "%2e", "\x00", "é", "a" * 3000,
            self.chunk.name, self.chunk.name.upper(), "0" * 64, self.signed.hash.hex(),
            self.signed.manifest.model.hex(), self.signed.manifest.catalogue.hex(),
            "waiting", "chunks", "commit", "epochs", "models", "v2", "manifest", "\ud800",
        ]  # fmt: skip

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def request(self) -> tuple[str, str, list[bytes], list[tuple[str | bytes, str | bytes]]]:
        method, path, body = self.one_of(self.sane, self.sane, self.damaged, self.noise)()
        return method, path, self.cut(body), self.headers(body)

    def sane(self) -> tuple[str, str, bytes]:
        if self.random.random() < 0.1:
            return self.forged()
        name = self.one_of(self.chunk.name, "0" * 64)
        epoch = self.one_of("1", "1", "1", "2", "77")
        match self.random.randrange(6):
            case 0:
                return "GET", "/v2/manifest", b""
            case 1:
                return "GET", f"/v2/models/{self.one_of(*self.words)}", b""
            case 2:
                return "GET", f"/v2/catalogues/{self.one_of(*self.words)}", b""
            case 3:
                return "POST", f"/v2/epochs/{epoch}/waiting", self.waiting()
            case 4:
                return "POST", f"/v2/epochs/{epoch}/commit", self.commit()
            case _:
                return "PUT", f"/v2/epochs/{epoch}/chunks/{name}", self.chunk.encode()

    def forged(self) -> tuple[str, str, bytes]:
        """A chunk with a right name and anything inside."""
        data = self.random.randbytes(52 * self.random.randrange(1, 3))
        chunk = Chunk(
            self.one_of(1, 1, 2, 2**32 - 1), self.one_of(self.signed.hash, bytes(32)), data
        )
        raw = self.one_of(chunk.encode, lambda: self.flip(chunk.encode()))()
        return "PUT", f"/v2/epochs/1/chunks/{hashlib.sha256(raw).hexdigest()}", raw

    def waiting(self) -> bytes:
        return json.dumps({"crowd": self.one_of("none", "short", "enough", self.value())}).encode()

    def commit(self) -> bytes:
        content = {
            "manifest": self.one_of(self.signed.hash.hex(), "0" * 64, self.value()),
            "chunks": self.value(),
            "reports": self.one_of(10**9, *WEIRD),  # never right: chunks must go on being taken
        }
        return json.dumps(content).encode()

    def value(self) -> Any:
        return self.one_of(1, 5, *WEIRD)

    def damaged(self) -> tuple[str, str, bytes]:
        method, path, body = self.sane()
        which = self.random.randrange(3)
        if which == 0:
            method = self.one_of(*METHODS)
        elif which == 1:
            at = self.random.randrange(len(path))
            path = path[:at] + self.one_of(*self.words) + path[at + self.random.randrange(3) :]
        else:
            body = self.flip(body)
        return method, path, body

    def flip(self, body: bytes) -> bytes:
        at = self.random.randrange(len(body) + 1)
        rest = body[at + self.random.randrange(4) :]
        return body[:at] + self.random.randbytes(self.random.randrange(4)) + rest

    def noise(self) -> tuple[str, str, bytes]:
        words = "/".join(self.one_of(*self.words) for _ in range(self.random.randrange(6)))
        body = self.random.randbytes(self.random.randrange(40))
        return self.one_of(*METHODS), "/" + words, body

    def cut(self, body: bytes) -> list[bytes]:
        at = self.random.randrange(len(body) + 1)
        return [body[:at], body[at:]]

    def headers(self, body: bytes) -> list[tuple[str | bytes, str | bytes]]:
        secret = self.one_of(*SECRETS.values())
        given: list[tuple[str | bytes, str | bytes]] = []
        if self.random.random() < 0.9:
            kind = self.one_of("Bearer", "Bearer", "Bearer", "bearer", "Basic", "")
            given.append(("authorization", f"{kind} {self.one_of(secret, secret, secret, 'no')}"))
        if self.random.random() < 0.5:
            length = self.one_of(str(len(body)), str(len(body)), "-1", "x", "9" * 5000, "², 3", "")
            given.append(("content-length", length))
        if self.random.random() < 0.3:
            name = self.one_of("if-none-match", "content-type", "host", "expect", "range", "cookie")
            given.append((name, self.one_of('"x"', "*", self.random.randbytes(9), "multipart/x")))
        return given


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
def test_no_request_breaks_it(make_world: MakeWorld, sqlite_url: str) -> None:
    logging.getLogger("sottovoce").setLevel(logging.CRITICAL)
    world = make_world(sqlite_url)
    mischief = Mischief(world, seed=1)
    app = build_app(world.server, world.settings)
    statuses: Counter[int] = Counter()
    used: list[float] = []

    async def worker(number: int) -> None:
        for _ in range(number):
            method, path, body, headers = mischief.request()
            statuses[(await ask(app, method, path, body, headers)).status] += 1

    async def everything() -> None:
        for _ in range(4):
            share = REQUESTS // 4 // AT_ONCE
            await asyncio.gather(*(worker(share) for _ in range(AT_ONCE)))
            used.append(megabytes())

    asyncio.run(everything())
    logging.getLogger("sottovoce").setLevel(logging.NOTSET)
    assert statuses.total() == REQUESTS
    assert all(status < 500 for status in statuses), statuses
    assert {200, 400, 401, 404, 405, 409, 413} <= set(statuses), statuses
    assert used[-1] - used[0] < 60, used
    chunks, reports, _, _ = world.counts(1)
    assert reports == 3, "the one good chunk counted once, the forged ones not at all"
    assert chunks > REQUESTS // 1000
