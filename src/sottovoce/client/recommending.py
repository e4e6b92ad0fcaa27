"""Recommending, on the device and without a network: x is solved here and never leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.model import Histories, gram, predictions, user_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.protocol import Edition, Item


@dataclass(frozen=True)
class Recommendation:
    id: str
    title: str
    score: float
    """How well it fits; to compare within one list only."""
    because: Item | None
    """The own item that speaks for it most; None if none does."""


def recommendations(edition: Edition, rows: list[int], n: int) -> list[Recommendation]:
    """The n best items outside `rows`, best first; among equals the catalogue's order holds."""
    with np.errstate(all="ignore"):  # as for a batch, whatever the application has told numpy
        scores = score_items(edition, rows)
        order = np.argsort(-scores, kind="stable")
        best = order[~np.isin(order, rows)][:n]
        reasons = contributions(edition, rows, best)
    items = edition.catalogue.items
    return [
        Recommendation(
            items[i].id, items[i].title, float(scores[i]), _because(edition, rows, parts)
        )
        for i, parts in zip(best, reasons, strict=True)
    ]


def score_items(edition: Edition, rows: list[int]) -> NDArray[np.float32]:
    """`V x`, or for somebody without a history how well each item goes with all others.

    The zero vector scores everything 0, and a device knows no popularity. But `V V^T` is the
    model's idea of which items are touched together, so the row sums `V (V^T 1)` say which items
    are touched together with many: the most popular ones come first, in any basis of the factors.
    """
    V, manifest = edition.V, edition.manifest
    if not rows:
        return np.asarray(V.astype(np.float64) @ V.sum(axis=0, dtype=np.float64), np.float32)
    own = Histories.from_lists([rows], manifest.items)
    x = user_vectors(V, own, alpha=manifest.alpha, regularization=manifest.regularization)
    return predictions(x, V)


def contributions(
    edition: Edition, rows: list[int], items: NDArray[np.integer]
) -> NDArray[np.float64]:
    """What each own item adds to the score of each of `items`; a row's sum is the score.

    `x = A^-1 (1 + alpha) sum_j v_j` is a sum over the own items, and so is `v_i . x`. Exact: it
    is how the score came about, not a guess at it.
    """
    manifest = edition.manifest
    own = edition.V[rows].astype(np.float64)
    A = gram(edition.V) + manifest.alpha * own.T @ own
    A += manifest.regularization * np.eye(manifest.terms.factors)
    try:
        shares = np.linalg.solve(A, own.T) * (1.0 + manifest.alpha)
    except np.linalg.LinAlgError:  # nor has such a model a vector: there is nothing to explain
        return np.zeros((len(items), len(rows)))
    return np.asarray(edition.V[items].astype(np.float64) @ shares)


def _because(edition: Edition, rows: list[int], parts: NDArray[np.float64]) -> Item | None:
    if len(parts) == 0 or parts.max() <= 0:
        return None
    return edition.catalogue.items[rows[int(parts.argmax())]]
