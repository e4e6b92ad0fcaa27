"""The seam to the network: all that a device ever asks of its proxy."""

from __future__ import annotations

from typing import Protocol


class ProxyApi(Protocol):
    """Nothing in any of these calls says who calls, but the batch, which says it in noise.

    Each raises `UnavailableError` when the same may work later, and `RefusedError` when not.
    """

    def manifest(self) -> bytes:
        """The signed manifest of the epoch, as everybody gets it."""

    def model(self, sha256: bytes, most: int) -> bytes:
        """The model file with this hash; a longer one than `most` is a `ProtocolError`."""

    def catalogue(self, sha256: bytes) -> bytes:
        """The catalogue file with this hash."""

    def send(self, batch: bytes) -> None:
        """Returns when the proxy has it for certain; `ClosedError` when its epoch is over."""
