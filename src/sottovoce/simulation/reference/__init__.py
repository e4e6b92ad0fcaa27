"""The reference as an engine: numpy, no compiler, slow; what all other engines must equal."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.settings import setting
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.people import Parts
from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    batch: int = setting(64, "people computed together", least=1)


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    from sottovoce.simulation.interface import one_by_one
    from sottovoce.simulation.reference.engine import ReferenceEngine

    return one_by_one(parts, settings, lambda part: ReferenceEngine(part, settings, options.batch))
