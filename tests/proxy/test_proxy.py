"""One beat after the other: mirror, tell, flush, forward, go on; and the power goes at any step."""

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from sottovoce.errors import (
    ClosedError,
    RefusedError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import SEALED, batch_size
from sottovoce.proxy import ProxyStore, shuffle
from sottovoce.proxy.forward import MirroredEpoch
from tests.crash import FOREVER, Life, MortalDatabase, PowerCut, make_mortal
from tests.proxy.world import (
    CLOSES,
    ENDS,
    HOLD,
    OPENS,
    MakeWorld,
    World,
    all_reports,
    dummies,
    metric,
    opened,
    raw_bytes,
    signed,
)

DUMMIES = 5


def beats_at_once(world: World, number: int) -> None:
    """From as many threads: they come one after the other."""
    one = threading.Lock()

    def alone(_: str) -> None:
        assert one.acquire(blocking=False), "two beats talk to the server at once"
        time.sleep(0.005)
        one.release()

    world.server.before = alone
    with ThreadPoolExecutor(number) as pool:
        for beat in [pool.submit(world.proxy.tick) for _ in range(number)]:
            beat.result()
    world.server.before = lambda _: None


def test_a_whole_epoch_and_the_next(world: World) -> None:
    sent = world.send(5)
    world.proxy.tick()
    assert world.server.told == [], "nothing is told while the epoch runs"
    assert metric(world, "overdue_seconds") == 0
    assert metric(world, "crowd") == 3
    world.clock.now = CLOSES + 70
    assert metric(world, "overdue_seconds") == 70
    world.proxy.tick()
    assert world.server.told == [(1, "enough")]
    assert not world.server.chunks, "the server has not closed it yet"
    world.close_epoch()
    beats_at_once(world, 8)
    assert world.server.commits == {1: (4, 20)}
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))
    assert [chunk.reports for chunk in world.server.chunks[1].values()] == [5, 5, 5, 5]
    assert not anywhere(all_reports(sent), world.folder)
    assert metric(world, "reports_forwarded_total") == 20
    assert metric(world, 'flushes_total{outcome="shuffled"}') == 1
    assert metric(world, "overdue_seconds") == 0
    world.server.go_on(signed(2))
    world.proxy.tick()
    assert world.proxy.manifest() == world.now
    second = world.send(3)
    world.end_epoch()
    assert sorted(world.server.reports(2)) == sorted(all_reports(second))
    assert world.server.commits == {1: (4, 20), 2: (3, 12)}
    assert metric(world, "epoch") == 2


def anywhere(reports: Iterable[bytes], folder: Path) -> bool:
    raw = raw_bytes(folder)
    return any(report in raw for report in reports)


def beat_cut_off_at(world: World, cut_off: str) -> None:
    """The line breaks at this call, once."""

    def broken(call: str) -> None:
        if call == cut_off:
            world.server.before = lambda _: None
            raise UnavailableError("broken")

    world.server.before = broken
    with pytest.raises(UnavailableError):
        world.proxy.tick()


def test_an_epoch_ends_by_the_proxys_own_clock_without_a_server(world: World) -> None:
    """Not at its time, but when nobody is waited for any more."""
    sent = world.send(3)
    world.server.reachable = False
    world.clock.now = ENDS - 1
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    with world.store.read() as tables:
        assert tables.count_batches() == 3
    world.clock.now = ENDS
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    with world.store.read() as tables:
        assert tables.count_batches() == 0  # shuffled already: nobody waits for the server
    world.server.reachable = True
    world.end_epoch()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


