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


@st.composite
def histories(draw: st.DrawFn, max_users: int = 6, max_items: int = 12) -> Histories:
    """Draw any small population, with empty histories and full ones."""
    n_items = draw(st.integers(1, max_items))
    users = st.lists(st.sets(st.integers(0, n_items - 1)), min_size=1, max_size=max_users)
    return Histories.from_lists([sorted(items) for items in draw(users)], n_items)
