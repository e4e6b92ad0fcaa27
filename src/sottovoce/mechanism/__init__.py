"""One report: directions, rounding, coin, estimate. The reference, in numpy, batch first."""

from sottovoce.mechanism.base import WORDS_PER_DRAW, Mechanism, Shape, sum_signs
from sottovoce.mechanism.coordinate import Coordinate
from sottovoce.mechanism.entropy import os_words
from sottovoce.mechanism.hadamard import Hadamard
from sottovoce.mechanism.learning import first_items, next_items
from sottovoce.mechanism.loudest import Loudest
from sottovoce.mechanism.rotation import Rotation
from sottovoce.mechanism.settings import MECHANISMS, PAPER, PRESETS, MechanismName, Settings

__all__ = [
    "MECHANISMS",
    "PAPER",
    "PRESETS",
    "WORDS_PER_DRAW",
    "Coordinate",
    "Hadamard",
    "Loudest",
    "Mechanism",
    "MechanismName",
    "Rotation",
    "Settings",
    "Shape",
    "first_items",
    "next_items",
    "os_words",
    "sum_signs",
]
