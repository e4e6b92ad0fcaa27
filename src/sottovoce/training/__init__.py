"""One training: its settings, the first and the next item matrix, and how to spend a budget."""

from sottovoce.training.budget import Budget
from sottovoce.training.items import (
    compute_next_items,
    inherit_items,
    make_first_items,
    make_items_from_start,
)
from sottovoce.training.names import NameCounts
from sottovoce.training.planning import (
    choose_base_settings,
    list_presets,
    plan_open_ended,
    plan_training,
    plan_without_reports,
)
from sottovoce.training.settings import (
    DEFAULT_PRESET,
    Participation,
    Settings,
    list_basic_presets,
    list_settings,
)

__all__ = [
    "DEFAULT_PRESET",
    "Budget",
    "NameCounts",
    "Participation",
    "Settings",
    "choose_base_settings",
    "compute_next_items",
    "inherit_items",
    "list_basic_presets",
    "list_presets",
    "list_settings",
    "make_first_items",
    "make_items_from_start",
    "plan_open_ended",
    "plan_training",
    "plan_without_reports",
]