@pytest.mark.parametrize(("own", "terms"), [(3, 7), (7, 3)])
@pytest.mark.parametrize("restarted", [False, True])
def test_n_minus_one_waits_and_is_then_discarded(
    make_world: MakeWorld, own: int, terms: int, restarted: bool
) -> None:
    """One person fewer than the threshold: nothing is handed on, in the end nothing is left."""
    few = 3  # fewer than a person's reports: they stand for nobody
    world = make_world(signed(least_clients=terms, dummies=few), least_clients=own)
    sent = world.send(6)
    world.close_epoch()
    for _ in range(3):
        if restarted:
            world.reopen()
        world.proxy.tick()
    drawn = dummies(world)
    assert len(drawn) == few
    assert world.server.told == [(1, "short")] * 3
    assert not world.server.chunks
    assert not world.server.commits
    assert anywhere(all_reports(sent), world.folder), "they wait"
    world.clock.now = ENDS
    world.proxy.tick()
    assert not world.server.chunks
    assert world.server.commits == {1: (0, 0)}
    assert not anywhere([*all_reports(sent), *drawn], world.folder)
    assert not anywhere([batch.id for batch in sent], world.folder)
    assert not dummies(world)
    assert metric(world, 'flushes_total{outcome="discarded"}') == 1
    with pytest.raises(ClosedError):
        world.send(1)


def test_a_crowd_that_comes_late_is_forwarded_whole(make_world: MakeWorld) -> None:
    """Exactly the threshold is enough."""
    world = make_world(signed(least_clients=7))
    sent = world.send(6)
    world.clock.now = CLOSES + HOLD / 2
    world.close_epoch()
    world.proxy.tick()
    sent += world.send(1)
    world.proxy.tick()
    assert world.server.told == [(1, "short"), (1, "enough")]
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


def test_nobody_at_all_is_said_and_committed_at_once(make_world: MakeWorld) -> None:
    """So that the server need not wait for this proxy."""
    world = make_world(signed(dummies=DUMMIES))
    world.end_epoch()
    assert world.server.told == [(1, "none")]
    assert world.server.commits == {1: (0, 0)}
    assert not dummies(world)


