"""The paper's equations in plain numpy, batch first: the reference for every faster engine."""

from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import (
    WORDS_PER_DRAW,
    Mechanism,
    Shape,
    count_reports,
    os_words,
    sum_signs,
    sums_of,
)
from sottovoce.core.model import (
    Histories,
    gram,
    initial_items,
    predictions,
    rotate_factors,
    update,
    user_vectors,
)
from sottovoce.core.registry import MECHANISMS, mechanism_named, register

__all__ = [
    "MECHANISMS",
    "WORDS_PER_DRAW",
    "Histories",
    "Loudest",
    "Mechanism",
    "Shape",
    "count_reports",
    "gram",
    "initial_items",
    "mechanism_named",
    "os_words",
    "predictions",
    "register",
    "rotate_factors",
    "sum_signs",
    "sums_of",
    "update",
    "user_vectors",
]
