"""What lies on a card by its name, and kernels that are told where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.simulation.cuda.setup import COUNTS, FIELDS, new_setup

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import DTypeLike, NDArray

    from sottovoce.simulation.cuda.card import Buffer, Card

WAVES = 8
"""Blocks of threads for each processor of a card: enough to hide that memory is slow."""


class Memory:
    """The fields of `Setup` as they are now: numbers, and arrays on the card."""

    def __init__(self, card: Card, **numbers: float):
        self.card = card
        self.numbers: dict[str, float] = numbers
        self._buffers: dict[str, Buffer] = {}

    def put(self, name: str, array: NDArray[Any]) -> None:
        """This array, copied."""
        self._buffers[name] = self.card.upload(np.ascontiguousarray(array))

    def make(self, name: str, size: int, kind: DTypeLike) -> None:
        """Zeros; one at least, so that there is an address."""
        self._buffers[name] = self.card.zeros(max(size, 1), kind)

    def drop(self, name: str) -> None:
        self._buffers.pop(name, None)

    def get(self, name: str) -> NDArray[Any]:
        """A copy of it, here."""
        return self.card.download(self._buffers[name])

    def sort(self, name: str) -> None:
        self.card.sort(self._buffers[name])

    def clear(self) -> None:
        self._buffers.clear()

    def count(self, name: str) -> int:
        """One of the counters."""
        return int(self.get("counts")[COUNTS.index(name)])

    def restart(self, name: str) -> None:
        """Set one of the counters to 0."""
        self._buffers["counts"][COUNTS.index(name)] = 0

    @property
    def blocks(self) -> int:
        """For kernels whose blocks take the next one in line until there is none."""
        return self.card.processors * WAVES

    def run(
        self,
        kernel: str,
        *,
        blocks: int | None = None,
        threads: int | None = None,
        shared: int = 0,
    ) -> None:
        """Launch it; nothing waits for its end but who reads what it wrote."""
        places = {name: self.card.address(buffer) for name, buffer in self._buffers.items()}
        values = {name: value for name, value in (self.numbers | places).items() if name in FIELDS}
        setup = self.card.upload(new_setup(**values).view(np.uint64))
        self.card.launch(kernel, blocks or self.blocks, threads or self.card.threads, shared, setup)