@pytest.mark.parametrize("people", [0, 1, 5])
@pytest.mark.parametrize("how", ["closed", "applied", "next manifest"])
def test_a_server_in_a_hurry_gets_nothing(
    make_world: MakeWorld, how: str, people: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Before its time an epoch is ended by nobody: it could be the moment after one person came.

    Whoever has reported loses that; nobody else is asked to report in an epoch without hope.
    """
    world = make_world(signed(dummies=DUMMIES))
    sent = world.send(people)
    world.clock.now = CLOSES - 1
    world.proxy.tick()
    drawn = dummies(world)
    assert len(drawn) == DUMMIES - 1
    if how == "next manifest":
        world.server.go_on(signed(2))
    else:
        world.server.states[1] = "closed" if how == "closed" else "applied"
    for _ in range(3):
        world.proxy.tick()
    assert not world.server.chunks
    assert not world.server.commits
    assert world.server.told == []
    if how != "closed":
        assert not anywhere([*all_reports(sent), *drawn], world.folder)
        assert not dummies(world)
        assert metric(world, "reports_lost_total") == 4 * people
        assert metric(world, 'flushes_total{outcome="given_up"}') == 1
        assert ("ERROR" in caplog.text) == bool(people), "no error where nothing is lost"
        with pytest.raises(ClosedError if how == "applied" else WrongEpochError):
            world.proxy.accept(world.people.batch(signed(dummies=DUMMIES)).encode())
    else:
        assert not sent or anywhere(all_reports(sent), world.folder), "they wait for its time"
        world.send(1)


def test_no_dummies_are_drawn_for_an_epoch_that_the_server_has_left(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(signed(dummies=DUMMIES))
    world.clock.now = CLOSES
    world.server.go_on(signed(2, opens=CLOSES, closes=ENDS))
    monkeypatch.setattr("sottovoce.proxy.shuffle.seal_reports", None)
    world.proxy.tick()
    assert world.proxy.manifest() == world.now


def test_a_new_manifest_is_shown_only_after_the_flush(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(4)
    world.server.go_on(signed(2))
    publish = world.proxy.mirror.publish
    seen = []

    def watched(newer: MirroredEpoch) -> None:
        with world.store.read() as tables:
            seen.append((tables.is_flushed(1), tables.count_batches()))
        publish(newer)

    monkeypatch.setattr(world.proxy.mirror, "publish", watched)
    world.proxy.tick()
    assert seen == [(True, 0)]
    assert world.proxy.manifest() == world.now
    assert world.proxy.intake.waiting == 0


@pytest.mark.parametrize("flushed", [False, True])
def test_applied_without_us(world: World, flushed: bool) -> None:
    """Before the flush, or between it and the handing in."""
    sent = world.send(4)
    world.close_epoch()

    def go_on(call: str) -> None:
        if call == ("put_chunk" if flushed else "contact"):
            world.server.states[1] = "applied"

    world.server.before = go_on
    world.proxy.tick()
    world.proxy.tick()
    assert metric(world, "reports_lost_total") == 16
    assert not anywhere(all_reports(sent), world.folder)
    with pytest.raises(ClosedError):
        world.send(1)


@pytest.mark.parametrize("people", [0, 3])
def test_a_restored_server_that_never_knew_an_epoch(world: World, people: int) -> None:
    """It has gone beyond what it forgot: what waits of that must not keep later epochs here."""
    world.send(people)
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk" if people else "commit")
    world.server.go_on(signed(9))
    del world.server.states[1]
    world.proxy.tick()
    assert metric(world, "reports_lost_total") == 4 * people
    world.send(3)
    world.end_epoch()
    assert world.server.commits[9][1] == 12


def test_an_unknown_epoch_that_is_not_over_is_kept(world: World) -> None:
    """The server may find its database again."""
    world.send(3)
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk")
    state = world.server.states.pop(1)
    world.proxy.tick()
    assert world.proxy.is_barred
    world.server.states[1] = state
    world.proxy.tick()
    assert world.server.commits[1][1] == 12


def test_a_server_that_forgot_gets_everything_again(world: World) -> None:
    sent = world.send(4)
    world.close_epoch()

    def forget(call: str) -> None:
        if call == "commit":
            world.server.chunks[1].popitem()
            world.server.before = lambda _: None

    world.server.before = forget
    with pytest.raises(RefusedError, match="not what is here"):
        world.proxy.tick()
    world.proxy.tick()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


# Dummies: reports of nobody, so many in every epoch.


def at(part: float) -> float:
    """The time when so much of the epoch is over."""
    return OPENS + part * (CLOSES - OPENS)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("reachable", [False, True])
def test_dummies_are_drawn_as_time_goes_by(
    make_world: MakeWorld, restarted: bool, reachable: bool
) -> None:
    """Whatever else happens; what is due is drawn once, and nothing before."""
    world = make_world(signed(dummies=DUMMIES))
    world.server.reachable = reachable
    drawn: list[bytes] = []
    moments = [(-1.0, 0), (0.0, 0), (0.3, 1), (0.5, 2), (0.5, 2), (0.45, 2), (1.0, 5), (1.05, 5)]
    for part, due in moments:
        world.clock.now = at(part)
        if restarted:
            world.reopen()
        with suppress(UnavailableError):
            world.proxy.tick()
        now = dummies(world)
        assert (len(now), now[: len(drawn)]) == (due, drawn), part
        drawn = now
    found = opened(drawn, world.now)
    assert len(set(found.keys.tolist())) == DUMMIES, "all distinct"
    assert found.undecodable == 0
    if reachable:
        assert {crowd for _, crowd in world.server.told} == {"none"}


@pytest.mark.parametrize("was_down", [False, True])
def test_an_epochs_dummies_arrive_with_its_reports_and_the_next_has_its_own(
    make_world: MakeWorld, was_down: bool
) -> None:
    """The same number after a proxy was down the whole time: it makes up for it at the end."""
    world = make_world(signed(1, dummies=DUMMIES), chunk_reports=5)
    for epoch in (1, 2):
        world.clock.now = OPENS
        sent = all_reports(world.send(5))
        for part in () if was_down else (0.4, 0.9):
            world.clock.now = at(part)
            world.proxy.tick()
        if was_down:
            world.clock.now = ENDS
            world.reopen()
        world.end_epoch()
        arrived = world.server.reports(epoch)
        assert [chunk.reports for chunk in world.server.chunks[epoch].values()] == [5] * 5
        assert len(set(arrived)) == len(arrived) == 20 + DUMMIES
        others = [report for report in arrived if report not in sent]
        assert arrived[-DUMMIES:] != others != arrived[:DUMMIES], "among people's"
        found = opened(others, world.now)
        assert (len(found.reports), found.undecodable) == (DUMMIES, 0)
        assert not dummies(world)
        assert not anywhere(arrived, world.folder)
        assert metric(world, "batches_waiting") == 0
        world.server.go_on(signed(epoch + 1, dummies=DUMMIES))
        world.clock.now = OPENS
        world.proxy.tick()
        assert not dummies(world)


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
        assert len(dummies(world)) == 10 * (beats + 1)
    full = make_world(signed(dummies=100), most_bytes=SEALED * 100)
    full.clock.now = CLOSES - 1
    full.proxy.tick()
    assert not dummies(full)
    (said,) = full.proxy.troubles.texts
    assert f"most_bytes must be far above {SEALED * 100 + 3 * batch_size(4)}" in said
    assert full.proxy.is_barred, "nobody pays for what could not be kept"


class FragileWorld(World):
    """Its disk, as it was at the moment of death, is all that the next life has."""

    def __init__(self, folder: Path, steps: int):
        super().__init__(folder, signed(dummies=DUMMIES))
        self.life, self.lives = Life(steps), 1
        self.server.before = self.life.step
        self._revive(folder)

    def _revive(self, folder: Path) -> None:
        self.store.close()
        self.store = ProxyStore.open(folder)
        assert isinstance(self.store._writer, MortalDatabase)
        self.store._writer.life = self.life
        self.folder, self.proxy = folder, self._proxy()

    def insist(self, action: Callable[[], object]) -> None:
        """Do it; after a power cut do it again, from what the disk held."""
        try:
            action()
        except PowerCut:
            self.lives += 1
            self.life.left = FOREVER
            disk = self.folder.with_name(f"life-{self.lives}")
            shutil.copytree(self.folder, disk)
            self._revive(disk)
            self.proxy.tick()  # nothing is taken before
            action()


def live(folder: Path, steps: int = FOREVER) -> FragileWorld:
    """Two epochs and the beginning of a third; when the second is heard of, its time is over."""
    world = FragileWorld(folder / "life-1", steps)
    world.insist(lambda: world.proxy.tick())
    world.clock.now = (OPENS + CLOSES) / 2
    world.insist(lambda: world.proxy.tick())
    for epoch in (1, 2):
        batches = world.people.batches(world.now, 3)
        for batch in batches:
            world.insist(lambda data=batch: world.proxy.accept(data.encode()))  # type: ignore[misc]
        world.close_epoch()
        world.insist(lambda: world.proxy.tick())
        world.insist(lambda: world.proxy.tick())
        arrived = world.server.reports(epoch)
        assert world.server.commits[epoch] == (4, 12 + DUMMIES)
        assert set(all_reports(batches)) < set(arrived)
        assert len(set(arrived)) == 12 + DUMMIES
        assert len(opened(arrived, world.now).reports) == DUMMIES, "the others are random bytes"
        raw = raw_bytes(world.folder)
        assert not any(batch.id in raw for batch in batches)
        assert not any(report in raw for report in arrived)
        world.server.go_on(signed(epoch + 1, dummies=DUMMIES))
        world.insist(lambda: world.proxy.tick())
        assert world.proxy.manifest() == world.now
    world.store.close()
    return world


@pytest.mark.slow
def test_a_power_cut_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every acknowledged report arrives exactly once, and nothing stays on the disk."""
    make_mortal(monkeypatch)
    monkeypatch.setattr("sottovoce.proxy.shuffle.DRAWN", 2)
    whole = live(tmp_path / "whole").life
    assert {"before a commit", "after a cleaning", "put_chunk", "after commit"} <= whole.done
    for steps in range(FOREVER - whole.left):
        world = live(tmp_path / f"cut-{steps}", steps)
        assert world.lives == 2, steps
        with suppress(OSError):
            shutil.rmtree(tmp_path / f"cut-{steps}")
