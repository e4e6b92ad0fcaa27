from __future__ import annotations

import numpy as np
import pytest

from sottovoce.data import Interactions, Late, hold_people, synthetic_people
from sottovoce.errors import DataError


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(60, 40, seed=2)


def whole(late: Late) -> list[tuple[int, ...]]:
    """Everybody who is late, with all that they touched."""
    both = zip(range(late.known.n_users), range(late.hidden.n_users), strict=True)
    return [(*sorted([*late.known[k].tolist(), *late.hidden[h].tolist()]),) for k, h in both]


def test_late_people_and_the_others_are_everybody(people: Interactions) -> None:
    late = hold_people(people, 15, seed=1)
    others = [(*items.tolist(),) for items in map(late.others.histories.__getitem__, range(45))]
    everybody = [(*people.histories[user].tolist(),) for user in range(60)]
    assert sorted(whole(late) + others) == sorted(everybody)
    assert late.others.n_items == late.known.n_items == late.hidden.n_items == 40


def test_a_fifth_of_everybody_is_hidden(people: Interactions) -> None:
    late = hold_people(people, 30)
    hidden, known = np.diff(late.hidden.indptr), np.diff(late.known.indptr)
    assert np.array_equal(hidden, (hidden + known) // 5)
    assert hidden.min() >= 1
    for user in range(30):
        assert not set(late.hidden[user].tolist()) & set(late.known[user].tolist())


def test_who_has_few_items_is_never_late() -> None:
    data = Interactions.from_lists("few", [[0, 1, 2, 3], [0, 1, 2, 3, 4], [5]], n_items=6)
    assert whole(hold_people(data, 1)) == [(0, 1, 2, 3, 4)]
    with pytest.raises(DataError, match="asked for 2 late people, there are 1"):
        hold_people(data, 2)
    with pytest.raises(DataError, match="asked for 0"):
        hold_people(data, 0)


def test_the_seed_draws_the_people_and_what_is_hidden(people: Interactions) -> None:
    first, again, other = (hold_people(people, 15, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.hidden.indices, again.hidden.indices)
    assert whole(first) != whole(other)
    everyone = [hold_people(people, 60, seed) for seed in (0, 1)]
    assert whole(everyone[0]) == whole(everyone[1])
    assert not np.array_equal(everyone[0].hidden.indices, everyone[1].hidden.indices)


def test_every_item_of_a_history_is_hidden_as_often() -> None:
    """One of five, 4,000 times: 800 each within 5 sigma; fixed seed."""
    data = Interactions.from_lists("same", [[0, 1, 2, 3, 4]] * 4000, n_items=5)
    hidden = hold_people(data, 4000, seed=3).hidden
    assert np.abs(hidden.popularity() - 800).max() < 5 * np.sqrt(4000 * 0.2 * 0.8)
