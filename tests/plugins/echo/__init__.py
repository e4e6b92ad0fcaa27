"""An engine: the reference, person by person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.simulation import Engine
    from sottovoce.simulation.people import People
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    """It has none."""


def build(people: People, settings: Settings, options: Options) -> Engine:
    from tests.plugins.echo.engine import EchoEngine

    return EchoEngine(people, settings)
