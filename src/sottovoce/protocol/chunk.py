"""A chunk: shuffled reports of many people, on their way from a proxy to the server.

    0    4  "SVC2"
    4    4  epoch, little endian
    8   32  manifest hash
    40   4  number of reports n, little endian
    44  52n  the sealed reports

Its name is the SHA-256 of these bytes: sent again it is known, and counted once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError
from sottovoce.protocol.sealing import SEALED

if TYPE_CHECKING:
    from typing import Self

MAGIC = b"SVC2"
HEADER = 44
MAX_CHUNK_REPORTS = 20_000
"""About a megabyte: what a server reads in one request."""


@dataclass(frozen=True)
class Chunk:
    """A run of sealed reports whose order says nothing."""

    epoch: int
    manifest_hash: bytes
    sealed: bytes

    @property
    def reports(self) -> int:
        return len(self.sealed) // SEALED

    def encode(self) -> bytes:
        epoch, count = self.epoch.to_bytes(4, "little"), self.reports.to_bytes(4, "little")
        return MAGIC + epoch + self.manifest_hash + count + self.sealed

    @cached_property
    def name(self) -> str:
        """SHA-256 of the encoded bytes, in hexadecimal."""
        return hashlib.sha256(self.encode()).hexdigest()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Any bytes give a chunk or a `ProtocolError`."""
        if len(data) < HEADER or data[:4] != MAGIC:
            raise ProtocolError(f"chunk: bad magic or too short, expected {MAGIC.decode()}")
        count = int.from_bytes(data[40:HEADER], "little")
        if not 0 < count <= MAX_CHUNK_REPORTS or len(data) != HEADER + SEALED * count:
            raise ProtocolError(
                f"chunk: {len(data)} bytes cannot be {count} reports (1..{MAX_CHUNK_REPORTS})"
            )
        return cls(int.from_bytes(data[4:8], "little"), data[8:40], data[HEADER:])
