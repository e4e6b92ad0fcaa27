"""The batch: all reports of one device in one epoch, as sent to the proxy. Its size is fixed.

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
from sottovoce.protocol.sealing import SEALED_BYTES
from sottovoce.protocol.tokens import OUTPUT_BYTES, Token

# The first bytes of a batch, which name its format.
BATCH_MAGIC = b"SVB2"
# Magic, epoch, manifest hash and batch id.
BATCH_HEADER_BYTES = 56
BATCH_ID_BYTES = 16


def batch_size(reports: int, *, accounts: bool = False) -> int:
    """Return the size in bytes of a batch with this many reports."""
    return BATCH_HEADER_BYTES + OUTPUT_BYTES * accounts + SEALED_BYTES * reports


@dataclass(frozen=True)
class Batch:
    """Sealed reports of one device, which are stored and sent again byte for byte.

    Reports that were randomised again would spend the budget again.
    """

    epoch: int
    manifest_hash: bytes
    id: bytes
    sealed: bytes
    output: bytes = b""
    """Output of the batch's token; empty if reports need no token."""

    def encode(self) -> bytes:
        epoch = self.epoch.to_bytes(4, "little")
        return BATCH_MAGIC + epoch + self.manifest_hash + self.id + self.output + self.sealed

    @classmethod
    def decode(cls, data: bytes, reports: int, *, accounts: bool = False) -> Self:
        """Parse a batch; raise a `ProtocolError` unless it has the size of this many reports."""
        size = batch_size(reports, accounts=accounts)
        if len(data) != size:
            raise ProtocolError(f"batch: {len(data)} bytes; {reports} reports need {size}")
        if data[:4] != BATCH_MAGIC:
            raise ProtocolError(f"batch: bad magic, expected {BATCH_MAGIC.decode()}")
        begin = BATCH_HEADER_BYTES + OUTPUT_BYTES * accounts
        epoch, output = int.from_bytes(data[4:8], "little"), data[BATCH_HEADER_BYTES:begin]
        return cls(epoch, data[8:40], data[40:BATCH_HEADER_BYTES], data[begin:], output)

    @property
    def token(self) -> Token:
        return Token(self.id, self.output)


CHUNK_MAGIC = b"SVC2"
CHUNK_HEADER_BYTES = 44
# About a megabyte, the size of the largest request that a server reads.
MAX_CHUNK_REPORTS = 20_000


@dataclass(frozen=True)
class Chunk:
    """Shuffled reports of many people, as a proxy sends them to the server.

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
        return len(self.sealed) // SEALED_BYTES

    def encode(self) -> bytes:
        epoch, count = self.epoch.to_bytes(4, "little"), self.reports.to_bytes(4, "little")
        return CHUNK_MAGIC + epoch + self.manifest_hash + count + self.sealed

    @cached_property
    def name(self) -> str:
        """SHA-256 of the encoded bytes, by which a server recognises a chunk that it has."""
        return hashlib.sha256(self.encode()).hexdigest()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a chunk; raise a `ProtocolError` if it is malformed."""
        if len(data) < CHUNK_HEADER_BYTES or data[:4] != CHUNK_MAGIC:
            raise ProtocolError(f"chunk: bad magic or too short, expected {CHUNK_MAGIC.decode()}")
        count = int.from_bytes(data[40:CHUNK_HEADER_BYTES], "little")
        if (
            not 0 < count <= MAX_CHUNK_REPORTS
            or len(data) != CHUNK_HEADER_BYTES + SEALED_BYTES * count
        ):
            raise ProtocolError(
                f"chunk: {len(data)} bytes cannot be {count} reports (1..{MAX_CHUNK_REPORTS})"
            )
        return cls(int.from_bytes(data[4:8], "little"), data[8:40], data[CHUNK_HEADER_BYTES:])
