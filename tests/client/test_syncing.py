"""One sync: what is sent, when, how often and at which cost; a batch is sent again unchanged."""

import inspect
import os
import shutil
from collections.abc import Callable
from math import nextafter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.client import Client
from sottovoce.client.timing import PREPARATION_SECONDS, compute_lead
from sottovoce.core import Histories, draw_os_words, solve_user_vectors
from sottovoce.errors import (
    ClosedError,
    RefusedError,
    SettingsError,
    StoreError,
    UnavailableError,
)
from sottovoce.protocol import Batch, open_reports
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.tokens import Attestation
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


def test_second_sync_of_an_epoch_sends_nothing(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.abandoned_epoch) == (1, "sent", None)
    assert (synced.spent, synced.remaining) == (COST, 100 - COST)
    assert proxy.calls == ["manifest", "shelf", "model", "catalogue", "taken?", "send"]
    assert client._store._db.rows("SELECT state, batch FROM outbox") == [("sent", None)]
    client.record([item(30)])
    again = client.sync(proxy)
    assert (again.outcome, again.spent) == ("already sent", COST)
    assert proxy.calls[6:] == ["manifest", "shelf"]
    (charge,) = charges(folder)
    assert charge.purpose == sha(proxy.received[0])
    assert (charge.epoch, charge.epsilon, charge.reports) == (1, EPSILON, REPORTS)


def test_opened_batch_has_the_reports_of_its_random_words(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, draw_words=words)
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
    x = solve_user_vectors(V, own, alpha=manifest.alpha, regularization=manifest.regularization)
    expected = mechanism.reports(V, x, own, words(1, REPORTS))[0]
    assert opened.undecodable == 0
    assert opened.reports.tolist() == expected.tolist()
    assert expected.astype("<u4").tobytes() not in sent


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


