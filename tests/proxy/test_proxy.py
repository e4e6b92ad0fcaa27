"""Ticks of a proxy: mirror, contact, flush, forward and continue; power cuts at any step."""

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
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import SEALED_BYTES, batch_size
from sottovoce.protocol.contact import DAY_SECONDS, MONTH_SECONDS
from sottovoce.proxy import ProxyStore
from sottovoce.proxy import dummies as dummies_module
from sottovoce.proxy.mirror import MirroredEpoch
from sottovoce.proxy.store import DATABASE_FILE, Tables
from sottovoce.storage.database import Database
from tests.crash import UNLIMITED_STEPS, Life, MortalDatabase, PowerCut, make_mortal
from tests.proxy.world import (
    CLOSES,
    ENDS,
    HOLD,
    OPENS,
    Clock,
    MakeWorld,
    World,
    all_reports,
    count_batches,
    dummies,
    metric,
    opened,
    raw_bytes,
    signed,
)

DUMMIES = 5


def beats_at_once(world: World, number: int) -> None:
    """Run ticks from several threads; they run one after the other."""
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
    assert world.proxy.manifest == world.now
    second = world.send(3)
    world.end_epoch()
    assert sorted(world.server.reports(2)) == sorted(all_reports(second))
    assert world.server.commits == {1: (4, 20), 2: (3, 12)}
    assert metric(world, "epoch") == 2


def anywhere(reports: Iterable[bytes], folder: Path) -> bool:
    raw = raw_bytes(folder)
    return any(report in raw for report in reports)


def beat_cut_off_at(world: World, cut_off: str) -> None:
    """Run a tick in which the connection breaks once, at this call."""

    def broken(call: str) -> None:
        if call == cut_off:
            world.server.before = lambda _: None
            raise UnavailableError("broken")

    world.server.before = broken
    with pytest.raises(UnavailableError):
        world.proxy.tick()


def test_an_epoch_ends_by_the_proxys_own_clock_without_a_server(world: World) -> None:
    """End it not at its closing time, but when the proxy stops waiting for people."""
    sent = world.send(3)
    world.server.reachable = False
    world.clock.now = ENDS - 1
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    assert count_batches(world) == 3
    world.clock.now = ENDS
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    assert count_batches(world) == 0  # shuffled already: nobody waits for the server
    world.server.reachable = True
    world.end_epoch()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


@pytest.mark.parametrize(("own", "terms"), [(3, 7), (7, 3)])
@pytest.mark.parametrize("restarted", [False, True])
def test_crowd_below_the_threshold_waits_and_is_discarded(
    make_world: MakeWorld, own: int, terms: int, restarted: bool
) -> None:
    """Hand on nothing with one person below the threshold, and keep nothing in the end."""
    few = 3  # fewer than a person's reports: they stand for nobody
    world = make_world(signed(min_clients=terms, dummies=few), min_clients=own)
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


def test_late_crowd_is_forwarded_completely(make_world: MakeWorld) -> None:
    # A crowd of exactly the threshold is large enough.
    world = make_world(signed(min_clients=7))
    sent = world.send(6)
    world.clock.now = CLOSES + HOLD / 2
    world.close_epoch()
    world.proxy.tick()
    sent += world.send(1)
    world.proxy.tick()
    assert world.server.told == [(1, "short"), (1, "enough")]
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


def test_epoch_without_people_is_committed_at_once(make_world: MakeWorld) -> None:
    # The server need not wait for it.
    world = make_world(signed(dummies=DUMMIES))
    world.end_epoch()
    assert world.server.told == [(1, "none")]
    assert world.server.commits == {1: (0, 0)}
    assert not dummies(world)


@pytest.mark.parametrize("people", [0, 1, 5])
@pytest.mark.parametrize("how", ["closed", "applied", "next manifest"])
def test_server_that_closes_an_epoch_early_gets_nothing(
    make_world: MakeWorld, how: str, people: int, caplog: pytest.LogCaptureFixture
) -> None:
    # No proxy ends an epoch before its time: this could be the moment after one person reported.
    # The reports that came are lost; nobody else reports in an epoch that cannot count.
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
            world.accept(world.people.batch(signed(dummies=DUMMIES)))
    else:
        assert not sent or anywhere(all_reports(sent), world.folder), "they wait for its time"
        world.send(1)


