"""Small populations for tests."""

import numpy as np
from hypothesis import strategies as st

from sottovoce.core import Histories


def random_people(n_users: int, n_items: int, seed: int = 0, most: int | None = None) -> Histories:
    """Users with 0 to `most` items each, the extremes included."""
    rng = np.random.default_rng(seed)
    most = n_items if most is None else min(most, n_items)
    lists = [rng.choice(n_items, rng.integers(0, most + 1), replace=False) for _ in range(n_users)]
    return Histories.from_lists([items.tolist() for items in lists], n_items)


def shop(
    people: int, items: int, length: float, tastes: int, seed: int, *, focus: float = 0.75
) -> Histories:
    """Invented customers of one taste each: so much of what they touch is of it, the rest of any.

    Popularity falls as 1 / rank^0.9; the number of items is log-normal.
    """
    rng = np.random.default_rng(seed)
    popular = rng.permutation(np.arange(1, items + 1) ** -0.9)
    kind, own = rng.integers(tastes, size=items), rng.integers(tastes, size=people)
    of_taste = np.where(kind == np.arange(tastes)[:, None], popular, 0.0)
    of_taste /= np.maximum(of_taste.sum(axis=1, keepdims=True), 1e-9)
    wanted = focus * of_taste + (1 - focus) * popular / popular.sum()
    lengths = np.clip(length * np.exp(0.5 * rng.standard_normal(people) - 1 / 8), 3, items // 2)
    races = rng.standard_exponential((people, items)) / wanted[own]
    chosen = [np.argsort(race)[: int(n)].tolist() for race, n in zip(races, lengths, strict=True)]
    return Histories.from_lists(chosen, items)


@st.composite
def histories(draw: st.DrawFn, max_users: int = 6, max_items: int = 12) -> Histories:
    """Any small population: empty histories and full ones too."""
    n_items = draw(st.integers(1, max_items))
    users = st.lists(st.sets(st.integers(0, n_items - 1)), min_size=1, max_size=max_users)
    return Histories.from_lists([sorted(items) for items in draw(users)], n_items)
