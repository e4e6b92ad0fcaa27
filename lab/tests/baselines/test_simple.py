from __future__ import annotations

import numpy as np

from sottovoce.core import Histories
from sottovoce_lab.baselines import Popularity, Random


def test_popularity_is_the_count() -> None:
    model = Popularity.fit(Histories.from_lists([[0, 1], [1], [1, 2]], 4))
    assert model.scores(np.array([0, 2])).tolist() == [[1, 3, 1, 0]] * 2


def test_random_is_the_same_for_the_same_seed_and_differs_between_users() -> None:
    a, b = Random(50, 1).scores(np.array([0, 1])), Random(50, 1).scores(np.array([1]))
    assert np.array_equal(a[1], b[0])
    assert not np.array_equal(a[0], a[1])
