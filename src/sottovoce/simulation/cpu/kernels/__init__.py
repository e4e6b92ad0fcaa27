"""Compiled reports, a module for each mechanism; see `sottovoce.simulation.cpu.epoch.plug_in`."""

from types import ModuleType

from sottovoce.core import Mechanism
from sottovoce.simulation.engines import kernel_module


def kernel_of(mechanism: Mechanism) -> ModuleType:
    """The mechanism's kernel, plugged in."""
    return kernel_module(__name__, mechanism.name)
