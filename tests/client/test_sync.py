"""One sync: what leaves, when, how often, and what it costs."""

from __future__ import annotations

import os
from math import nextafter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.client.reporting import make_batch
from sottovoce.core import Histories, user_vectors
from sottovoce.errors import SettingsError
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
    pause_once_made,
    sha,
    words,
)

if TYPE_CHECKING:
    from sottovoce.client import Client


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
        (2.5 * DAY, {"hold": DAY // 2}, "not open"),
        (1.5 * DAY, {"public_key": None}, "nothing asked"),
    ],
)
def test_nothing_is_made_outside_the_epochs_time(
    world: World, folder: Path, now: float, changes: dict[str, Any], outcome: str
) -> None:
    world.now = now
    proxy = FakeProxy(world, **changes)
    with world.create(folder, accept=False) as client:
        client.accept(proxy.signed.manifest.terms)
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


def test_while_an_epoch_waits_for_its_crowd_it_takes_reports(world: World, folder: Path) -> None:
    world.now = 2.4 * DAY
    proxy = FakeProxy(world, hold=DAY // 2)
    with world.create(folder, accept=False) as client:
        client.accept(proxy.signed.manifest.terms)
        assert client.sync(proxy).outcome == "sent"


def test_a_pause_holds_and_ends(client: Client, proxy: FakeProxy, folder: Path) -> None:
    client.pause()
    assert client.sync(proxy).outcome == "paused"
    assert client.recommend(2)
    assert charges(folder) == []
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"


def test_a_pause_while_the_batch_waits_keeps_it_here(client: Client, proxy: FakeProxy) -> None:
    paused = client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    assert paused.outcome == "paused"
    assert client.sync(proxy).outcome == "paused"
    assert proxy.received == []
    client.pause(on=False)
    resumed = client.sync(proxy)
    assert (resumed.outcome, resumed.spent) == ("sent", COST)


def test_a_paused_batch_of_an_earlier_epoch_is_given_up(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    proxy.next_epoch()
    assert client.sync(proxy).lost == 1
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"
    assert {Batch.decode(batch, REPORTS).epoch for batch in proxy.received} == {2}


def test_while_an_old_batch_waits_no_second_one_is_made(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
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


def test_a_pause_before_the_batch_is_made_costs_nothing(client: Client, proxy: FakeProxy) -> None:
    paused = client.sync(proxy, sleep=lambda _: client.pause(), jitter=60)
    assert (paused.outcome, paused.spent) == ("paused", 0.0)
    assert client.status().batches == {}


def test_a_finished_model_makes_no_batch(world: World) -> None:
    edition = Edition(world.signed(1, public_key=None), world.items(1), world.catalogue)
    with pytest.raises(SettingsError, match="no reports"):
        make_batch(edition, [], 0.0, words, os.urandom)