def test_no_dummies_are_drawn_for_an_epoch_that_the_server_has_left(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(signed(dummies=DUMMIES))
    world.clock.now = CLOSES
    world.server.go_on(signed(2, opens=CLOSES, closes=ENDS))
    monkeypatch.setattr("sottovoce.proxy.dummies.seal_reports", None)
    world.proxy.tick()
    assert world.proxy.manifest == world.now


def test_a_new_manifest_is_shown_only_after_the_flush(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(4)
    world.server.go_on(signed(2))
    publish = world.proxy.mirror.publish
    seen = []

    def watched(newer: MirroredEpoch) -> None:
        with world.store.read() as tables:
            seen.append((tables.is_flushed(1), count_batches(world)))
        publish(newer)

    monkeypatch.setattr(world.proxy.mirror, "publish", watched)
    world.proxy.tick()
    assert seen == [(True, 0)]
    assert world.proxy.manifest == world.now
    assert world.proxy.intake.n_waiting == 0


@pytest.mark.parametrize("flushed", [False, True])
def test_epoch_that_was_applied_without_this_proxy(world: World, flushed: bool) -> None:
    # It was applied before the flush, or between the flush and the delivery.
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
    """Drop what waits for an epoch that the server lost, so that it blocks no later epoch."""
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
    """Keep the reports: the server may find its database again."""
    world.send(3)
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk")
    state = world.server.states.pop(1)
    world.proxy.tick()
    assert world.proxy.is_paused
    world.server.states[1] = state
    world.proxy.tick()
    assert world.server.commits[1][1] == 12


# Dummies: random reports, the same number in every epoch.


def at(part: float) -> float:
    """Return the time when this part of the epoch is over."""
    return OPENS + part * (CLOSES - OPENS)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("reachable", [False, True])
def test_dummies_are_drawn_when_they_are_due(
    make_world: MakeWorld, restarted: bool, reachable: bool
) -> None:
    # Each dummy is drawn once, and not before it is due, in all of these cases.
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
    drawn_reports = opened(drawn, world.now)
    assert len(set(drawn_reports.keys.tolist())) == DUMMIES, "all distinct"
    assert drawn_reports.undecodable == 0
    if reachable:
        assert {crowd for _, crowd in world.server.told} == {"none"}


@pytest.mark.parametrize("was_down", [False, True])
def test_every_epoch_has_its_own_dummies(make_world: MakeWorld, was_down: bool) -> None:
    """Draw the same number if the proxy was down the whole time: it draws them at the end."""
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
        other_reports = opened(others, world.now)
        assert (len(other_reports.reports), other_reports.undecodable) == (DUMMIES, 0)
        assert not dummies(world)
        assert not anywhere(arrived, world.folder)
        assert metric(world, "batches_waiting") == 0
        world.server.go_on(signed(epoch + 1, dummies=DUMMIES))
        world.clock.now = OPENS
        world.proxy.tick()
        assert not dummies(world)


def test_no_dummies_are_drawn_without_a_crowd(make_world: MakeWorld) -> None:
    """They would be discarded with the epoch."""
    for people in (0, 2):
        world = make_world(signed(dummies=50))
        world.send(people)
        world.clock.now = ENDS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dummies_module, "seal_reports", lambda *_: 1 / 0)
            world.server.states[1] = "closed"
            world.proxy.tick()
        assert world.server.commits == {1: (0, 0)}


def test_too_many_dummies_neither_delay_a_tick_nor_fill_the_disk(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.proxy.proxy.MAX_DUMMIES_PER_TICK", 10)
    world = make_world(signed(dummies=10**7))
    for beats in range(1, 3):
        world.clock.now = CLOSES - 1
        world.proxy.tick()
        assert len(dummies(world)) == 10 * (beats + 1)
    full = make_world(signed(dummies=100), max_bytes=SEALED_BYTES * 100)
    full.clock.now = CLOSES - 1
    full.proxy.tick()
    assert not dummies(full)
    (trouble,) = full.proxy.troubles.texts
    assert f"max_bytes must be far above {SEALED_BYTES * 100 + 3 * batch_size(4)}" in trouble
    assert full.proxy.is_paused, "nobody pays for what could not be kept"


def test_crowd_is_reported_again_to_a_restored_server(world: World) -> None:
    """Otherwise it would wait for the hold: the epoch is open there, and closed at the proxy."""
    sent = world.send(3)
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk")
    world.server.states[1] = "open"
    world.server.told.clear()
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    assert world.server.told == [(1, "enough")]
    world.server.states[1] = "closed"
    world.proxy.tick()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))
    world.server.states[1] = "open"
    world.server.told.clear()
    world.proxy.tick()
    assert world.server.told == [(1, "never")], "all of it was handed in, and is deleted"


def test_clock_that_was_not_compared_ends_no_epoch_for_a_month(world: World) -> None:
    # After a restart without a server, the clock may be wrong, and reports are paid for.
    sent = world.send(3)
    world.server.reachable = False
    world.reopen()
    for now, n_waiting in ((ENDS + 1, 3), (ENDS + MONTH_SECONDS - 1, 3), (ENDS + MONTH_SECONDS, 0)):
        world.clock.now = now
        with pytest.raises(UnavailableError):
            world.proxy.tick()
        assert count_batches(world) == n_waiting
    world.server.reachable = True
    world.end_epoch()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


