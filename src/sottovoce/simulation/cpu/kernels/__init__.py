"""Compiled reports, a module for each mechanism; see `sottovoce.simulation.cpu.epoch.plug_in`."""

from types import ModuleType

from sottovoce.core import Mechanism
from sottovoce.simulation.engines import load_kernel


def kernel_of(mechanism: Mechanism) -> ModuleType:
    """The mechanism's kernel, plugged in."""
    return load_kernel(__name__, mechanism.name)
