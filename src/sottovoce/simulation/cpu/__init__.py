"""The engine for one machine: loops compiled by numba on all its cores."""

from dataclasses import dataclass

from sottovoce.settings import setting
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.population import Parts
from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    threads: int | None = setting(
        None, "number of CPU threads", min_value=1, none_meaning="one for each core"
    )


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    # Imported here, because numba takes a second to import.
    from sottovoce.simulation.cpu.engine import CpuEngine
    from sottovoce.simulation.interface import build_local_engine

    return build_local_engine(
        parts, settings, lambda part: CpuEngine(part, settings, options.threads)
    )
