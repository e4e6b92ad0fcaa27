"""The batch, which has all reports of one device in one epoch, and the chunk of shuffled reports.

A device sends a batch to its proxy. All batches of an epoch have the same size. The columns are
offset, size in bytes, and content. A dot stands for the offset at which the previous field ends:

0    4  "SVB2"
4    4  epoch, little endian
8   32  manifest hash
40  16  batch id, drawn at random for this batch
56  64  output of the VOPRF for the batch id (see `tokens`); absent if reports need no token
.  52k  k sealed reports
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
# Size of magic, epoch, manifest hash and batch id.
BATCH_HEADER_BYTES = 56
BATCH_ID_BYTES = 16


def batch_size(reports: int, *, accounts: bool = False) -> int:
    """Return the size in bytes of a batch.

    Args:
        reports: The number of reports in the batch.
        accounts: Whether reports need an account, so that the batch has a token.
    """
    return BATCH_HEADER_BYTES + OUTPUT_BYTES * accounts + SEALED_BYTES * reports


@dataclass(frozen=True)
class Batch:
    """The sealed reports of one device in one epoch.

    A device that sends a batch again sends the same bytes. If it randomised its reports again, it
    would spend the budget again.
    """

    epoch: int
    manifest_hash: bytes
    id: bytes
    """Random bytes by which the proxy recognises a batch that it has already."""
    sealed: bytes
    """The sealed reports, one after the other."""
    output: bytes = b""
    """Output of the batch's token; empty if reports need no token."""

    def encode(self) -> bytes:
        epoch = self.epoch.to_bytes(4, "little")
        return BATCH_MAGIC + epoch + self.manifest_hash + self.id + self.output + self.sealed

    @classmethod
    def decode(cls, data: bytes, reports: int, *, accounts: bool = False) -> Self:
        """Parse a batch.

        Args:
            data: The bytes of the batch.
            reports: The number of reports that the batch must have.
            accounts: Whether the batch must have a token.

        Raises:
            ProtocolError: The batch has another size, or does not begin with the magic.
        """
        size = batch_size(reports, accounts=accounts)
        if len(data) != size:
            raise ProtocolError(f"batch: {reports} reports must have {size} bytes, not {len(data)}")
        if data[:4] != BATCH_MAGIC:
            raise ProtocolError(f"batch: it must begin with {BATCH_MAGIC.decode()}")
        begin = BATCH_HEADER_BYTES + OUTPUT_BYTES * accounts
        epoch, output = int.from_bytes(data[4:8], "little"), data[BATCH_HEADER_BYTES:begin]
        return cls(epoch, data[8:40], data[40:BATCH_HEADER_BYTES], data[begin:], output)

    @property
    def token(self) -> Token:
        return Token(self.id, self.output)


CHUNK_MAGIC = b"SVC2"
CHUNK_HEADER_BYTES = 44
# A chunk with this many reports has about one megabyte. A server reads no larger request.
MAX_CHUNK_REPORTS = 20_000


@dataclass(frozen=True)
class Chunk:
    """Shuffled sealed reports of many people, as a proxy sends them to the server.

    The columns are offset, size in bytes, and content:

    0    4  "SVC2"
    4    4  epoch, little endian
    8   32  manifest hash
    40   4  n, the number of reports, little endian
    44 52n  n sealed reports
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
        """SHA-256 of the encoded chunk, by which a server recognises a chunk that came before."""
        return hashlib.sha256(self.encode()).hexdigest()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a chunk; raise a `ProtocolError` if it is malformed."""
        if len(data) < CHUNK_HEADER_BYTES or data[:4] != CHUNK_MAGIC:
            raise ProtocolError(
                f"chunk: it must begin with {CHUNK_MAGIC.decode()} and contain a header"
            )
        count = int.from_bytes(data[40:CHUNK_HEADER_BYTES], "little")
        if (
            not 0 < count <= MAX_CHUNK_REPORTS
            or len(data) != CHUNK_HEADER_BYTES + SEALED_BYTES * count
        ):
            raise ProtocolError(
                f"chunk: {len(data)} bytes cannot have {count} reports; a chunk must have "
                f"1..{MAX_CHUNK_REPORTS} reports of {SEALED_BYTES} bytes"
            )
        return cls(int.from_bytes(data[4:8], "little"), data[8:40], data[CHUNK_HEADER_BYTES:])
