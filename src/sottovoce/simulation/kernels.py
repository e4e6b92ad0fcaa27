"""Where an engine keeps its code for a mechanism: one module each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from sottovoce.mechanism import Mechanism


def kernel_module(name: str, engine: str, mechanism: Mechanism) -> Any:
    """The module of this name; a `SettingsError` if the engine has none for the mechanism."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(error.name or name):  # something that the kernel needs
            raise
        raise SettingsError(
            f"the {engine} engine has no kernel for {mechanism.name!r}: use the reference engine"
        ) from error
