"""Synthetic shops of any size, whose users have one taste each, for tests and for planning.

Nothing here is taken from data, except the tags of a real catalogue if there is one. The
popularity of the item of rank r is r^-0.9. Every item and every user has one taste. A fraction
`focus` of a user's choices is among the items of the user's taste, the rest among all items, each
time in proportion to popularity. The length of a history is log-normal (sigma 0.5), at least two
and at most half of all items. Nobody knows how far tastes follow tags. Here half of the items that
have tags have the taste of one of them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core.histories import Histories
from sottovoce.data.streams import stream

# Popularity of the item of rank r: r ** -POPULARITY_EXPONENT.
POPULARITY_EXPONENT = 0.9
# Standard deviation of the logarithm of a history's length.
LENGTH_SIGMA = 0.5
# Fewest items in a history.
MIN_HISTORY_ITEMS = 2
# Share of the items with tags whose taste is that of one of their tags.
TAG_SHARE = 0.5


def shop(
    people: int,
    items: int,
    length: float,
    tastes: int,
    seed: int,
    *,
    focus: float = 0.75,
    tags: sparse.csr_array | None = None,
) -> Histories:
    """Draw the histories of a synthetic shop.

    Args:
        people: Number of users.
        items: Number of items.
        length: Mean length of a history, before it is limited and rounded down.
        tastes: Number of tastes.
        seed: Seed of everything that is drawn.
        focus: Fraction of a user's choices among the items of their taste.
        tags: A row for each item and a column for each tag; None: the items have none.

    >>> shop(100, 50, 8, tastes=3, seed=0).n_users
    100
    """
    rng = stream(seed, "shop")
    popularity = rng.permutation(np.arange(1, items + 1) ** -POPULARITY_EXPONENT)
    item_tastes, user_tastes = rng.integers(tastes, size=items), rng.integers(tastes, size=people)
    if tags is not None:
        item_tastes = _follow_tags(item_tastes, tags, tastes, stream(seed, "tags"))
    # For each taste, the probability of each item among the items of the taste. 1e-9 prevents a
    # division by 0 for a taste without items.
    by_taste = np.where(item_tastes == np.arange(tastes)[:, None], popularity, 0.0)
    by_taste /= np.maximum(by_taste.sum(axis=1, keepdims=True), 1e-9)
    edges = np.cumsum(focus * by_taste + (1 - focus) * popularity / popularity.sum(), axis=1)
    # The second term makes the mean of the log-normal distribution equal to `length`.
    lengths = length * np.exp(LENGTH_SIGMA * rng.standard_normal(people) - LENGTH_SIGMA**2 / 2)
    lengths = np.clip(lengths, MIN_HISTORY_ITEMS, max(items // 2, 1)).astype(np.int64)
    lists = [
        _draw_items(rng, edges[taste], n)
        for taste, n in zip(user_tastes, lengths.tolist(), strict=True)
    ]
    return Histories.from_lists(lists, items)


def _follow_tags(
    item_tastes: NDArray[np.int64],
    tags: sparse.csr_array,
    tastes: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Replace the tastes of a share of the items by those of their tags."""
    tag_tastes = rng.integers(tastes, size=tags.shape[1])
    counts = np.diff(tags.indptr)
    places = tags.indptr[:-1] + (rng.random(len(counts)) * counts).astype(np.int64)
    follows = (counts > 0) & (rng.random(len(counts)) < TAG_SHARE)
    result = item_tastes.copy()
    result[follows] = tag_tastes[tags.indices[places[follows]]]
    return result


def _draw_items(rng: np.random.Generator, edges: NDArray[np.float64], n: int) -> list[int]:
    """Draw `n` different items one after the other; `edges` are cumulative probabilities."""
    # A dict serves as an ordered set: it ignores repeated draws, and its first n keys are returned.
    items: dict[int, None] = {}
    while len(items) < n:
        draws = np.searchsorted(edges, edges[-1] * rng.random(2 * n), side="right")
        items |= dict.fromkeys(draws.tolist())
    return list(items)[:n]
