"""Tags and the order of a history change what is recommended here, and nothing that leaves.

For the same coins, devices with the same items send the same requests of the same sizes with the
same reports in them, whatever was recorded first and whatever the catalogue says of the items.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.client.recommending import recommendations
from sottovoce.core.recommending import recency
from sottovoce.protocol import Catalogue, Edition, Item, open_reports
from tests.client.world import DAY, ITEMS, FakeProxy, World, charges, item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.client import Client

LOUD = {"epsilon": 40.0, "reports": 30}
"""So that reports say what a device knows: with noise alone they would be alike anyway."""
MANIFEST_HASH = slice(8, 40)
"""Of a batch: the catalogue's hash is in the manifest, so that two worlds differ here."""
Moments = list[list[int]]


def catalogue_of(tags: Sequence[dict[str, Any]]) -> Catalogue:
    return Catalogue.of(
        Item(item(number), f"Title {number}", tags[number % len(tags)]) for number in range(ITEMS)
    )


CATALOGUES = {
    "none": catalogue_of([{}]),
    "genres": catalogue_of([{"genre": ("Horror",)}, {"genre": ("Children", "Comedy")}]),
    "years": catalogue_of([{"year": 1950 + year} for year in range(25)]),
    "both": catalogue_of([{"genre": ("a",), "year": 5}, {"year": 7}, {"genre": ("b",)}]),
}


def seen_of(moments: Moments, catalogue: Catalogue, seed: int) -> list[Any]:
    """Two epochs of one device, as everybody else sees them, with the reports opened."""
    world, coins = World(**LOUD), Random(seed)
    world.catalogue = catalogue
    world.add(catalogue.raw)
    proxy, seen = FakeProxy(world), list[Any]()

    def words(users: int, reports: int) -> np.ndarray:
        drawn = np.frombuffer(coins.randbytes(8 * users * (reports + 1) * 4), np.uint64)
        return drawn.reshape(users, reports + 1, 4)

    def sleep(seconds: float) -> None:
        world.now += seconds

    proxy.before = lambda call: seen.append((call, world.now))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with world.create(folder, 1e6, entropy=coins.randbytes) as client:
            for items in moments:
                client.record([item(each) for each in items])
            for _ in (1, 2):
                synced = client.sync(proxy, words=words, sleep=sleep, jitter=3_600)
                assert client.recommend(3)
                seen.append((synced.outcome, synced.spent, synced.remaining))
                opened = opened_batch(world, proxy)
                seen.append(opened)
                world.now = (proxy.signed.manifest.epoch + 0.5) * DAY
                proxy.next_epoch()
        kept = charges(folder)
    seen.append([(one.epoch, one.mechanism, one.epsilon, one.reports) for one in kept])
    return seen


def opened_batch(world: World, proxy: FakeProxy) -> tuple[Any, ...]:
    """All of the newest batch but its manifest's hash: head, size, id, and what is sealed."""
    batch, signed = proxy.received[-1], proxy.signed
    directions = signed.manifest.build().n_directions
    key = world.epoch_keys[signed.manifest.epoch]
    opened = open_reports(batch[56:], key, signed.hash, directions)
    assert batch[MANIFEST_HASH] == signed.hash
    return batch[:8], batch[40:56], len(batch), opened.reports.tolist()


@st.composite
def same_items_twice(draw: st.DrawFn) -> tuple[Moments, Moments]:
    """Two lives: the same items, recorded in other orders, at once or one by one, or again."""
    items = sorted(draw(st.sets(st.integers(0, ITEMS - 1), min_size=1, max_size=12)))

    def life() -> Moments:
        order = draw(st.permutations(items))
        cuts = sorted(draw(st.sets(st.integers(0, len(items)), max_size=4)))
        parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
        return [*parts, draw(st.lists(st.sampled_from(items), max_size=2))]

    return life(), life()


@given(
    lives=same_items_twice(),
    catalogues=st.tuples(st.sampled_from([*CATALOGUES]), st.sampled_from([*CATALOGUES])),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=12)
def test_what_leaves_knows_neither_order_nor_tags(
    lives: tuple[Moments, Moments], catalogues: tuple[str, str], seed: int
) -> None:
    first, second = (
        seen_of(life, CATALOGUES[name], seed) for life, name in zip(lives, catalogues, strict=True)
    )
    assert first == second