# When nothing is to be sent.
@pytest.mark.parametrize(
    ("now", "changes", "outcome"),
    [
        (1 * DAY - 1, {}, "not open"),
        (1.0 * DAY, {}, "sent"),
        (nextafter(2.0 * DAY, 0), {}, "sent"),
        (2 * DAY, {}, "not open"),
        (2.4 * DAY, {"hold": DAY // 2}, "sent"),
        (2.5 * DAY, {"hold": DAY // 2}, "not open"),
        (1.5 * DAY, {"public_key": None}, "nothing asked"),
    ],
)
def test_batch_is_made_only_while_the_epoch_is_open(
    world: World, folder: Path, now: float, changes: dict[str, Any], outcome: str
) -> None:
    # An epoch that waits for its crowd still takes reports.
    world.now = now
    proxy = FakeProxy(world, **changes)
    with world.create(folder, accept=False) as client:
        client.accept(proxy.signed.manifest.terms, 100.0)
        assert client.sync(proxy).outcome == outcome
        assert client.recommend(3)
    assert len(proxy.received) == len(charges(folder)) == int(outcome == "sent")


def test_pause_stops_reporting_until_it_ends(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    client.pause()
    assert client.sync(proxy).outcome == "paused"
    assert client.recommend(2)
    assert charges(folder) == []
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"


def test_pause_during_attestation_stops_the_token_request(world: World, folder: Path) -> None:
    proxy = FakeProxy(world, accounts=True)
    with world.create(folder, accept=False) as client:
        client.accept(world.terms(accounts=True), 100.0)

        def attest() -> bytes:
            client.pause()
            return Attestation(bytes(32), 0, bytes(64)).encode()

        client.sync(proxy, fetch_attestation=attest)
        assert "token" not in proxy.calls


def test_pause_after_the_decision_stops_the_attestation_request(world: World, folder: Path) -> None:
    requests: list[bool] = []

    def pause_with_the_token_id(size: int) -> bytes:
        if size == BATCH_ID_BYTES:
            client.pause()
        return bytes(size)

    def attest() -> bytes:
        requests.append(client.get_status().paused)
        return Attestation(bytes(32), 0, bytes(64)).encode()

    proxy = FakeProxy(world, accounts=True)
    with world.create(folder, accept=False, entropy=pause_with_the_token_id) as client:
        client.accept(world.terms(accounts=True), 100.0)
        client.sync(proxy, fetch_attestation=attest)
        assert client.get_status().paused
        assert requests == []
        client.pause(on=False)
    with world.open(folder) as client:
        client.sync(proxy, fetch_attestation=attest)
    assert requests == [False]


def test_pause_while_a_batch_is_made_charges_nothing(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    def pause(users: int, reports: int) -> NDArray[np.uint64]:
        client.pause()
        return words(users, reports)

    paused = client.sync(proxy, draw_words=pause)
    assert (paused.outcome, paused.spent) == ("paused", 0.0)
    assert charges(folder) == []
    assert proxy.received == []
    assert client.get_status().batches == {}
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"


def test_waiting_sync_sends_the_batch_that_another_could_not_send(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    # The outcome is "paused" only if the owner paused.
    def sync_elsewhere(seconds: float) -> None:
        world.now += seconds
        if not charges(folder):
            proxy.before = refusing(UnavailableError("busy"))
            with world.open(folder) as other, pytest.raises(UnavailableError):
                other.sync(proxy)
            proxy.before = lambda call: None

    with world.create(folder, entropy=coins(0.0, 0.5)) as client:
        assert client.sync(proxy, sleep=sync_elsewhere, jitter=600).outcome == "sent"
    assert len(charges(folder)) == len(proxy.received) == 1


def test_pause_keeps_a_waiting_batch_on_the_device(client: Client, proxy: FakeProxy) -> None:
    paused = client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    assert paused.outcome == "paused"
    assert client.sync(proxy).outcome == "paused"
    assert proxy.received == []
    client.pause(on=False)
    resumed = client.sync(proxy)
    assert (resumed.outcome, resumed.spent) == ("sent", COST)


def test_no_second_batch_is_made_while_one_waits(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    proxy.publish(world.signed(2, opens=DAY))

    def resume(call: str) -> None:
        if call == "manifest":
            client.pause(on=False)

    proxy.after = resume
    assert client.sync(proxy).outcome == "paused"
    assert client.get_status().batches == {"charged": 1}
    proxy.closed = True
    assert client.sync(proxy).abandoned_epoch == 1
    assert client.get_status().batches == {"dropped": 2}


def refusing(error: Exception) -> Callable[[str], None]:
    def refuse(call: str) -> None:
        if call == "send":
            raise error

    return refuse


def test_retry_time_of_the_proxy_holds_after_a_restart(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    # Only the batch waits; published files are fetched meanwhile.
    proxy.before = refusing(UnavailableError("busy", 120.0))
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before = lambda call: None
    client.close()
    with world.open(folder) as again:
        world.now += 119
        proxy.calls.clear()
        for _ in range(2):
            with pytest.raises(UnavailableError) as caught:
                again.sync(proxy)
            assert caught.value.retry_after == pytest.approx(1)
        assert set(proxy.calls) == {"manifest", "shelf"}
        world.now += 1
        assert again.sync(proxy).outcome == "sent"


@pytest.mark.parametrize(
    ("error", "passed"),
    [
        (UnavailableError("busy"), DAY),
        (UnavailableError("429", 3_600.0), 60),
        (RefusedError("403"), DAY),
    ],
    ids=["unavailable", "postponed", "refused"],
)
def test_batch_is_kept_until_its_epoch_is_over(
    client: Client, proxy: FakeProxy, world: World, folder: Path, error: Exception, passed: int
) -> None:
    # It is dropped when the next epoch begins, even before the proxy's retry time or `ends`.
    proxy.before = refusing(error)
    for _ in range(2):
        with pytest.raises(type(error)):
            client.sync(proxy)
    assert client.get_status().batches == {"charged": 1}
    world.now += passed
    proxy.before = lambda call: None
    proxy.publish(world.signed(2, opens=int(world.now)))
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.abandoned_epoch) == (2, "sent", 1)
    assert client.get_status().batches == {"dropped": 1, "sent": 1}
    assert [charge.epoch for charge in charges(folder)] == [1, 2]
    assert len(proxy.received) == 1


def test_outlook_includes_a_waiting_batch(client: Client, proxy: FakeProxy) -> None:
    client.set_limit(COST)
    proxy.before = refusing(UnavailableError("busy"))
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    terms = client.fetch_manifest(proxy).terms
    for limit, reports in [(COST, REPORTS), (3 * COST, 3 * REPORTS)]:
        client.set_limit(limit)
        assert f"; at most {reports} reports, " in client.compute_outlook(terms).summary[0]
    proxy.before = lambda call: None
    client.set_limit(COST)
    assert client.sync(proxy).outcome == "sent"
    assert client.compute_outlook(terms).summary[0].endswith("; no more reports leave.")


def test_batch_is_not_sent_after_the_end_of_its_epoch(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    proxy.before = refusing(UnavailableError("busy"))
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before = lambda call: None
    world.now = world.signed(1).manifest.ends
    assert client.sync(proxy).outcome == "too late"
    assert proxy.received == []


# Randomness.
def test_default_entropy_is_that_of_the_operating_system(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = inspect.signature(Client.sync).parameters
    assert (usual["draw_words"].default, usual["jitter"].default) == (draw_os_words, 3_600)
    for method in (Client.open, Client.create):
        assert inspect.signature(method).parameters["entropy"].default is os.urandom
    asked: list[int] = []
    real = os.urandom

    def counting(size: int) -> bytes:
        asked.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", counting)
    client.sync(proxy)
    assert asked == [8 * (REPORTS + 1) * 4]  # `entropy` was bound before: plan and id are not in it


def coins(*shares: float) -> Callable[[int], bytes]:
    """Return entropy whose draws are these shares of the whole range, then zeros."""
    drawn = iter([int(share * 2**64).to_bytes(8, "little") for share in shares])
    return lambda size: next(drawn, bytes(size))


def test_device_that_sits_an_epoch_out_draws_once(world: World, folder: Path) -> None:
    proxy = FakeProxy(world, share=0.25)
    with world.create(folder, accept=False, entropy=coins(0.25)) as client:
        client.accept(proxy.signed.manifest.terms, 100.0)
        for _ in range(3):  # the coin's further draws would all say yes
            assert client.sync(proxy).outcome == "sitting out"
    assert proxy.received == []
    assert charges(folder) == []


def sleeping(world: World, slept: list[float]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.now += seconds

    return sleep


@pytest.mark.parametrize("error", [ClosedError("over"), UnavailableError("full")])
def test_batch_that_would_be_refused_is_not_charged(
    client: Client, proxy: FakeProxy, folder: Path, error: Exception
) -> None:
    # The device asks before it charges anything, and tries again later.
    def refuse(call: str) -> None:
        if call == "taken?":
            raise error

    proxy.before = refuse
    if isinstance(error, ClosedError):
        assert client.sync(proxy).outcome == "not open"
    else:
        with pytest.raises(UnavailableError):
            client.sync(proxy)
    assert charges(folder) == []
    proxy.before = lambda _: None
    assert client.sync(proxy).outcome == "sent"


def test_batch_is_sent_at_the_drawn_moment(world: World, proxy: FakeProxy, folder: Path) -> None:
    begun, slept = world.now, list[float]()
    sent_at: list[float] = []
    proxy.before = lambda call: sent_at.append(world.now) if call == "send" else None
    with world.create(folder, entropy=coins(0.0, 0.5)) as client:
        synced = client.sync(proxy, sleep=sleeping(world, slept), jitter=600)
    assert synced.outcome == "sent"
    ahead = compute_lead(proxy.signed.manifest)
    assert sent_at == [begun + ahead + 300]
    assert slept == [300 - PREPARATION_SECONDS, PREPARATION_SECONDS, pytest.approx(ahead)]
    # Shortly before it makes the batch it looks again whether the epoch still runs.
    looks = ["manifest", "shelf", "model", "catalogue", "manifest", "shelf"]
    assert proxy.calls == [*looks, "taken?", "send"]


def test_clock_that_is_set_back_does_not_delay_a_batch(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.pause(on=False)
    world.now -= DAY / 4
    slept: list[float] = []
    assert client.sync(proxy, sleep=slept.append, jitter=60).outcome == "sent"
    assert slept == []


def test_a_clock_that_was_set_back_does_not_hold_a_moment_that_was_drawn(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.sync(proxy, sleep=stop, jitter=3_600)
    world.now -= DAY / 4
    slept: list[float] = []
    assert client.sync(proxy, sleep=sleeping(world, slept), jitter=3_600).outcome == "sent"
    assert sum(slept) < 60


@pytest.mark.parametrize(("left", "outcome"), [(10, "not open"), (11, "sent")])
def test_batch_that_could_not_be_sent_in_time_is_not_charged(
    world: World, folder: Path, left: int, outcome: str
) -> None:
    """Let the epoch end after this number of seconds."""
    proxy = FakeProxy(world, closes=int(world.now) + left)
    assert 5 < compute_lead(proxy.signed.manifest) < 6
    with world.create(folder) as client:
        synced = client.sync(proxy, sleep=sleeping(world, []), jitter=600)
    assert (synced.outcome, len(charges(folder))) == (outcome, int(outcome == "sent"))


def test_epoch_that_ends_before_the_drawn_moment_is_not_charged(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(seconds: float) -> None:
        world.now += seconds
        proxy.publish(world.signed(2, opens=DAY))

    missed = client.sync(proxy, sleep=meanwhile, jitter=600)
    assert (missed.outcome, missed.epoch) == ("missed", 2)
    assert charges(folder) == []
    assert proxy.received == []
    assert client.sync(proxy).outcome == "sent"


def test_drawn_moment_survives_a_restart(world: World, proxy: FakeProxy, folder: Path) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    begun, slept = world.now, list[float]()
    with world.create(folder, entropy=coins(0.0, 0.5)) as client, pytest.raises(KeyboardInterrupt):
        client.sync(proxy, sleep=stop, jitter=600)
    assert charges(folder) == []
    world.now += 100
    with world.open(folder, entropy=coins(0.9, 0.9)) as client:
        client.sync(proxy, sleep=sleeping(world, slept), jitter=600)
    assert sum(slept) == pytest.approx(300 + compute_lead(proxy.signed.manifest) - 100)
    assert world.now == pytest.approx(begun + 300 + compute_lead(proxy.signed.manifest))


@pytest.mark.parametrize("jitter", [-1.0, 3_601.0, float("nan"), float("inf")])
def test_invalid_pause_is_refused(client: Client, proxy: FakeProxy, jitter: float) -> None:
    with pytest.raises(SettingsError, match="jitter"):
        client.sync(proxy, jitter=jitter)
    assert proxy.calls == []


# Two at once.
def test_second_sync_of_a_folder_is_refused(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    # Two processes: `tests/storage/test_lock.py`. Other calls of the owner still work.
    def meanwhile(_: float) -> None:
        if not client.get_status().batches:
            return  # the long pause, before anything is made: see below
        with world.open(folder) as other:
            with pytest.raises(StoreError):
                other.sync(proxy)
            other.record([item(40)])
            other.remove([item(40)])
            assert other.recommend(1)

    assert client.sync(proxy, sleep=meanwhile, jitter=60).outcome == "sent"
    assert client.sync(proxy).outcome == "already sent"


def test_other_calls_work_while_a_sync_waits(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(_: float) -> None:
        with world.open(folder) as other:
            if other.get_status().limit:
                other.forget()
                other.set_limit(0)

    synced = client.sync(proxy, sleep=meanwhile, jitter=600)
    assert (synced.outcome, synced.spent) == ("limit reached", 0.0)
    assert proxy.received == []


@pytest.mark.parametrize("successor", ["a new client", "a backup", "nothing"])
def test_sync_sends_nothing_if_its_folder_is_replaced_while_it_waits(
    world: World, proxy: FakeProxy, folder: Path, tmp_path: Path, successor: str
) -> None:
    """Neither make a batch of the deleted history, nor charge a ledger that nobody reads."""
    with world.create(folder) as client:
        client.record([item(3), item(7)])
    shutil.copytree(folder, tmp_path / "backup")

    def replace_folder(seconds: float) -> None:
        world.now += seconds
        if seconds > PREPARATION_SECONDS:
            shutil.rmtree(folder)
            if successor == "a new client":
                world.create(folder, accept=False).close()
            elif successor == "a backup":
                shutil.copytree(tmp_path / "backup", folder)

    with world.open(folder, entropy=coins(0.0, 0.5)) as client, pytest.raises(StoreError):
        client.sync(proxy, sleep=replace_folder, jitter=600)
    assert proxy.received == []
    if successor != "nothing":
        assert charges(folder) == []


def test_waiting_batch_of_a_replaced_folder_is_not_sent(
    world: World, proxy: FakeProxy, folder: Path, tmp_path: Path
) -> None:
    """Put a backup back between the charge and the moment of sending."""
    with world.create(folder) as client:
        client.record([item(3)])
    shutil.copytree(folder, tmp_path / "backup")

    def put_back(seconds: float) -> None:
        world.now += seconds
        if charges(folder):
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "backup", folder)

    with world.open(folder, entropy=coins(0.0, 0.5)) as client, pytest.raises(StoreError):
        client.sync(proxy, sleep=put_back, jitter=600)
    assert proxy.received == []
