"""A device says nothing but its reports: all else that can be seen is the same for any history.

A server and a proxy that work together choose everything that is public. They see which requests a
device sends, in which order, at what time and of what size, what it charges, and the error that it
shows. For the same coins none of that may depend on the history.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, bounds
from sottovoce.errors import SottovoceError
from sottovoce.protocol import SignedManifest, encode_items, open_reports
from sottovoce.training import Settings
from tests.client.world import DAY, ITEMS, FakeProxy, World, charges, item, sha

FACTORS = 2
sizes = st.sampled_from([0.0, bounds.LEAST_ENTRY, 1e-9, 0.3, 1e3, bounds.MOST_ENTRY])
entries = st.tuples(sizes, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])
models = st.one_of(
    st.lists(st.tuples(entries, entries), min_size=1, max_size=7),
    st.floats(bounds.LEAST_ENTRY, bounds.MOST_ENTRY, width=32).map(lambda v: [(v, v)]),
)
"""Rows, repeated to fill the catalogue: singular ones, lopsided ones, zeros."""


@st.composite
def hostile(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest that every device must accept, as bad as a server can make it."""
    mechanism = draw(st.sampled_from(list(MECHANISMS)))
    alpha = draw(st.sampled_from([0.0, 0.1, 7.0, bounds.MOST_ALPHA]))
    built = Settings.preset(mechanism, factors=FACTORS, alpha=alpha).build(ITEMS)
    return {
        "mechanism": mechanism,
        "parameters": built.published(),
        "loud_fraction": built.loud_fraction,
        "epsilon": draw(st.sampled_from([1e-6, 2.5, 40.0])),
        "reports": draw(st.sampled_from([1, 7])),
        "factors": FACTORS,
        "alpha": alpha,
        "regularization": draw(st.sampled_from([bounds.LEAST_RIDGE, 1e-6, bounds.MOST_RIDGE])),
        "share": draw(st.sampled_from([0.01, 0.5, 1.0])),
        "epochs": draw(st.integers(1, 3)),
        "epochs_left": draw(st.sampled_from([0, 1, 4, 2**53 - 1])),
        "hold": draw(st.sampled_from([0, DAY])),
    }


