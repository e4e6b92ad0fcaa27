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
from sottovoce.mechanism.loudest import Loudest
from sottovoce.mechanism.registry import MECHANISMS, mechanism_named, register

__all__ = [
    "MECHANISMS",
    "WORDS_PER_DRAW",
    "Coordinate",
    "Loudest",
    "Mechanism",
    "Shape",
    "count_reports",
    "mechanism_named",
    "os_words",
    "register",
    "sum_signs",
    "sums_of",
]