def test_chunks_that_the_server_lost_are_sent_again(world: World) -> None:
    """Begin again at the next tick: the server refuses the commit because its counts differ."""
    sent = world.send(3)

    def lose(call: str) -> None:
        if call == "commit":
            world.server.chunks.clear()
            world.server.before = lambda _: None

    world.server.before = lose
    world.close_epoch()
    with pytest.raises(RefusedError):
        world.proxy.tick()
    world.proxy.tick()
    assert world.server.commits == {1: (3, 12)}
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


@pytest.mark.parametrize("dummies", [0, DUMMIES])
def test_reports_count_if_the_epoch_is_applied_before_the_commit(
    make_world: MakeWorld, dummies: int, caplog: pytest.LogCaptureFixture
) -> None:
    # What arrived counts, except among dummies.
    world = make_world(signed(dummies=dummies))
    world.send(3)

    def apply_first(call: str) -> None:
        if call == "commit":
            world.server.states[1] = "applied"

    world.server.before = apply_first
    world.end_epoch()
    assert metric(world, "reports_lost_total") == (12 + dummies if dummies else 0)
    assert metric(world, "reports_forwarded_total") == (0 if dummies else 12)
    assert ("are lost" in caplog.text) is bool(dummies)


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_deleted_folder_loses_no_acknowledged_report(world: World, how: str) -> None:
    """Take nothing more, and deliver the open files as long as the process lives."""
    sent = world.send(5)
    if how == "moved":
        world.folder.rename(world.folder.with_name("elsewhere"))
    else:
        shutil.rmtree(world.folder)
    world.proxy.tick()
    assert world.store.count_free_bytes() == 0
    with pytest.raises(UnavailableError):
        world.send(1)
    world.end_epoch()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))
    assert world.server.commits == {1: (4, 20)}


def test_an_epoch_that_cannot_be_mixed_is_overdue_and_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = world.send(3)
    world.clock.now = CLOSES + 70
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write_shuffled", broken_disk)
        world.close_epoch()
        for _ in range(2):
            with pytest.raises(StoreError):
                world.proxy.tick()
    assert metric(world, "overdue_seconds") == 70
    assert count_batches(world) == 3
    world.proxy.tick()
    assert metric(world, "overdue_seconds") == 0
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))


def broken_disk(*_: object) -> None:
    raise StoreError("the disk is full")


