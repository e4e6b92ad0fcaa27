"""Catalogues so small that every report can be counted, and two people as unlike as can be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, mechanism_named
from sottovoce.training import Settings
from sottovoce_lab.audit.densities import report_densities

SCALE = 0.01
"""Of V. Small, so that user vectors are large and `coordinate`'s values are clipped to +-1."""
MANY, PAIR = 2000, 2
"""k while sampling: even numbers, since reports are looked at in pairs."""
SLOWER = 100
"""A scene of pairs has so many times fewer reports, or its calls would take all day."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A public V and the two histories that are to be told apart."""

    name: str
    settings: Settings
    V: NDArray[np.float32]
    first: tuple[int, ...]
    second: tuple[int, ...]
    per_call: int = MANY
    """k. Where directions tie, the reports of one call share their order of ties: then a pair."""

    def calls(self, samples: int) -> int:
        """How often to ask each person for about so many reports."""
        fewer = samples if self.per_call == MANY else samples // SLOWER
        return -(-fewer // self.per_call)

    @property
    def n_items(self) -> int:
        return len(self.V)

    def densities(self) -> NDArray[np.float32]:
        """Of every report under both histories, 2 x 2D."""
        both = Histories.from_lists([self.first, self.second], self.n_items)
        return report_densities(self.settings.build(self.n_items), self.settings, self.V, both)


def scenes(settings: Settings) -> list[Scene]:
    """The worst case, where reports are as telling as they may be, two like it, and nobody.

    The people of the first two have vectors of opposite sign, which turns all signs around. Who has
    no history must say nothing at all, and nobody may while the model is nothing; where directions
    tie, code of its own sees to that.
    """
    return [
        _scene("2 items", settings, [[1.0], [-0.6]], (0,), (1,)),
        _scene("4 items", settings, [[1.0], [-0.6], [0.35], [-0.85]], (0, 2), (1, 3)),
        _scene("3 items x 2", settings, [[1.0, 0.3], [-0.6, 0.9], [0.25, -0.7]], (0,), (1, 2)),
        replace(_scene("nobody", settings, [[1.0], [-0.6]], (0,), ()), per_call=PAIR),
        replace(_scene("no model", settings, [[0.0], [0.0]], (0,), (1,)), per_call=PAIR),
    ]


def _scene(
    name: str,
    settings: Settings,
    V: list[list[float]],
    first: tuple[int, ...],
    second: tuple[int, ...],
) -> Scene:
    items = (SCALE * np.asarray(V)).astype(np.float32)
    # The options are for another catalogue.
    changes = {"factors": items.shape[1], "options": mechanism_named(settings.mechanism).example}
    return Scene(name, replace(settings, **changes), items, first, second)
