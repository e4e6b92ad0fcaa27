"""A load of batches: many connections that are kept, each with one batch on its way at a time."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.protocol import SEALED, Batch, routes

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = (
    f"POST {routes.BATCHES} HTTP/1.1\r\nHost: proxy\r\n"
    "Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n"
)


@dataclass(frozen=True)
class Load:
    port: int
    batches: int
    connections: int
    epoch: int
    manifest_hash: bytes
    reports: int
    """In a batch."""


@dataclass(frozen=True)
class Sent:
    seconds: float
    cpu_seconds: float
    """Of whoever sent: far below `seconds`, or the sender was what was measured."""
    accepted: int


def send(load: Load) -> Sent:
    """Send all of it. Reports are random bytes: a proxy cannot open them anyway."""
    began, cpu = time.perf_counter(), time.process_time()
    accepted = asyncio.run(_send(load))
    return Sent(time.perf_counter() - began, time.process_time() - cpu, accepted)


async def _send(load: Load) -> int:
    left = iter(range(load.batches))
    connections = (_connection(load, left) for _ in range(load.connections))
    return sum(await asyncio.gather(*connections))


async def _connection(load: Load, left: Iterator[int]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    accepted = 0
    for _ in left:
        writer.write(_request(load))
        status = await reader.readuntil(b"\r\n\r\n")
        accepted += b" 202 " in status.split(b"\r\n", 1)[0]
    writer.close()
    await writer.wait_closed()
    return accepted


def _request(load: Load) -> bytes:
    sealed = os.urandom(SEALED * load.reports)
    body = Batch(load.epoch, load.manifest_hash, os.urandom(16), sealed).encode()
    return HEAD.format(len(body)).encode() + body
