"""Scenes: pairs of histories that an audit tries to tell apart.

Catalogues are small enough to count every report, and the two people are as different as possible.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, get_mechanism
from sottovoce.training import Settings
from sottovoce_lab.audit.densities import compute_report_densities

# Scale of V. It is small, so user vectors are large and `coordinate` clips its values to +-1.
ITEM_SCALE = 0.01
# Number of reports that a client makes in one call. It is even, because reports are compared in
# pairs.
REPORTS_PER_CALL = 2000
# The same in scenes in which all directions tie. It is even, too.
REPORTS_PER_SHORT_CALL = 2
# In a scene of short calls, the number of reports is divided by this. Otherwise its calls would
# take a day.
SHORT_CALL_REDUCTION = 100


@dataclass(frozen=True, eq=False)
class Scene:
    """A public V and two histories that an attacker would like to tell apart."""

    name: str
    settings: Settings
    V: NDArray[np.float32]
    first: tuple[int, ...]
    second: tuple[int, ...]
    reports_per_call: int = REPORTS_PER_CALL
    """Reports in a call. The reports of one call break ties in the same way, so scenes with ties
    have calls of two reports."""

    def count_calls(self, samples: int) -> int:
        """Return the number of calls that make about this number of reports of each person."""
        if self.reports_per_call != REPORTS_PER_CALL:
            samples //= SHORT_CALL_REDUCTION
        return -(-samples // self.reports_per_call)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.V)

    def compute_densities(self) -> NDArray[np.float32]:
        """Return the density of every report under both histories, 2 x 2D."""
        people = Histories.from_lists([self.first, self.second], self.n_items)
        mechanism = self.settings.build(self.n_items)
        return compute_report_densities(mechanism, self.settings, self.V, people)


def list_scenes(settings: Settings) -> list[Scene]:
    """Return the scenes of an audit with these settings."""
    return [
        # The worst case: the vectors of the two people have opposite signs, so their reports have
        # opposite signs, too.
        _make_scene("2 items", settings, [[1.0], [-0.6]], (0,), (1,)),
        _make_scene("4 items", settings, [[1.0], [-0.6], [0.35], [-0.85]], (0, 2), (1, 3)),
        _make_scene("3 items x 2", settings, [[1.0, 0.3], [-0.6, 0.9], [0.25, -0.7]], (0,), (1, 2)),
        # All directions tie for a person without a history, and for everybody without a model:
        # separate code must then make uniform reports.
        _make_scene("nobody", settings, [[1.0], [-0.6]], (0,), (), REPORTS_PER_SHORT_CALL),
        _make_scene("no model", settings, [[0.0], [0.0]], (0,), (1,), REPORTS_PER_SHORT_CALL),
    ]


def _make_scene(
    name: str,
    settings: Settings,
    V: list[list[float]],
    first: tuple[int, ...],
    second: tuple[int, ...],
    reports_per_call: int = REPORTS_PER_CALL,
) -> Scene:
    items = (ITEM_SCALE * np.asarray(V)).astype(np.float32)
    # Options of the given settings may not fit such a small catalogue.
    options = get_mechanism(settings.mechanism).example
    settings = replace(settings, factors=items.shape[1], options=options)
    return Scene(name, settings, items, first, second, reports_per_call)
