"""An engine: the reference, person by person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.model import Histories
    from sottovoce.simulation import Engine
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    """It has none."""


def build(histories: Histories, settings: Settings, options: Options, first_user: int) -> Engine:
    from tests.plugins.echo.engine import EchoEngine

    return EchoEngine(histories, settings, first_user)
