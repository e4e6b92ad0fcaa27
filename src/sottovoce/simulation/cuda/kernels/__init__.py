"""Reports on a card, a module for each mechanism."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism
from sottovoce.simulation.cuda.memory import Memory
from sottovoce.simulation.engines import kernel_module


class Kernel(Protocol):
    """What such a module has; a mechanism's own class, where one is taken, is the module's."""

    SOURCE: str
    """Its file in `source/`."""

    def allocate(self, memory: Memory, mechanism: Any, histories: Histories) -> None:
        """What it needs on the card as long as the engine lives."""

    def prepare(self, memory: Memory, mechanism: Any, V: NDArray[np.float32]) -> None:
        """What it needs of an epoch, whose V is on the card."""

    def report(self, memory: Memory) -> None:
        """Add the reports of all who are looking, whose vectors are solved."""

    def sums_by_item(self, memory: Memory, mechanism: Any, n_reports: int) -> float:
        """The sums of signs by item and factor, into `wide`; what to multiply them by."""


def kernel_of(mechanism: Mechanism) -> Kernel:
    found: Kernel = kernel_module(__name__, mechanism.name)
    return found
