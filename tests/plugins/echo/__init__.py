"""An engine: the reference, person by person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.simulation import Engine
    from sottovoce.simulation.parts import Parts
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    """It has none."""


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    from sottovoce.simulation.parted import one_by_one
    from tests.plugins.echo.engine import EchoEngine

    return one_by_one(parts, settings, lambda part: EchoEngine(part, settings))
