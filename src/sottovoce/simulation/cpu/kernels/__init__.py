"""Compiled reports, a module for each mechanism; see `sottovoce.simulation.cpu.epoch.plug_in`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sottovoce.simulation.kernels import kernel_module

if TYPE_CHECKING:
    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.cpu.work import Work


class Kernel(Protocol):
    """What a kernel's module has, beside what it plugs in when it is imported."""

    def work(self, histories: Histories, mechanism: Mechanism, reports: int) -> Work:
        """Its operations in one epoch, counted from the algorithm."""


def kernel_of(mechanism: Mechanism) -> Kernel:
    """The mechanism's kernel, plugged in."""
    found: Kernel = kernel_module(__name__, mechanism.name)
    return found