def model_of(rows: list[tuple[float, ...]]) -> np.ndarray:
    repeated = (rows * (ITEMS // len(rows) + 1))[:ITEMS]
    return np.array(repeated, np.float32)


def published(world: World, V: np.ndarray, changes: dict[str, Any], epoch: int) -> SignedManifest:
    return world.signed(epoch, model=world.add(encode_items(V)), **changes)


Seen = list[tuple[Any, ...]]


def seen_of(
    history: list[int], rows: list[tuple[float, ...]], changes: dict[str, Any], seed: int
) -> Seen:
    """Three epochs of one device, as everybody else sees them."""
    world, coins, seen = World(), Random(seed), list[tuple[Any, ...]]()
    V = model_of(rows)
    proxy = FakeProxy(world)

    def watch(call: str) -> None:
        seen.append((call, round(world.now, 6)))

    def sleep(seconds: float) -> None:
        world.now += seconds

    def words(users: int, reports: int) -> np.ndarray:
        # Where the history is known already: who touched more takes longer.
        world.now += 0.02 * len(history)
        asked = 8 * users * (reports + 1) * 4
        drawn = np.frombuffer(coins.randbytes(asked), np.uint64)
        return drawn.reshape(users, reports + 1, 4)

    with tempfile.TemporaryDirectory() as folder:
        with world.create(Path(folder), 1e6, accept=False, entropy=coins.randbytes) as client:
            client.record([item(each) for each in history])
            client.accept(published(world, V, changes, 1).manifest.terms)
            proxy.before = watch
            for epoch in (1, 2, 3):
                world.now = (epoch + 0.25) * DAY
                proxy.publish(published(world, V, changes, epoch))
                try:
                    synced = client.sync(proxy, words=words, sleep=sleep, jitter=3_600)
                    seen.append((synced.outcome, synced.spent, synced.remaining, synced.sentence))
                except SottovoceError as error:
                    seen.append((type(error), str(error)))
            status = client.status()
            seen.append((status.batches, status.spent, status.epochs))
        seen.extend(
            (one.training, one.epoch, one.mechanism, one.epsilon, one.reports)
            for one in charges(Path(folder))
        )
    seen.append(tuple(len(batch) for batch in proxy.received))
    return seen


@given(
    rows=models,
    changes=hostile(),
    history=st.sets(st.integers(0, ITEMS - 1), max_size=12),
    one=st.integers(0, ITEMS - 1),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_nothing_that_can_be_seen_depends_on_one_item(
    rows: list[tuple[float, ...]], changes: dict[str, Any], history: set[int], one: int, seed: int
) -> None:
    without, within = sorted(history - {one}), sorted(history | {one})
    seen = seen_of(without, rows, changes, seed)
    assert seen == seen_of(within, rows, changes, seed)
    assert any(entry[:1] in (("sent",), ("sitting out",)) for entry in seen)


DEVICES, EPOCHS = 10, 40


def test_a_history_is_not_read_off_by_silence(tmp_path: Path) -> None:
    """Version 1 told all 12 of its 256 items in 111 epochs. 400 epochs, each asking for one item.

    An item alone in a factor, as small or large as a model may have it: whoever touched it had no
    vector, sent nothing and charged nothing. Now every epoch brings the same batch and charge.
    """
    built = Settings.preset("loudest", factors=FACTORS).build(ITEMS)
    changes = {"parameters": built.published(), "loud_fraction": built.loud_fraction}
    changes |= {"factors": FACTORS, "alpha": 7.0, "epochs": EPOCHS}
    world = World(**changes, regularization=bounds.LEAST_RIDGE)
    world.epoch_keys = dict.fromkeys(range(1, EPOCHS + 1), world.epoch_keys[1])
    random, told = Random(5), {True: set[Any](), False: set[Any]()}
    for device in range(DEVICES):
        touched = set(random.sample(range(ITEMS), 12))
        for answer in asked(world, tmp_path / str(device), touched, random):
            told[answer[0]].add(answer[1:])
    assert told[True] == told[False]
    assert len(told[True]) == 1


def asked(
    world: World, folder: Path, touched: set[int], random: Random
) -> Iterator[tuple[Any, ...]]:
    """Whether the target was touched, and all that came back, for every epoch of a device."""
    proxy, spent = FakeProxy(world), 0.0
    with world.create(folder, limit=1e9) as client:
        client.record([item(each) for each in sorted(touched)])
        for epoch in range(1, EPOCHS + 1):
            target = random.randrange(ITEMS)
            V = np.zeros((ITEMS, FACTORS), np.float32)
            V[:, 1] = 0.25
            V[target] = (random.choice([bounds.LEAST_ENTRY, bounds.MOST_ENTRY]), 0)
            world.now = (epoch + 0.5) * DAY
            proxy.publish(published(world, V, {}, epoch))
            synced = client.sync(proxy)
            yield target in touched, synced.outcome, len(proxy.received[-1]), synced.spent - spent
            spent = synced.spent
        assert len(proxy.received) == EPOCHS


def test_the_reports_are_of_the_history_all_the_same(tmp_path: Path) -> None:
    """Otherwise the tests above could not fail: with epsilon 40 devices say what they know."""
    said = []
    for history in ([item(0), item(1)], [item(30), item(31)]):
        world = World(epsilon=40.0, reports=50)
        proxy = FakeProxy(world)
        with world.create(tmp_path / history[0], limit=1e9) as client:
            client.record(history)
            client.sync(proxy, words=lambda users, reports: _same_words(users, reports))
        directions = proxy.signed.manifest.build().n_directions
        key, name = world.epoch_keys[1], proxy.signed.hash
        said.append(open_reports(proxy.received[0][56:], key, name, directions).reports.tolist())
    assert said[0] != said[1]


def _same_words(users: int, reports: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 2**64, (users, reports + 1, 4), dtype=np.uint64)


def test_a_batch_is_charged_under_its_own_hash(tmp_path: Path) -> None:
    world = World()
    proxy = FakeProxy(world)
    with world.create(tmp_path / "client") as client:
        client.sync(proxy)
    assert [one.purpose for one in charges(tmp_path / "client")] == [sha(proxy.received[0])]
