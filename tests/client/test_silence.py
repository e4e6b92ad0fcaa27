"""A device reveals only its reports: all else that can be seen is the same for any history.

A server and a proxy that work together choose everything that is public. They see which requests a
device sends, in which order, at what time and of what size, what it charges, and the error that it
shows. For the same coins none of that may depend on the history. Reports depend on the items alone:
not on their order, and not on what the catalogue says of them.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, bounds
from sottovoce.errors import SottovoceError
from sottovoce.protocol import Catalogue, Item, Manifest, encode_items, open_reports
from sottovoce.training import Settings
from tests.client.world import DAY, ITEMS, FakeProxy, World, charges, item
from tests.protocol.examples import START
from tests.sampling import choose

FACTORS = 2
sizes = st.sampled_from([0.0, bounds.MIN_ITEM_ENTRY, 2.0**-30, 0.25, 1e3, bounds.MAX_ITEM_ENTRY])
entries = st.tuples(sizes, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])

models = st.one_of(
    st.lists(st.tuples(entries, entries), min_size=1, max_size=7),
    st.floats(bounds.MIN_ITEM_ENTRY, bounds.MAX_ITEM_ENTRY, width=32).map(
        lambda v: [(float(bounds.round_items(np.array([v], np.float32))[0]),) * 2]
    ),
)
"""Rows, repeated to fill the catalogue: singular ones, lopsided ones, zeros."""


@st.composite
def hostile(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a manifest that every device must accept, as bad as a server can make it."""
    mechanism = draw(st.sampled_from(list(MECHANISMS)))
    alpha = draw(st.sampled_from([0.0, 0.1, 7.0, bounds.MAX_ALPHA]))
    built = Settings.preset(mechanism, factors=FACTORS, alpha=alpha).build(ITEMS)
    return {
        "mechanism": mechanism,
        "parameters": built.public_parameters(),
        "loud_fraction": built.loud_fraction,
        "epsilon": draw(st.sampled_from([1e-6, 2.5, 40.0])),
        "reports": draw(st.sampled_from([1, 7])),
        "factors": FACTORS,
        "alpha": alpha,
        "regularization": draw(st.sampled_from([bounds.MIN_RIDGE, 1e-6, bounds.MAX_RIDGE])),
        "share": draw(st.sampled_from([0.01, 0.5, 1.0])),
        "epochs": draw(st.integers(1, 3)),
        "epochs_left": draw(st.sampled_from([0, 1, 4, 2**53 - 1])),
        "hold": draw(st.sampled_from([0, DAY])),
        "start": draw(st.sampled_from([None, START])),
        # In the long epochs, names wait for the last quarter.
        "closes": draw(st.sampled_from([5, 30])) * DAY,
    }


