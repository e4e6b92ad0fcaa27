"""One training: its settings, the first and the next item matrix, and how to spend a budget."""

from sottovoce.training.items import first_items, next_items
from sottovoce.training.settings import PAPER, PRESETS, Settings

__all__ = ["PAPER", "PRESETS", "Settings", "first_items", "next_items"]
