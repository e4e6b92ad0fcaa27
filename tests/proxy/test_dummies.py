"""The proxy's own reports: exactly so many of nobody in every mix, whatever happens before it."""

from collections import Counter

import pytest
from scipy import stats

from sottovoce.protocol import SEALED, new_epoch_key, open_reports, public_key_of
from sottovoce.proxy import shuffle
from tests.proxy.world import (
    CLOSES,
    ENDS,
    FACTORS,
    ITEMS,
    OPENS,
    MakeWorld,
    World,
    all_reports,
    raw_bytes,
    signed,
)

SIGNED = 2 * ITEMS * FACTORS


def drawn(world: World) -> int:
    with world.store.read() as tables:
        return tables.count_dummies()


def test_they_are_uniform_and_sealed_like_any_report(make_world: MakeWorld) -> None:
    key = new_epoch_key()
    world = make_world(signed(dummies=3_000, public_key=public_key_of(key)))
    people = set(all_reports(world.send(3)))
    world.end_epoch()
    seen = world.server.reports(1)
    dummies = b"".join(report for report in seen if report not in people)
    assert len(seen) == len(people) + 3_000
    found = open_reports(dummies, key, world.now.hash, SIGNED // 2)
    assert (len(found.reports), found.undecodable) == (3_000, 0)
    counts = Counter(found.reports.tolist())
    assert stats.chisquare([counts[kind] for kind in range(SIGNED)]).pvalue > 1e-3
    places = [at for at, report in enumerate(seen) if report in people]
    assert max(places) - min(places) > 100, "they lie among the others"


def test_there_are_as_many_however_the_epoch_went(make_world: MakeWorld) -> None:
    """Drawn as time goes by, over a restart, a clock that goes back, and a flush that fails."""
    world = make_world(signed(dummies=1_001))
    world.send(3)
    for now, due in (((OPENS + CLOSES) / 2, 500), (OPENS - 5, 500), (CLOSES - 1, 1_000)):
        world.clock.now = now
        world.proxy.tick()
        assert drawn(world) == due
        world.reopen()
    world.close_epoch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "cut", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                world.proxy.tick()
    world.reopen()
    world.proxy.tick()
    assert len(set(world.server.reports(1))) == len(world.server.reports(1)) == 12 + 1_001
    assert drawn(world) == 0
    assert not any(report in raw_bytes(world.folder) for report in world.server.reports(1)[:50])


def test_an_epoch_begins_with_none_of_the_one_before(make_world: MakeWorld) -> None:
    world = make_world(signed(dummies=100))
    world.clock.now = CLOSES - 1
    world.proxy.tick()
    assert drawn(world) == 99
    world.clock.now = OPENS
    world.server.go_on(signed(2, dummies=100))
    world.proxy.tick()
    assert drawn(world) == 0


def test_none_is_drawn_for_nobody(make_world: MakeWorld) -> None:
    """At the end of an epoch without a crowd they would be thrown away with it."""
    for people in (0, 2):
        world = make_world(signed(dummies=50))
        world.send(people)
        world.clock.now = ENDS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shuffle, "seal_reports", lambda *_: 1 / 0)
            world.server.states[1] = "closed"
            world.proxy.tick()
        assert world.server.commits == {1: (0, 0)}


def test_a_server_that_asks_for_too_many_keeps_no_beat_and_fills_no_disk(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.proxy.proxy.A_BEAT", 10)
    world = make_world(signed(dummies=10**7))
    for beats in range(1, 3):
        world.clock.now = CLOSES - 1
        world.proxy.tick()
        assert drawn(world) == 10 * (beats + 1)
    full = make_world(signed(dummies=100), most_bytes=SEALED * 100)
    full.clock.now = CLOSES - 1
    full.proxy.tick()
    assert drawn(full) == 0