def model_of(rows: list[tuple[float, ...]]) -> np.ndarray:
    repeated = (rows * (ITEMS // len(rows) + 1))[:ITEMS]
    return np.array(repeated, np.float32)


Seen = list[tuple[Any, ...]]
Moments = list[list[int]]


def seen_of(
    moments: Moments,
    seed: int,
    *,
    model: list[tuple[float, ...]] | None = None,
    catalogue: Catalogue | None = None,
    with_reports: bool = False,
    **changes: Any,
) -> Seen:
    """Live three epochs and return what everybody else sees; on request, with opened reports."""
    world, coins, seen = World(**changes), Random(seed), list[tuple[Any, ...]]()
    if catalogue is not None:
        world.catalogue = catalogue
        world.add(catalogue.raw)
    proxy = FakeProxy(world)

    def publish(epoch: int) -> Manifest:
        V = world.items(epoch) if model is None else model_of(model)
        proxy.publish(world.signed(epoch, model=world.add(encode_items(V))))
        return proxy.signed.manifest

    def sleep(seconds: float) -> None:
        world.now += seconds

    def words(users: int, reports: int) -> np.ndarray:
        # Where the history is known already: who touched more takes longer.
        world.now += 0.02 * sum(map(len, moments))
        drawn = np.frombuffer(coins.randbytes(8 * users * (reports + 1) * 4), np.uint64)
        return drawn.reshape(users, reports + 1, 4)

    with tempfile.TemporaryDirectory() as folder:
        with world.create(Path(folder), 1e6, accept=False, entropy=coins.randbytes) as client:
            for items in moments:
                client.record([item(number) for number in items])
            client.accept(publish(1).terms, 1e6)
            proxy.before = lambda call: seen.append((call, round(world.now, 6)))
            for epoch in (1, 2, 3):
                world.now = (epoch + 0.25) * DAY
                publish(epoch)
                try:
                    synced = client.sync(proxy, draw_words=words, sleep=sleep, jitter=3_600)
                    seen.append((synced.outcome, synced.spent, synced.remaining, synced.sentence))
                except SottovoceError as error:
                    seen.append((type(error), str(error)))
                assert client.recommend(3)
                if with_reports:
                    seen.append(opened_batch(world, proxy))
            status = client.get_status()
            seen.append((status.batches, status.spent, status.epochs))
        seen.extend(
            (one.training, one.epoch, one.mechanism, one.epsilon, one.reports)
            for one in charges(Path(folder))
        )
    seen.append(tuple(len(batch) for batch in proxy.received))
    return seen


def opened_batch(world: World, proxy: FakeProxy) -> tuple[Any, ...]:
    """Return head, id, size and reports of the newest batch."""
    batch, signed = proxy.received[-1], proxy.signed
    directions = signed.manifest.build().n_directions
    opened = open_reports(
        batch[56:], world.epoch_keys[signed.manifest.epoch], signed.hash, directions
    )
    assert batch[8:40] == signed.hash
    return batch[:8], batch[40:56], len(batch), opened.reports.tolist()


@given(
    rows=models,
    changes=hostile(),
    n_known=st.sampled_from([0, 1, ITEMS]),
    history=st.sets(st.integers(0, ITEMS - 1), max_size=12),
    one=st.integers(0, ITEMS - 1),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=choose(by_day=25, at_night=250))
def test_visible_behaviour_does_not_depend_on_one_item(
    rows: list[tuple[float, ...]],
    changes: dict[str, Any],
    n_known: int,
    history: set[int],
    one: int,
    seed: int,
) -> None:
    """Try catalogues in which all items are new, or all but the one that was touched last."""
    ids = [item(number) if n_known == ITEMS else f"new-{number}" for number in range(ITEMS)]
    if n_known:
        ids[one] = item(one)
    catalogue = Catalogue.from_items(Item(name, "Title") for name in ids)
    rest = sorted(history - {one})
    seen = seen_of([rest], seed, model=rows, catalogue=catalogue, **changes)
    assert seen == seen_of([rest, [one]], seed, model=rows, catalogue=catalogue, **changes)
    assert any(entry[:1] in (("sent",), ("sitting out",), ("too early",)) for entry in seen)


# Order and tags change what is recommended here, and nothing that leaves.


LOUD: dict[str, Any] = {"epsilon": 40.0, "reports": 30}
"""So that reports say what a device knows: with noise alone they would be alike anyway."""


def catalogue_of(tags: Sequence[dict[str, Any]]) -> Catalogue:
    return Catalogue.from_items(
        Item(item(number), f"Title {number}", tags[number % len(tags)]) for number in range(ITEMS)
    )


CATALOGUES = {
    "none": catalogue_of([{}]),
    "genres": catalogue_of([{"genre": ("Horror",)}, {"genre": ("Children", "Comedy")}]),
    "years": catalogue_of([{"year": 1950 + year} for year in range(25)]),
    "both": catalogue_of([{"genre": ("a",), "year": 5}, {"year": 7}, {"genre": ("b",)}]),
}


@st.composite
def same_items_twice(draw: st.DrawFn) -> tuple[Moments, Moments]:
    """Draw two lives: the same items in other orders, at once or one by one, or again."""
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
@settings(max_examples=choose(by_day=6, at_night=50))
def test_reports_depend_on_neither_order_nor_tags(
    lives: tuple[Moments, Moments], catalogues: tuple[str, str], seed: int
) -> None:
    first, second = (
        seen_of(life, seed, catalogue=CATALOGUES[name], with_reports=True, **LOUD)
        for life, name in zip(lives, catalogues, strict=True)
    )
    assert first == second


def test_reports_depend_on_the_items() -> None:
    # The tests above could not fail if reports did not depend on the history at all.
    one, other = (seen_of([[1, 2], [last]], 1, with_reports=True, **LOUD) for last in (3, 40))
    reports = [[entry[3] for entry in seen if isinstance(entry[-1], list)] for seen in (one, other)]
    assert len(reports[0]) == len(reports[1]) == 3
    assert reports[0] != reports[1]
    shapes = [
        [(*e[:3], len(e[3])) if isinstance(e[-1], list) else e for e in seen]
        for seen in (one, other)
    ]
    assert shapes[0] == shapes[1]
