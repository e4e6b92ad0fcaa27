"""The paper's equations in plain numpy, for many people at once: the reference for all engines."""

from sottovoce.core.histories import Histories
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import (
    WORDS_PER_DRAW,
    Mechanism,
    Shape,
    count_reports,
    draw_os_words,
    sum_counts,
    sum_signs,
)
from sottovoce.core.model import (
    compute_gram,
    draw_initial_items,
    predict,
    rotate_factors,
    solve_user_vectors,
    sum_squares,
    update_items,
)
from sottovoce.core.named import Named
from sottovoce.core.registry import MECHANISMS, get_mechanism, register

__all__ = [
    "MECHANISMS",
    "WORDS_PER_DRAW",
    "Histories",
    "Loudest",
    "Mechanism",
    "Named",
    "Shape",
    "compute_gram",
    "count_reports",
    "draw_initial_items",
    "draw_os_words",
    "get_mechanism",
    "predict",
    "register",
    "rotate_factors",
    "solve_user_vectors",
    "sum_counts",
    "sum_signs",
    "sum_squares",
    "update_items",
]
