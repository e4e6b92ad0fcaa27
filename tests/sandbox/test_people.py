"""People who report without a device: when they send, what they send, and when they stop."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest

from sottovoce.client import TermsError
from sottovoce.client.reporting import make_batch
from sottovoce.core import draw_os_words
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Batch, Catalogue, Item, Release, SignedManifest, open_reports
from sottovoce.sandbox.people import (
    MAX_COMPANION_ITEMS,
    PEOPLE_PER_PIECE,
    SENDING_FRACTION,
    InventedPeople,
    PublicReader,
    invent_companions,
)
from tests.client.world import ITEMS, REPORTS, FakeProxy, World

# Seconds: epoch e opens e - 1 lengths after the first.
FIRST_OPENS = 1000
EPOCH_LENGTH = 100


def times(epoch: int) -> dict[str, int]:
    opens = FIRST_OPENS + (epoch - 1) * EPOCH_LENGTH
    return {"opens": opens, "closes": opens + EPOCH_LENGTH}


# Terms of a training of names.
NAMES = {"mechanism": "named", "parameters": {"names": 2 * ITEMS}, "loud_fraction": 1 / (2 * ITEMS)}


class FakeTime:
    """A clock that moves when somebody sleeps, with events at given moments."""

    def __init__(self, now: float = FIRST_OPENS) -> None:
        self.now = now
        self.slept: list[float] = []
        self.events: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds + 1e-6
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()


class Scene:
    """A proxy in its first epoch, and a clock at its opening."""

    def __init__(self, **changes: Any) -> None:
        self.world = World(**changes)
        self.time = FakeTime()
        self.proxy = FakeProxy(self.world, **times(1))

    def publish_at(self, moment: float, epoch: int, **changes: object) -> None:
        signed = self.world.signed(epoch, **{**times(epoch), **changes})
        self.time.events.append((moment, lambda: self.proxy.publish(signed)))

    def finish_at(self, moment: float, epoch: int) -> None:
        self.publish_at(moment, epoch, public_key=None)

    def report(self, people: Iterator[list[int]], per_epoch: int) -> list[Batch]:
        """Return what people sent until the training was finished."""
        InventedPeople(
            self.proxy,
            self.world.verification_key,
            lambda _: people,
            per_epoch,
            clock=self.time.clock,
            sleep=self.time.sleep,
        ).take_part()
        return [Batch.decode(data, REPORTS) for data in self.proxy.received]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def invent_anybody() -> Iterator[list[int]]:
    return ([number % ITEMS] for number in itertools.count())


def test_new_people_report_in_every_epoch_spread_over_it(scene: Scene) -> None:
    moments: list[float] = []
    scene.proxy.after = lambda call: moments.append(scene.time.now) if call == "send" else None
    scene.publish_at(FIRST_OPENS + EPOCH_LENGTH, 2)
    scene.finish_at(FIRST_OPENS + 2 * EPOCH_LENGTH, 3)
    n_people = 2 * PEOPLE_PER_PIECE + 3
    people = invent_anybody()
    sent = scene.report(people, n_people)
    assert next(people) == [2 * n_people % ITEMS], "nobody came twice"
    assert Counter(batch.epoch for batch in sent) == {1: n_people, 2: n_people}
    assert len({batch.id for batch in sent}) == 2 * n_people
    spread = SENDING_FRACTION * EPOCH_LENGTH * np.arange(n_people) / n_people
    assert moments[:n_people] == pytest.approx((FIRST_OPENS + spread).tolist(), abs=0.1)
    counts = Counter(scene.proxy.calls)
    assert (counts["model"], counts["catalogue"], counts["send"]) == (2, 1, 2 * n_people)


def test_batch_is_sent_again_to_a_busy_proxy(scene: Scene) -> None:
    refusals = itertools.chain([True, True], itertools.repeat(False))
    calls: list[str] = []

    def refuse(call: str) -> None:
        calls.append(call)
        if call == "send" and next(refusals):
            raise UnavailableError("429")

    scene.proxy.before = refuse
    scene.finish_at(FIRST_OPENS + EPOCH_LENGTH, 2)
    assert len(scene.report(invent_anybody(), 2)) == 2
    assert calls.count("send") == 4


def test_nobody_reports_under_worse_terms_than_the_first(scene: Scene) -> None:
    scene.publish_at(FIRST_OPENS + EPOCH_LENGTH, 2, epsilon=3.0)
    with pytest.raises(TermsError):
        scene.report(invent_anybody(), 2)
    assert len(scene.proxy.received) == 2


@pytest.mark.parametrize("closed_by", ["proxy", "clock"])
def test_nobody_reports_after_the_end_of_an_epoch(scene: Scene, closed_by: str) -> None:
    scene.proxy.closed = closed_by == "proxy"
    if closed_by == "clock":
        scene.time.now = FIRST_OPENS + EPOCH_LENGTH + 1.0
    scene.finish_at(FIRST_OPENS + EPOCH_LENGTH + 2.0, 2)
    assert scene.report(invent_anybody(), 3) == []
    assert scene.proxy.calls.count("send") == (1 if closed_by == "proxy" else 0)


@pytest.mark.parametrize("changes", [{}, NAMES])
def test_reports_are_those_of_devices_with_the_same_random_words(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    scene = Scene(**changes)
    world, signed, histories = scene.world, scene.proxy.signed, [[1, 2], [3], []]
    scene.finish_at(FIRST_OPENS + EPOCH_LENGTH, 2)
    words = draw_os_words(len(histories), REPORTS)
    monkeypatch.setattr("sottovoce.sandbox.people.draw_os_words", lambda *_: words)
    sent = scene.report(iter(histories), len(histories))
    release = Release(signed, world.items(1), world.catalogue)
    for number, (batch, history) in enumerate(zip(sent, histories, strict=True)):
        own = make_batch(release, history, 0, lambda *_, n=number: words[[n]], os.urandom)
        expected = Batch.decode(own.batch, REPORTS)
        assert open_batch(batch, world, signed) == open_batch(expected, world, signed)


def open_batch(batch: Batch, world: World, signed: SignedManifest) -> list[int]:
    directions = signed.manifest.build().n_directions
    opened = open_reports(batch.sealed, world.epoch_keys[1], signed.hash, directions)
    return [int(report) for report in opened.reports]


def test_reader_waits_for_the_next_epoch() -> None:
    world, time = World(), FakeTime(0.0)
    proxy = FakeProxy(world)
    reader = PublicReader(proxy, world.verification_key, clock=time.clock, sleep=time.sleep)
    assert np.array_equal(reader.read_release(reader.read_manifest()).V, world.items(1))
    time.events = [(5.0, lambda: proxy.publish(world.signed(2)))]
    assert reader.wait_for_epoch_after(1, 10.0).manifest.epoch == 2
    with pytest.raises(UnavailableError):
        reader.wait_for_epoch_after(2, 7.0)


def make_catalogue(*kinds: str) -> Catalogue:
    return Catalogue.from_items(
        Item(f"{number}", "Title", {"kind": (kind,)} if kind else {})
        for number, kind in enumerate(kinds)
    )


def test_companion_likes_items_of_one_tag() -> None:
    catalogue = make_catalogue(*["tea"] * 20, *["coffee"] * 3, "mill")
    histories = list(islice(invent_companions(catalogue, Random(0)), 200))
    assert {len(rows) for rows in histories} == {MAX_COMPANION_ITEMS, 3}
    assert all(max(rows) < 20 or min(rows) >= 20 for rows in histories)
    assert {rows[-1] >= 20 for rows in histories} == {True, False}
    assert all(rows == sorted(set(rows)) and rows[-1] < 23 for rows in histories)


@pytest.mark.parametrize("size", [1, 4, 50])
def test_companion_likes_any_items_if_none_has_tags(size: int) -> None:
    rows = next(invent_companions(make_catalogue(*[""] * size), Random(1)))
    assert len(rows) == min(MAX_COMPANION_ITEMS, size)
    assert max(rows) < size