def test_missing_shuffled_reports_do_not_block_later_epochs(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.send(3)
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk")
    world.store.close()
    (world.folder / "epoch-1-shuffled.bin").unlink()
    world.reopen()
    world.proxy.tick()
    assert metric(world, "reports_lost_total") == 12
    assert "12 reports are lost" in caplog.text
    world.server.go_on(signed(2))
    world.proxy.tick()
    sent = world.send(3)
    world.end_epoch()
    assert sorted(world.server.reports(2)) == sorted(all_reports(sent))


def test_missing_batches_are_reported_after_a_restart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.send(3)
    world.store.close()
    for path in world.folder.glob("epoch-*"):
        path.unlink()
    world.reopen()
    assert "epoch 1: its batches are not in this proxy's folder" in caplog.text


def fill(database: Database) -> None:
    """Let a database take no more, as on a full disk."""
    (pages,) = database.row("PRAGMA page_count")
    database.rows(f"PRAGMA max_page_count = {pages}")


def test_dummies_are_mixed_in_although_the_disk_is_full(
    make_world: MakeWorld,
) -> None:
    # The room for mixing was reserved, so nothing else is needed at the end.
    world = make_world(signed(dummies=2_000))
    sent = world.send(3)
    assert world.store._files.batches is not None
    fill(world.store._files.batches._database)
    world.end_epoch()
    arrived = world.server.reports(1)
    assert set(all_reports(sent)) < set(arrived)
    assert len(set(arrived)) == len(arrived) == 12 + 2_000
    assert world.server.commits == {1: (403, 2_012)}


def test_transaction_without_changes_does_not_end_a_disk_problem(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise devices would be told to pay for batches that cannot be stored."""
    assert world.store._files.batches is not None
    fill(world.store._files.batches._database)
    with pytest.raises(StoreError):
        world.send(1_000)
    for _ in range(2):
        with pytest.raises(StoreError):
            world.proxy.tick()
        with world.store.write_batches():
            pass
        assert world.proxy.is_paused
    assert "can be written again" not in caplog.text


@pytest.mark.parametrize("dummies", [0, DUMMIES])
def test_mixed_reports_are_delivered_while_the_database_cannot_be_written(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, dummies: int
) -> None:
    """Deliver them once: what arrived is not sent again with every tick."""
    world = make_world(signed(dummies=dummies))
    sent, calls = world.send(3), list[str]()
    world.close_epoch()
    beat_cut_off_at(world, "put_chunk")
    with monkeypatch.context() as patch:
        for name in ("set_delivered", "settle"):
            patch.setattr(Tables, name, broken_disk)
        world.server.before = calls.append
        for _ in range(3):
            with pytest.raises(StoreError):
                world.proxy.tick()
    assert set(all_reports(sent)) <= set(world.server.reports(1))
    assert world.server.commits == {1: (-(-(12 + dummies) // 5), 12 + dummies)}
    assert calls.count("commit") == 1
    world.proxy.tick()
    assert metric(world, "reports_forwarded_total") == 12 + dummies
    assert not list(world.folder.glob("epoch-*"))


def test_clock_that_jumps_after_it_was_compared_ends_no_epoch(make_world: MakeWorld) -> None:
    """Ignore a jump while the server is away and the monotonic clock did not move."""
    world = make_world()
    world.monotonic = Clock(0)
    world.reopen()
    world.proxy.tick()
    world.send(2)
    world.server.reachable = False
    opened, world.clock.now = world.clock.now, ENDS + 2 * DAY_SECONDS
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    world.clock.now = opened
    world.server.reachable = True
    world.proxy.tick()
    sent = world.send(1)
    assert count_batches(world) == 3
    world.clock.now = CLOSES
    world.monotonic.now = CLOSES - opened
    world.end_epoch()
    assert set(all_reports(sent)) < set(world.server.reports(1))


def test_older_database_keeps_the_files_of_this_epoch(world: World, tmp_path: Path) -> None:
    """Restore only `proxy.sqlite3`, while the server is away at the first tick."""
    world.store.close()
    backup = shutil.copy(world.folder / DATABASE_FILE, tmp_path / "backup")
    world.reopen()
    world.proxy.tick()
    world.send(3)
    world.end_epoch()
    world.server.go_on(signed(2))
    world.proxy.tick()
    sent = world.send(4)
    world.store.close()
    shutil.copy(backup, world.folder / DATABASE_FILE)
    world.reopen()
    world.server.reachable = False
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    world.server.reachable = True
    world.proxy.tick()
    assert world.proxy.intake.n_waiting == 4
    world.end_epoch()
    assert sorted(world.server.reports(2)) == sorted(all_reports(sent))


class FragileWorld(World):
    """A world that can be restarted with only what its disk had at a power cut."""

    def __init__(self, folder: Path, steps: int):
        super().__init__(folder, signed(dummies=DUMMIES))
        self.life, self.lives = Life(steps), 1
        self.server.before = self.life.step
        self._revive(folder)

    def _revive(self, folder: Path) -> None:
        self.store.close()
        MortalDatabase.lives[folder] = self.life
        self.store = ProxyStore.open(folder)
        self.folder, self.proxy = folder, self._proxy()

    def insist(self, action: Callable[[], object]) -> None:
        """Call a function; after a power cut, call it again with what the disk had."""
        try:
            action()
        except PowerCut:
            self.lives += 1
            self.life.left = UNLIMITED_STEPS
            disk = self.folder.with_name(f"life-{self.lives}")
            shutil.copytree(self.folder, disk)
            self._revive(disk)
            self.proxy.tick()  # nothing is taken before
            action()


def live(folder: Path, steps: int = UNLIMITED_STEPS) -> FragileWorld:
    """Run two epochs and begin a third; the second one is over when the proxy first sees it."""
    world = FragileWorld(folder / "life-1", steps)
    world.insist(lambda: world.proxy.tick())
    world.clock.now = (OPENS + CLOSES) / 2
    world.insist(lambda: world.proxy.tick())
    for epoch in (1, 2):
        batches = world.people.batches(world.now, 3)
        for batch in batches:
            world.insist(lambda batch=batch: world.accept(batch))  # type: ignore[misc]
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
        assert world.proxy.manifest == world.now
    world.store.close()
    return world


@pytest.mark.slow
def test_power_cut_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every acknowledged report arrives exactly once, and nothing stays on the disk.
    make_mortal(monkeypatch)
    monkeypatch.setattr("sottovoce.proxy.dummies.DUMMIES_AT_ONCE", 2)
    whole = live(tmp_path / "whole").life
    assert {"before a commit", "after a deletion", "put_chunk", "after commit"} <= whole.done
    for steps in range(UNLIMITED_STEPS - whole.left):
        world = live(tmp_path / f"cut-{steps}", steps)
        assert world.lives == 2, steps
        with suppress(OSError):
            shutil.rmtree(tmp_path / f"cut-{steps}")
