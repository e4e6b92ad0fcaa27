"""One report: directions, rounding, coin, estimate. The reference, in numpy, batch first."""

from sottovoce.mechanism.base import (
    WORDS_PER_DRAW,
    Mechanism,
    Shape,
    count_reports,
    sum_signs,
    sums_of,
)
from sottovoce.mechanism.coordinate import Coordinate
from sottovoce.mechanism.entropy import os_words
from sottovoce.mechanism.hadamard import Hadamard
from sottovoce.mechanism.loudest import Loudest
from sottovoce.mechanism.registry import MECHANISMS, mechanism_named
from sottovoce.mechanism.rotation import Rotation

__all__ = [
    "MECHANISMS",
    "WORDS_PER_DRAW",
    "Coordinate",
    "Hadamard",
    "Loudest",
    "Mechanism",
    "Rotation",
    "Shape",
    "count_reports",
    "mechanism_named",
    "os_words",
    "sum_signs",
    "sums_of",
]
