"""A sender of batches over many connections, as fast as a proxy accepts them."""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from sottovoce.protocol import SEALED_BYTES, Batch, routes

REQUEST_HEAD = (
    f"POST {routes.BATCHES} HTTP/1.1\r\nHost: proxy\r\n"
    "Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n"
)


@dataclass(frozen=True)
class Load:
    """What is sent, and to which port."""

    port: int
    batches: int
    connections: int
    epoch: int
    manifest_hash: bytes
    reports: int
    """Reports in a batch."""


@dataclass(frozen=True)
class SendResult:
    """The time that sending took, and the number of accepted batches."""

    seconds: float
    cpu_seconds: float
    """CPU time of the sender. If it is near `seconds`, the sender limits the measured rate."""
    accepted: int


def send(load: Load) -> SendResult:
    """Send all batches."""
    began, cpu = time.perf_counter(), time.process_time()
    accepted = asyncio.run(_send_all(load))
    return SendResult(time.perf_counter() - began, time.process_time() - cpu, accepted)


async def _send_all(load: Load) -> int:
    # The connections share one iterator. Each takes the next batch when its last one is answered.
    remaining = iter(range(load.batches))
    connections = (_send_on_connection(load, remaining) for _ in range(load.connections))
    return sum(await asyncio.gather(*connections))


async def _send_on_connection(load: Load, remaining: Iterator[int]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    accepted = 0
    for _ in remaining:
        # Random bytes instead of sealed reports: a proxy cannot open them anyway.
        sealed = os.urandom(SEALED_BYTES * load.reports)
        body = Batch(load.epoch, load.manifest_hash, os.urandom(16), sealed).encode()
        writer.write(REQUEST_HEAD.format(len(body)).encode() + body)
        status = await reader.readuntil(b"\r\n\r\n")
        accepted += b" 202 " in status.split(b"\r\n", 1)[0]
    writer.close()
    await writer.wait_closed()
    return accepted
