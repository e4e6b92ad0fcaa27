"""One training: its settings, the first and the next item matrix, and how to spend a budget."""

from sottovoce.training.items import first_items, inherited_items, next_items
from sottovoce.training.planning import Budget, all_presets, planned, planned_without_end, unplanned
from sottovoce.training.settings import DEFAULT, Participation, Settings, all_settings, presets

__all__ = [
    "DEFAULT",
    "Budget",
    "Participation",
    "Settings",
    "all_presets",
    "all_settings",
    "first_items",
    "inherited_items",
    "next_items",
    "planned",
    "planned_without_end",
    "presets",
    "unplanned",
]
