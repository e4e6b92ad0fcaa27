"""Compiled reports, a module for each mechanism; see `sottovoce.simulation.cpu.epoch.plug_in`."""

from types import ModuleType

from sottovoce.mechanism import Mechanism
from sottovoce.simulation.kernels import kernel_module


def kernel_of(mechanism: Mechanism) -> ModuleType:
    """The mechanism's kernel, plugged in; a name with a dot in it is a module elsewhere."""
    name = mechanism.kernel if "." in mechanism.kernel else f"{__name__}.{mechanism.kernel}"
    found: ModuleType = kernel_module(name, "cpu", mechanism)
    return found
