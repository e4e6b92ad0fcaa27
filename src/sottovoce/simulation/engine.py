"""Which engines there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from sottovoce.model import Histories
    from sottovoce.simulation.interface import Engine
    from sottovoce.training import Settings

ENGINES = ("cpu",)
PLANNED = ("cuda", "ray")


def check_engine(name: str) -> None:
    """Refuse an engine that is not there."""
    if name in ENGINES:
        return
    if name in PLANNED:
        raise SettingsError(f"the {name} engine is not built yet; use --engine cpu")
    raise SettingsError(f"no engine {name!r}; there is {', '.join(ENGINES)}")


def build_engine(
    name: str, histories: Histories, settings: Settings, threads: int | None = None
) -> Engine:
    """The engine of that name over these users."""
    check_engine(name)
    # Here and not above: numba takes a second to import, and only this needs it.
    from sottovoce.simulation.cpu.engine import CpuEngine

    return CpuEngine(histories, settings, threads=threads)
