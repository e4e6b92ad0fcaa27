"""The engine for a graphics card. Everything except the loop over epochs runs on the card."""

from dataclasses import dataclass

from sottovoce.settings import setting
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.population import Parts
from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    card: int | None = setting(
        None,
        "number of the graphics card, as nvidia-smi lists it",
        min_value=0,
        none_meaning="the first",
    )


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    # Imported here, so that a list of engines does not load CuPy.
    from sottovoce.simulation.cuda.card import CudaCard
    from sottovoce.simulation.cuda.engine import CudaEngine
    from sottovoce.simulation.interface import build_local_engine

    card = CudaCard(options.card or 0)
    return build_local_engine(parts, settings, lambda part: CudaEngine(part, settings, card))
