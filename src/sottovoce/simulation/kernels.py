"""Where an engine keeps its code for a mechanism: a folder with one module each, of its name.

An engine without such a folder asks the mechanism itself, and so computes all of them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from sottovoce.errors import SettingsError


def has_kernel(folder: str, mechanism: str) -> bool:
    return find_spec(f"{folder}.{mechanism}") is not None


def kernel_module(folder: str, mechanism: str) -> ModuleType:
    """The engine's module for the mechanism; a `SettingsError` if it has none."""
    if not has_kernel(folder, mechanism):
        engine = folder.split(".")[-2]
        raise SettingsError(
            f"the {engine} engine has no kernel for {mechanism!r}: use the reference engine"
        )
    return import_module(f"{folder}.{mechanism}")
