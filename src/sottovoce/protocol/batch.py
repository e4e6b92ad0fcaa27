"""A batch: all that one device says in one epoch, on its way to the proxy. Always the same size.

0    4  "SVB2"
4    4  epoch, little endian
8   32  manifest hash
40  16  batch id, random, for this batch alone
56  52k  the sealed reports
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError
from sottovoce.protocol.sealing import SEALED

if TYPE_CHECKING:
    from typing import Self

MAGIC = b"SVB2"
HEADER = 56
ID = 16


def batch_size(reports: int) -> int:
    """Bytes of a batch of so many reports."""
    return HEADER + SEALED * reports


@dataclass(frozen=True)
class Batch:
    """Sealed once, kept, and resent byte for byte: sealing anew would spend the budget anew."""

    epoch: int
    manifest_hash: bytes
    id: bytes
    sealed: bytes

    def encode(self) -> bytes:
        epoch = self.epoch.to_bytes(4, "little")
        return MAGIC + epoch + self.manifest_hash + self.id + self.sealed

    @classmethod
    def decode(cls, data: bytes, reports: int) -> Self:
        """Exactly so many reports, or a `ProtocolError`."""
        if len(data) != batch_size(reports):
            raise ProtocolError(
                f"batch: {len(data)} bytes; {reports} reports are {batch_size(reports)}"
            )
        if data[:4] != MAGIC:
            raise ProtocolError(f"batch: bad magic, expected {MAGIC.decode()}")
        return cls(int.from_bytes(data[4:8], "little"), data[8:40], data[40:HEADER], data[HEADER:])
