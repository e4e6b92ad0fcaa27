"""The engine for a graphics card: everything but the loop over epochs runs there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.settings import setting

if TYPE_CHECKING:
    from sottovoce.simulation.interface import Engine
    from sottovoce.simulation.people import People
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    card: int | None = setting(None, "number of the graphics card, as nvidia-smi lists it", least=0)


def build(people: People, settings: Settings, options: Options) -> Engine:
    from sottovoce.simulation.cuda.card import CudaCard
    from sottovoce.simulation.cuda.engine import CudaEngine

    return CudaEngine(people, settings, CudaCard(options.card or 0))
