"""What an application does to its process must not make a device answer by its silence or delay."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from sottovoce.client.timing import lead
from sottovoce.core import MECHANISMS, Histories, bounds, os_words, user_vectors
from sottovoce.protocol import encode_items
from sottovoce.training import Settings
from tests.client.world import FACTORS, ITEMS, FakeProxy, World, item


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("touched", [[], [1], [1, 2, 3]])
@pytest.mark.parametrize("size", [bounds.LEAST_ENTRY, bounds.MOST_ENTRY])
def test_numbers_that_raise_elsewhere_silence_nobody(
    tmp_path: Path, mechanism: str, touched: list[int], size: float
) -> None:
    """An application may have told numpy to raise, and Python to make errors of warnings."""
    built = Settings.preset(mechanism, factors=FACTORS).build(ITEMS)
    world = World(
        mechanism=mechanism,
        parameters=built.published(),
        loud_fraction=built.loud_fraction,
        regularization=bounds.MOST_RIDGE,
    )
    V = np.full((ITEMS, FACTORS), size, np.float32)
    proxy = FakeProxy(world)
    proxy.publish(world.signed(1, model=world.add(encode_items(V))))
    with world.create(tmp_path) as client, np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        client.record([item(each) for each in touched])
        assert client.sync(proxy).outcome == "sent"
        assert client.recommend(3)


@pytest.mark.parametrize(("n_items", "factors"), [(1_000_000, 1), (8, bounds.MOST_FACTORS)])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_longest_history_is_ready_in_time(
    tmp_path: Path, mechanism: str, n_items: int, factors: int
) -> None:
    """As many items as are kept, read and reported. What takes longer than `lead` can be seen."""
    built = Settings.preset(mechanism, factors=factors, reports=1).build(n_items)
    one = World(most_items=n_items, factors=factors, reports=1).manifest(1, items=n_items)
    V = np.random.default_rng(1).standard_normal((n_items, factors)).astype(np.float32)
    numbers = {item(number): number for number in range(n_items)}
    with World().create(tmp_path) as client:
        client.record(item(number) for number in range(bounds.MOST_TOUCHED + 1))
        begun = time.perf_counter()
        touched = client._store.history.items()
    rows = [numbers[each] for each in touched if each in numbers]
    own = Histories.from_lists([rows], n_items)
    x = user_vectors(V, own, alpha=one.alpha, regularization=one.regularization)
    built.reports(V, x, own, os_words(1, 1))
    assert time.perf_counter() - begun < lead(one)
    assert len(touched) == bounds.MOST_TOUCHED
