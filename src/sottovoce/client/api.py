"""The seam to the network: all that a device ever asks of its proxy."""

from __future__ import annotations

from typing import Protocol

from sottovoce.protocol import PublishedSource


class ProxyApi(PublishedSource, Protocol):
    """Nothing in any of these calls says who calls, but the batch, which says it in noise."""

    def send(self, batch: bytes) -> None:
        """Returns when the proxy has it for certain; `ClosedError` when its epoch is over."""
