"""One sync: what leaves, when, how often, and what it costs."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from math import nextafter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client import Client, Terms
from sottovoce.client.reporting import make_batch, pause_before_sending
from sottovoce.errors import (
    LedgerError,
    RefusedError,
    SettingsError,
    StoreError,
    UnavailableError,
)
from sottovoce.mechanism import os_words
from sottovoce.model import Histories, user_vectors
from sottovoce.privacy import Ledger
from sottovoce.protocol import Batch, Edition, batch_size, open_reports
from tests.client.world import (
    COST,
    DAY,
    EPSILON,
    ITEMS,
    REPORTS,
    FakeProxy,
    World,
    charges,
    item,
    sha,
    words,
)


def test_a_first_sync_learns_and_takes_part(client: Client, proxy: FakeProxy, folder: Path) -> None:
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.lost) == (1, "sent", None)
    assert (synced.spent, synced.remaining) == (COST, 100 - COST)
    assert synced.sentence == "The batch of epoch 1 was sent."
    assert proxy.calls == ["manifest", "model", "catalogue", "send"]
    (charge,) = charges(folder)
    assert charge.purpose == sha(proxy.received[0])
    assert (charge.epoch, charge.epsilon, charge.reports) == (1, EPSILON, REPORTS)


def test_a_batch_opens_to_exactly_the_reports_of_its_words(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, words=words)
    (sent,) = proxy.received
    assert b"secret-item" not in sent
    batch = Batch.decode(sent, REPORTS)
    assert (batch.epoch, batch.manifest_hash) == (1, proxy.signed.hash)
    manifest = proxy.signed.manifest
    mechanism = manifest.build()
    opened = open_reports(
        batch.sealed, world.epoch_keys[1], proxy.signed.hash, mechanism.n_directions
    )
    own = Histories.from_lists([[3, 7, 20]], ITEMS)
    V = world.items(1)
    x = user_vectors(V, own, alpha=manifest.alpha, regularization=manifest.regularization)
    expected = mechanism.reports(V, x, own, words(1, REPORTS))[0]
    assert opened.undecodable == 0
    assert opened.reports.tolist() == expected.tolist()
    assert expected.astype("<u4").tobytes() not in sent


def test_who_has_no_history_takes_part_like_everybody(tmp_path: Path) -> None:
    world = World()
    proxy = FakeProxy(world)
    for n, items in enumerate([[], [item(1)], [item(i) for i in range(ITEMS)], ["not known"]]):
        with world.create(tmp_path / str(n)) as client:
            client.record(items)
            assert client.sync(proxy).outcome == "sent"
    assert [len(batch) for batch in proxy.received] == [batch_size(REPORTS)] * 4
    assert len({batch[40:56] for batch in proxy.received}) == 4


def test_once_sent_an_epoch_is_over_for_this_device(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    client.sync(proxy)
    client.record([item(30)])
    again = client.sync(proxy)
    assert (again.outcome, again.spent) == ("already sent", COST)
    assert proxy.calls[4:] == ["manifest"]
    assert len(charges(folder)) == 1


def test_every_epoch_has_its_own_batch_and_keeps_only_its_own_files(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    for epoch in (1, 2, 3):
        world.now = (epoch + 0.5) * DAY
        proxy.publish(world.signed(epoch))
        assert client.sync(proxy).outcome == "sent"
    assert len(set(proxy.received)) == 3
    assert [charge.epoch for charge in charges(folder)] == [1, 2, 3]
    rows = client._store._db.rows("SELECT sha256 FROM files")
    manifest = proxy.signed.manifest
    assert {row[0] for row in rows} == {manifest.model, manifest.catalogue}


def test_the_bytes_are_gone_once_they_arrived(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy)
    assert client._store._db.rows("SELECT state, batch FROM outbox") == [("sent", None)]
    assert client.status().batches == {"sent": 1}


# When nothing is to be sent.


@pytest.mark.parametrize(
    ("now", "changes", "outcome"),
    [
        (1 * DAY - 1, {}, "not open"),
        (2 * DAY, {}, "not open"),
        (1.5 * DAY, {"public_key": None}, "nothing asked"),
    ],
)
def test_nothing_is_made_outside_the_epochs_time(
    world: World, folder: Path, now: float, changes: dict[str, Any], outcome: str
) -> None:
    world.now = now
    proxy = FakeProxy(world, **changes)
    with world.create(folder) as client:
        assert client.sync(proxy).outcome == outcome
        assert client.recommend(3)
        assert client.status().batches == {}
    assert proxy.received == []
    assert charges(folder) == []


def test_the_first_and_the_last_moment_count(world: World, tmp_path: Path) -> None:
    proxy = FakeProxy(world)
    for n, now in enumerate([1.0 * DAY, nextafter(2.0 * DAY, 0)]):
        world.now = now
        with world.create(tmp_path / str(n)) as client:
            assert client.sync(proxy).outcome == "sent"


def test_a_pause_holds_and_ends(client: Client, proxy: FakeProxy, folder: Path) -> None:
    client.pause()
    assert client.sync(proxy).outcome == "paused"
    assert client.recommend(2)
    assert charges(folder) == []
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"


def test_a_pause_while_the_batch_waits_keeps_it_here(client: Client, proxy: FakeProxy) -> None:
    paused = client.sync(proxy, sleep=lambda _: client.pause(), jitter=60)
    assert paused.outcome == "paused"
    assert client.sync(proxy).outcome == "paused"
    assert proxy.received == []
    client.pause(on=False)
    resumed = client.sync(proxy)
    assert (resumed.outcome, resumed.spent) == ("sent", COST)


def test_a_pause_also_keeps_a_left_over_from_being_charged(
    client: Client, proxy: FakeProxy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", _no_room)
        with pytest.raises(LedgerError, match="full"):
            client.sync(proxy)
    client.pause()
    assert client.sync(proxy).outcome == "paused"
    assert client.status().batches == {"stored": 1}
    assert charges(folder) == []
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"


def test_what_was_stored_and_never_charged_costs_nothing_once_it_is_too_late(
    client: Client, proxy: FakeProxy, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", _no_room)
        with pytest.raises(LedgerError, match="full"):
            client.sync(proxy)
    world.now += DAY
    late = client.sync(proxy)
    assert (late.outcome, late.spent) == ("too late", 0.0)
    assert client.status().batches == {"dropped": 1}


def _no_room(*_: object) -> None:
    raise LedgerError("the disk is full")


def test_a_paused_batch_of_an_earlier_epoch_is_given_up(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=lambda _: client.pause(), jitter=60)
    world.now += DAY
    proxy.publish(world.signed(2))
    assert client.sync(proxy).lost == 1
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"
    assert {Batch.decode(batch, REPORTS).epoch for batch in proxy.received} == {2}


def test_while_an_old_batch_waits_no_second_one_is_made(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=lambda _: client.pause(), jitter=60)
    proxy.publish(world.signed(2, opens=DAY))

    def resume(call: str) -> None:
        if call == "manifest":
            client.pause(on=False)

    proxy.after = resume
    assert client.sync(proxy).outcome == "paused"
    assert client.status().batches == {"charged": 1}
    proxy.closed = True
    assert client.sync(proxy).lost == 1
    assert client.status().batches == {"dropped": 2}


def test_at_the_limit_reporting_stops_and_recommending_goes_on(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, limit=COST + 1) as client:
        assert client.sync(proxy).outcome == "sent"
        world.now += DAY
        proxy.publish(world.signed(2))
        for _ in range(2):
            synced = client.sync(proxy)
            assert (synced.outcome, synced.spent, synced.remaining) == ("limit reached", COST, 1.0)
        assert client._store._db.rows("SELECT batch FROM outbox WHERE epoch = 2") == [(None,)]
        assert client.recommend(3)
    assert len(proxy.received) == 1


def test_another_limit_lets_the_next_epoch_report_and_is_on_the_record(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, limit=0) as client:
        assert client.sync(proxy).outcome == "limit reached"
        client.set_limit(COST)
        assert client.sync(proxy).outcome == "limit reached"
        world.now += DAY
        proxy.publish(world.signed(2))
        assert client.sync(proxy).outcome == "sent"
        assert client.status().limit == COST


def test_a_limit_of_nothing_never_sends(world: World, proxy: FakeProxy, folder: Path) -> None:
    with world.create(folder, limit=0) as client:
        assert client.sync(proxy).outcome == "limit reached"
        assert client.recommend(1)
    assert proxy.received == []


# A proxy that is away, closed, or says no.


def unavailable(call: str) -> None:
    if call == "send":
        raise UnavailableError("busy")


def test_the_same_bytes_are_sent_again(client: Client, proxy: FakeProxy, folder: Path) -> None:
    proxy.after = unavailable  # it arrived, but the answer was lost
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before, proxy.after = unavailable, lambda call: None
    for _ in range(3):
        with pytest.raises(UnavailableError):
            client.sync(proxy)
    proxy.before = lambda call: None
    assert client.sync(proxy).outcome == "sent"
    assert len(proxy.received) == 2
    assert len(set(proxy.received)) == 1
    assert [charge.purpose for charge in charges(folder)] == [sha(proxy.received[0])]


def test_a_batch_that_comes_too_late_stays_spent(client: Client, proxy: FakeProxy) -> None:
    proxy.closed = True
    for _ in range(2):
        synced = client.sync(proxy)
        assert (synced.outcome, synced.spent) == ("too late", COST)
        assert "stays spent" in synced.sentence
    assert client.status().batches == {"dropped": 1}
    assert client._store._db.rows("SELECT batch FROM outbox") == [(None,)]


def test_a_left_over_of_a_closed_epoch_makes_way(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    proxy.before = unavailable
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before = lambda call: None
    world.now += DAY
    proxy.publish(world.signed(2))
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.lost) == (2, "sent", 1)
    assert "epoch 1 came too late" in synced.sentence
    assert [charge.epoch for charge in charges(folder)] == [1, 2]
    assert len(proxy.received) == 1


def test_a_refusal_keeps_the_batch_until_its_epoch_is_over(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    def refuse(call: str) -> None:
        if call == "send":
            raise RefusedError("403")

    proxy.before = refuse
    for _ in range(2):
        with pytest.raises(RefusedError):
            client.sync(proxy)
    assert client.status().batches == {"charged": 1}
    world.now += DAY
    proxy.before = lambda call: None
    proxy.publish(world.signed(2))
    assert client.sync(proxy).outcome == "sent"


# Randomness.


def test_words_and_entropy_come_from_the_operating_system_by_default(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inspect.signature(Client.sync).parameters["words"].default is os_words
    for method in (Client.open, Client.create):
        assert inspect.signature(method).parameters["entropy"].default is os.urandom
    asked: list[int] = []
    real = os.urandom

    def counting(size: int) -> bytes:
        asked.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", counting)
    client.sync(proxy)
    assert asked == [8 * (REPORTS + 1) * 4]


def test_two_devices_with_the_same_history_say_different_things(tmp_path: Path) -> None:
    """20 reports of 3 bits or more each agree by chance with probability below 2^-60."""
    world = World(reports=20)
    proxy = FakeProxy(world)
    for name in ("a", "b"):
        with world.create(tmp_path / name) as client:
            client.sync(proxy)
    n_directions = proxy.signed.manifest.build().n_directions
    opened = [
        open_reports(batch[56:], world.epoch_keys[1], proxy.signed.hash, n_directions)
        for batch in proxy.received
    ]
    assert not np.array_equal(opened[0].reports, opened[1].reports)
    assert proxy.received[0][40:56] != proxy.received[1][40:56]


@given(st.floats(1e-3, 1e6), st.binary(min_size=8, max_size=8))
def test_a_pause_is_never_as_long_as_its_bound(most: float, random: bytes) -> None:
    assert 0 <= pause_before_sending(most, lambda size: random[:size]) < most


def test_the_pause_is_uniform_in_its_bytes() -> None:
    for share in (0.0, 0.25, 0.5, 0.75):
        random = int(share * 2**64).to_bytes(8, "little")
        assert pause_before_sending(10.0, lambda _, drawn=random: drawn) == 10 * share  # type: ignore[misc]


@pytest.mark.parametrize(("left", "jitter", "most"), [(100.0, 30.0, 30.0), (100.0, 1e6, 100.0)])
def test_the_pause_ends_before_the_epoch(
    world: World, proxy: FakeProxy, folder: Path, left: float, jitter: float, most: float
) -> None:
    world.now = 2 * DAY - left
    slept: list[float] = []
    with world.create(folder, entropy=lambda size: b"\xff" * size) as client:
        assert client.sync(proxy, sleep=slept.append, jitter=jitter).outcome == "sent"
    assert 0.999 * most < slept[0] < most
    assert len(slept) == 1


def test_the_charge_is_on_record_before_the_pause(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def look(_: float) -> None:
        assert proxy.received == []
        with world.open(folder) as other:
            assert other.status().batches == {"charged": 1}
            assert "one writer" in str(other.status().problem)

    client.sync(proxy, sleep=look, jitter=1)
    assert len(proxy.received) == 1


@pytest.mark.parametrize("jitter", [-1.0, float("nan"), float("inf")])
def test_a_pause_without_sense_is_refused(client: Client, proxy: FakeProxy, jitter: float) -> None:
    with pytest.raises(SettingsError, match="jitter"):
        client.sync(proxy, jitter=jitter)
    assert proxy.calls == []


def test_a_finished_model_makes_no_batch(world: World) -> None:
    edition = Edition(world.signed(1, public_key=None), world.items(1), world.catalogue)
    with pytest.raises(SettingsError, match="no reports"):
        make_batch(edition, [], words, os.urandom)


# Two at once.


def test_a_second_sync_of_the_same_folder_is_told_so(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    told: list[str] = []
    code = (
        "import sys; from pathlib import Path; from sottovoce.client import Client\n"
        "from sottovoce.errors import StoreError\n"
        "try: Client.open(Path(sys.argv[1])).sync(None)\n"
        "except StoreError as error: print(error)\n"
    )

    def meanwhile(_: float) -> None:
        with world.open(folder) as other:
            with pytest.raises(StoreError, match="another process is syncing"):
                other.sync(proxy)
            with pytest.raises(StoreError, match="another process is syncing"):
                other.forget()
            other.record([item(40)])
            assert other.recommend(1)
        command = [sys.executable, "-c", code, str(folder)]
        told.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert client.sync(proxy, sleep=meanwhile, jitter=1).outcome == "sent"
    assert "another process is syncing" in told[0]
    assert client.sync(proxy).outcome == "already sent"


# Files that went back in time, or away.


def restore(source: Path, target: Path) -> None:
    for name in ("client.db-wal", "client.db-shm"):
        (target.parent / name).unlink(missing_ok=True)
    target.write_bytes(source.read_bytes())


def test_a_database_set_back_does_not_report_twice(
    world: World, proxy: FakeProxy, folder: Path, tmp_path: Path
) -> None:
    world.create(folder).close()
    restore(folder / "client.db", tmp_path / "backup")
    with world.open(folder) as client:
        client.sync(proxy)
    restore(tmp_path / "backup", folder / "client.db")
    with world.open(folder) as client:
        synced = client.sync(proxy)
        assert (synced.outcome, synced.spent) == ("already charged", COST)
        world.now += DAY
        proxy.publish(world.signed(2))
        assert client.sync(proxy).outcome == "sent"
    assert [charge.epoch for charge in charges(folder)] == [1, 2]


def test_a_ledger_set_back_is_refused_and_recommending_goes_on(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    old = {name: (folder / name).read_bytes() for name in ("ledger", "ledger.head")}
    client.sync(proxy)
    for name, content in old.items():
        (folder / name).write_bytes(content)
    world.now += DAY
    proxy.publish(world.signed(2))
    with pytest.raises(LedgerError, match="does not reach"):
        client.sync(proxy)
    assert len(proxy.received) == 1
    assert client.status().epoch == 2
    assert client.recommend(1)


def test_a_lost_ledger_stops_reporting_and_nothing_else(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    (folder / "ledger").unlink()
    (folder / "ledger.head").unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        client.sync(proxy)
    assert proxy.received == []
    assert not (folder / "ledger").exists()
    status = client.status()
    assert (status.spent, status.limit, status.epoch) == (None, None, 1)
    assert "no ledger" in str(status.problem)
    assert client.recommend(2)


def test_a_lost_database_begins_anew_with_what_was_spent(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    client.close()
    (folder / "client.db").unlink()
    with world.create(folder, limit=60) as anew:
        status = anew.status()
        assert (status.spent, status.limit, status.interactions) == (COST, 60.0, 0)
        assert anew.sync(proxy).outcome == "already charged"
    assert len(proxy.received) == 1


def test_terms_given_at_the_start_bind_the_first_manifest(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    terms = Terms("loudest", EPSILON, REPORTS, 100)
    with world.create(folder, terms=terms) as client:
        assert client.status().terms == terms
        assert client.sync(proxy).outcome == "sent"
