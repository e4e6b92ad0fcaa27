"""A batch: its id is random, and neither the process nor the history shows in it or in its time."""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sottovoce.client import Client
from sottovoce.client.reporting import find_reported_rows, make_batch
from sottovoce.client.timing import compute_lead
from sottovoce.core import MECHANISMS, Histories, Named, bounds, draw_os_words, solve_user_vectors
from sottovoce.protocol import (
    Release,
    encode_items,
)
from sottovoce.training import Settings
from tests.client.world import FACTORS, ITEMS, REPORTS, FakeProxy, World, item

AT = slice(40, 56)


def batch(entropy: Callable[[int], bytes], rows: list[int]) -> bytes:
    world = World()
    release = Release(world.signed(1), world.items(1), world.catalogue)
    return make_batch(release, rows, 20.0, draw_os_words, entropy).batch


@pytest.mark.parametrize("rows", [[], [1, 4]])
def test_id_of_a_batch_is_16_bytes_of_entropy(rows: list[int]) -> None:
    sizes: list[int] = []

    def entropy(size: int) -> bytes:
        sizes.append(size)
        return bytes(range(100, 116))

    content = batch(entropy, rows)
    assert sizes == [16]
    assert content[AT] == bytes(range(100, 116))
    assert len(content) == 56 + 52 * REPORTS


# What an application does to its process.


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("touched", [[], [1], [1, 2, 3]])
@pytest.mark.parametrize("size", [bounds.MIN_ITEM_ENTRY, bounds.MAX_ITEM_ENTRY])
def test_device_reports_when_floating_point_errors_raise(
    tmp_path: Path, mechanism: str, touched: list[int], size: float
) -> None:
    """Let the application make numpy raise, and Python turn warnings into errors."""
    built = Settings.preset(mechanism, factors=FACTORS).build(ITEMS)
    world = World(
        mechanism=mechanism,
        parameters=built.public_parameters(),
        loud_fraction=built.loud_fraction,
        regularization=bounds.MAX_RIDGE,
    )
    V = np.full((ITEMS, FACTORS), size, np.float32)
    proxy = FakeProxy(world)
    proxy.publish(world.signed(1, model=world.add(encode_items(V))))
    with world.create(tmp_path) as client, np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        client.record([item(number) for number in touched])
        assert client.sync(proxy).outcome == "sent"
        assert client.recommend(3)


@pytest.fixture(scope="module")
def longest_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a client that recorded one item more than a history holds."""
    with World().create(tmp_path_factory.mktemp("longest")) as client:
        client.record(item(number) for number in range(bounds.MAX_HISTORY_ITEMS + 1))
        yield client


@pytest.mark.parametrize(("n_items", "factors"), [(1_000_000, 1), (8, bounds.MAX_FACTORS)])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_batch_of_the_longest_history_is_made_within_the_lead(
    longest_history: Client, mechanism: str, n_items: int, factors: int
) -> None:
    # A batch that takes longer than the lead would be sent late, which can be seen.
    built = Settings.preset(mechanism, factors=factors, reports=1).build(n_items)
    one = World(max_items=n_items, factors=factors, reports=1).manifest(1, items=n_items)
    V = np.random.default_rng(1).standard_normal((n_items, factors)).astype(np.float32)
    n_recorded = min(n_items, bounds.MAX_HISTORY_ITEMS + 1)
    numbers = {item(number): number for number in range(n_recorded)}
    begun = time.process_time()  # no matter how busy this machine is
    touched = longest_history._store.history.list_items()
    rows = [numbers[name] for name in touched if name in numbers]
    own = Histories.from_lists([rows], n_items)
    x = solve_user_vectors(V, own, alpha=one.alpha, regularization=one.regularization)
    built.reports(V, x, own, draw_os_words(1, 1))
    assert time.process_time() - begun < compute_lead(one)
    assert len(touched) == bounds.MAX_HISTORY_ITEMS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_reports_are_made_of_all_items_or_of_those_of_the_latest_moment(mechanism: str) -> None:
    built = Settings.preset(mechanism, factors=FACTORS).build(ITEMS)
    world = World(
        mechanism=mechanism,
        parameters=built.public_parameters(),
        loud_fraction=built.loud_fraction,
    )
    release = Release(world.signed(1), world.items(1), world.catalogue)
    # The latest moment has only an item that the catalogue does not know.
    moments = {item(4): 2, item(1): 1, item(3): 2, "gone": 9}
    expected = [3, 4] if mechanism == Named.name else [1, 3, 4]
    assert find_reported_rows(release, moments) == expected
    assert find_reported_rows(release, {}) == []