def test_what_leaves_is_of_the_items_all_the_same() -> None:
    """Otherwise the test above could not fail: another item and the reports are others."""
    one = seen_of([[1, 2], [3]], CATALOGUES["both"], 1)
    other = seen_of([[1, 2], [40]], CATALOGUES["both"], 1)
    reports = [[entry[3] for entry in seen if len(entry) == 4] for seen in (one, other)]
    assert len(reports[0]) == len(reports[1]) == 2
    assert reports[0] != reports[1]
    shapes = [[(*e[:3], len(e[3])) if len(e) == 4 else e for e in seen] for seen in (one, other)]
    assert shapes[0] == shapes[1]


def test_lists_do_know_order_and_tags() -> None:
    """Otherwise there would be nothing to keep quiet about."""
    world = World()
    lists = []
    for name, last in (("none", 9), ("none", 2), ("genres", 9), ("genres", 2)):
        edition = Edition(world.signed(1), world.items(1), CATALOGUES[name])
        touched = {item(row): int(row == last) for row in (2, 9, 21, 30, 33)}
        lists.append(tuple(each.id for each in recommendations(edition, touched, ITEMS)))
    assert len(set(lists)) == 4


def test_a_recommendation_asks_nobody(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy)
    calls = [*proxy.calls]
    client.record([item(9)])
    client.recommend()
    assert proxy.calls == calls


def moments_of(client: Client) -> dict[str, int]:
    return client._store.history.touched()


def test_each_call_is_a_moment_and_recording_again_moves_an_item_there(client: Client) -> None:
    assert moments_of(client) == {item(3): 1, item(7): 1, item(20): 1}
    assert client.record([item(9), item(1)]) == 2
    assert client.record([item(3)]) == 0
    assert moments_of(client) == {item(1): 2, item(3): 3, item(7): 1, item(9): 2, item(20): 1}


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8))
@settings(max_examples=30)
def test_the_latest_moment_of_an_item_counts(calls: Moments) -> None:
    last = {item(row): at for at, rows in enumerate(calls) for row in rows}
    with tempfile.TemporaryDirectory() as folder, World().create(Path(folder)) as client:
        for rows in calls:
            client.record([item(row) for row in rows])
        kept = moments_of(client)
    assert sorted(kept, key=lambda name: (kept[name], name)) == sorted(
        last, key=lambda name: (last[name], name)
    )
    expected, found = ([at[name] for name in sorted(last)] for at in (last, kept))
    weights = [recency(np.array(each, np.int64)).tolist() for each in (expected, found)]
    assert weights[0] == weights[1]


def test_a_client_recommends_by_the_order_in_which_it_was_told(
    world: World, proxy: FakeProxy, tmp_path: Path
) -> None:
    """The same items, and the list turns to where the last ones are."""
    V = np.zeros((ITEMS, 3), np.float32)
    V[::2, 0] = V[1::2, 1] = 1
    edition = Edition(world.signed(1), V, CATALOGUES["none"])
    for even_last in (False, True):
        with world.create(tmp_path / str(even_last)) as client:
            for odd in (int(even_last), int(not even_last)):
                client.record([item(row) for row in range(odd, 20, 2)])
            client.sync(proxy)
            touched = moments_of(client)
            synced = [each.id for each in client.recommend(5)]
        held = Edition(proxy.signed, world.items(1), world.catalogue)
        assert synced == [each.id for each in recommendations(held, touched, 5)]
        rows = {edition.catalogue.numbers[e.id] for e in recommendations(edition, touched, 3)}
        assert {row % 2 for row in rows} == {0 if even_last else 1}


@pytest.mark.parametrize("name", CATALOGUES)
def test_forgetting_forgets_the_order(tmp_path: Path, name: str) -> None:
    world = World()
    world.catalogue = CATALOGUES[name]
    world.add(world.catalogue.raw)
    proxy = FakeProxy(world)
    lists = []
    for life in ("one", "two"):
        with world.create(tmp_path / life) as client:
            if life == "two":
                client.record([item(30)])
                client.record([item(31)])
                client.forget()
            client.record([item(3), item(4)])
            client.sync(proxy)
            lists.append((moments_of(client), client.recommend(5)))
    assert lists[0] == lists[1]


# How much is kept.


def test_the_earliest_moments_make_way(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one moment, those that come last by name."""
    client.forget()
    monkeypatch.setattr("sottovoce.client.history.MOST_TOUCHED", 3)
    assert client.record(["c", "a"]) == 2
    assert client.record(["b"]) == 1
    assert client.record(["d"]) == 1
    assert client.touched() == ["a", "b", "d"]
    assert client.record(["a"]) == 0
    assert client.record(["e"]) == 1
    assert client.touched() == ["d", "a", "e"]
    assert client.record(list("zyxw")) == 4
    assert client.touched() == ["w", "x", "y"]
