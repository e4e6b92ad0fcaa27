"""Invented shops of any size: people with one taste each, for tests and for planning.

Nothing in here is taken from data. Item of rank r is wanted in proportion to r^-0.9. Every item is
of one taste and every person has one: `focus` of what they touch is of it, the rest of any. How
many items they touch is log-normal (sigma 0.5), from two to half of all.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.model import Histories
from sottovoce.data.streams import stream

FALL, SIGMA, FEWEST = 0.9, 0.5, 2


def shop(
    people: int, items: int, length: float, tastes: int, seed: int, *, focus: float = 0.75
) -> Histories:
    """The histories of its people, `length` items in the mean.

    >>> shop(100, 50, 8, tastes=3, seed=0).n_users
    100
    """
    rng = stream(seed, "shop")
    popular = rng.permutation(np.arange(1, items + 1) ** -FALL)
    kind, own = rng.integers(tastes, size=items), rng.integers(tastes, size=people)
    of_taste = np.where(kind == np.arange(tastes)[:, None], popular, 0.0)
    of_taste /= np.maximum(of_taste.sum(axis=1, keepdims=True), 1e-9)
    edges = np.cumsum(focus * of_taste + (1 - focus) * popular / popular.sum(), axis=1)
    lengths = length * np.exp(SIGMA * rng.standard_normal(people) - SIGMA**2 / 2)
    lengths = np.clip(lengths, FEWEST, max(items // 2, 1)).astype(np.int64)
    touched = [_drawn(rng, edges[t], n) for t, n in zip(own, lengths.tolist(), strict=True)]
    return Histories.from_lists(touched, items)


def _drawn(rng: np.random.Generator, edges: NDArray[np.float64], n: int) -> list[int]:
    """So many different items, one after the other, each by how much it is wanted."""
    found: dict[int, None] = {}
    while len(found) < n:
        drawn = np.searchsorted(edges, edges[-1] * rng.random(2 * n), side="right")
        found |= dict.fromkeys(drawn.tolist())
    return list(found)[:n]
