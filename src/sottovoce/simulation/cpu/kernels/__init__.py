"""Compiled reports, one module for each mechanism: see `sottovoce.simulation.cpu.epoch.plug_in`."""

from types import ModuleType

from sottovoce.core import Mechanism
from sottovoce.simulation.engines import import_kernel_module


def load_kernel(mechanism: Mechanism) -> ModuleType:
    """Import the mechanism's kernel, which plugs itself in."""
    return import_kernel_module(__name__, mechanism.name)
