"""A batch: all that one device says in one epoch, on its way to the proxy. Always the same size.

0    4  "SVB2"
4    4  epoch, little endian
8   32  manifest hash
40  16  batch id, random, for this batch alone
56  64  where reports need tokens: the output of the VOPRF for this id (see `tokens`)
.  52k  the sealed reports
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from sottovoce.errors import ProtocolError
from sottovoce.protocol.sealing import SEALED
from sottovoce.protocol.tokens import OUTPUT, Token

MAGIC = b"SVB2"
HEADER = 56
ID = 16


def batch_size(reports: int, *, accounts: bool = False) -> int:
    """Bytes of a batch of so many reports."""
    return HEADER + OUTPUT * accounts + SEALED * reports


@dataclass(frozen=True)
class Batch:
    """Sealed once, kept, and resent byte for byte: sealing anew would spend the budget anew."""

    epoch: int
    manifest_hash: bytes
    id: bytes
    sealed: bytes
    output: bytes = b""
    """Of its token; empty where none is needed."""

    def encode(self) -> bytes:
        epoch = self.epoch.to_bytes(4, "little")
        return MAGIC + epoch + self.manifest_hash + self.id + self.output + self.sealed

    @classmethod
    def decode(cls, data: bytes, reports: int, *, accounts: bool = False) -> Self:
        """Exactly so many reports, and a token where there are accounts, or a `ProtocolError`."""
        size = batch_size(reports, accounts=accounts)
        if len(data) != size:
            raise ProtocolError(f"batch: {len(data)} bytes; {reports} reports are {size}")
        if data[:4] != MAGIC:
            raise ProtocolError(f"batch: bad magic, expected {MAGIC.decode()}")
        begin = HEADER + OUTPUT * accounts
        epoch, output = int.from_bytes(data[4:8], "little"), data[HEADER:begin]
        return cls(epoch, data[8:40], data[40:HEADER], data[begin:], output)

    @property
    def token(self) -> Token:
        return Token(self.id, self.output)


CHUNK_MAGIC = b"SVC2"
CHUNK_HEADER = 44
MAX_CHUNK_REPORTS = 20_000
"""About a megabyte: what a server reads in one request."""


@dataclass(frozen=True)
class Chunk:
    """Shuffled reports of many people, on their way from a proxy to the server.

    0    4  "SVC2"
    4    4  epoch, little endian
    8   32  manifest hash
    40   4  number of reports n, little endian
    44  52n  the sealed reports
    """

    epoch: int
    manifest_hash: bytes
    sealed: bytes

    @property
    def reports(self) -> int:
        return len(self.sealed) // SEALED

    def encode(self) -> bytes:
        epoch, count = self.epoch.to_bytes(4, "little"), self.reports.to_bytes(4, "little")
        return CHUNK_MAGIC + epoch + self.manifest_hash + count + self.sealed

    @cached_property
    def name(self) -> str:
        """SHA-256 of the encoded bytes: sent again it is known, and counted once."""
        return hashlib.sha256(self.encode()).hexdigest()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Any bytes give a chunk or a `ProtocolError`."""
        if len(data) < CHUNK_HEADER or data[:4] != CHUNK_MAGIC:
            raise ProtocolError(f"chunk: bad magic or too short, expected {CHUNK_MAGIC.decode()}")
        count = int.from_bytes(data[40:CHUNK_HEADER], "little")
        if not 0 < count <= MAX_CHUNK_REPORTS or len(data) != CHUNK_HEADER + SEALED * count:
            raise ProtocolError(
                f"chunk: {len(data)} bytes cannot be {count} reports (1..{MAX_CHUNK_REPORTS})"
            )
        return cls(int.from_bytes(data[4:8], "little"), data[8:40], data[CHUNK_HEADER:])
