"""The paper's equations in plain numpy, batch first: the reference for every faster engine."""

from sottovoce.model.factorization import (
    gradients,
    gram,
    initial_items,
    outer_table,
    predictions,
    residuals,
    rotate_factors,
    update,
    user_vectors,
)
from sottovoce.model.histories import Histories

__all__ = [
    "Histories",
    "gradients",
    "gram",
    "initial_items",
    "outer_table",
    "predictions",
    "residuals",
    "rotate_factors",
    "update",
    "user_vectors",
]
