"""Attackers in a process of their own: `python -m tests.nightly.live.attackers PLAN`.

PLAN is JSON. The process ends with its input, and prints how often each answer came, as JSON.
"""

import asyncio
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import uvloop

from sottovoce.protocol import SEALED_BYTES, Batch, SignedManifest, routes

HERE = "127.0.0.1"
BEGIN_HEADER = b"GET / HTTP/1.1\r\nX: "
BEGIN_BODY = b"POST /v2/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 160\r\n\r\n"
# Connections over which batches are sent.
N_POSTERS = 12
Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]
Attacks = list[Coroutine[None, None, None]]
Make = Callable[[SignedManifest], Batch]


@dataclass(frozen=True)
class AttackersPlan:
    """The number of simultaneous attacks of each kind on either port, and of batches in all."""

    proxy: int
    server: int
    key: str
    endless: int
    """Headers without an end."""
    slow: int
    """A byte a second of a header; and as many attacks with a body."""
    silent: int
    copies: int
    """Copies of one garbage batch to the proxy, each with its own id."""
    batches: int
    """Other garbage batches, from one address."""
    ramp: float
    """Seconds over which they begin."""

    def encode(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Attackers:
    plan: AttackersPlan
    answers: Counter[str] = field(default_factory=Counter)
    sealed: bytes = b""
    """The sealed reports of the batch that is copied."""

    async def run(self) -> None:
        plan = self.plan
        attacks: Attacks = []
        for port in (plan.proxy, plan.server):
            attacks += self._start(plan.endless, 2, port, _drip(BEGIN_HEADER, 65_536, 0.01))
            attacks += self._start(plan.slow, 3, port, _drip(BEGIN_HEADER, 1, 1.0))
            attacks += self._start(plan.slow, 4, port, _drip(BEGIN_BODY, 1, 1.0))
            attacks += self._start(plan.silent, 5, port, _stay_silent)
        tasks = [asyncio.create_task(attack) for attack in attacks]
        copies = self._post("127.0.6.1", plan.copies, self._make_copy, "copy")
        await asyncio.gather(*copies, *self._post("127.0.7.1", plan.batches, _garbage, "batch"))
        print("all is posted", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, number: int, group: int, port: int, attack: Attack) -> Attacks:
        """Run an attack from addresses that sixty attackers share."""
        return [
            self._repeat(port, f"127.0.{group}.{n // 60 + 1}", attack, self.plan.ramp * n / number)
            for n in range(number)
        ]

    async def _repeat(self, port: int, source: str, attack: Attack, pause: float) -> None:
        """Attack again a second after each disconnection; attackers begin at different moments."""
        while True:
            await asyncio.sleep(pause)
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(HERE, port, local_addr=(source, 0))
                try:
                    await attack(reader, writer)
                finally:
                    writer.close()
            pause = 1.0

    def _post(self, source: str, number: int, make: Make, what: str) -> Attacks:
        return [self._post_some(source, number // N_POSTERS, make, what) for _ in range(N_POSTERS)]

    async def _post_some(self, source: str, number: int, make: Make, what: str) -> None:
        """Send batches as fast as they are answered."""
        sent = 0
        while sent < number:
            await asyncio.sleep(0.01)
            with suppress(OSError, asyncio.IncompleteReadError):
                line = await asyncio.open_connection(HERE, self.plan.proxy, local_addr=(source, 0))
                while sent < number:
                    signed = await self._fetch_manifest(*line)
                    for _ in range(100):
                        status = await _exchange(*line, make(signed).encode())
                        self.answers[f"{what} {status[0]}"] += 1
                        sent += 1

    async def _fetch_manifest(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> SignedManifest:
        _, body = await _exchange(reader, writer)
        return SignedManifest.open(body, bytes.fromhex(self.plan.key))

    def _make_copy(self, signed: SignedManifest) -> Batch:
        self.sealed = self.sealed or _garbage(signed).sealed
        return Batch(signed.manifest.epoch, signed.hash, os.urandom(16), self.sealed)


def _garbage(signed: SignedManifest) -> Batch:
    sealed = os.urandom(SEALED_BYTES * signed.manifest.terms.reports)
    return Batch(signed.manifest.epoch, signed.hash, os.urandom(16), sealed)


def _drip(begin: bytes, size: int, pause: float) -> Attack:
    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while not reader.at_eof():
            writer.write(b"x" * size)
            await writer.drain()
            await asyncio.sleep(pause)

    return attack


async def _stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, batch: bytes | None = None
) -> tuple[int, bytes]:
    """Send one request and return its answer."""
    if batch is None:
        writer.write(f"GET {routes.MANIFEST} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    else:
        head = f"POST {routes.BATCHES} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(batch)}\r\n\r\n"
        writer.write(head.encode() + batch)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = head.partition("content-length: ")[2].partition("\r\n")[0]
    return int(head.split(" ")[1]), await reader.readexactly(int(length or 0))


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attackers = Attackers(AttackersPlan(**json.loads(sys.argv[1])))
    # Leaves more of the machine to the services.
    uvloop.run(attackers.run())
    print(json.dumps(attackers.answers))


if __name__ == "__main__":
    main()
