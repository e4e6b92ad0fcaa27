"""One client of the swarm: how often it tries, and what it shares with the others."""

import time
from pathlib import Path

import pytest

from sottovoce.errors import UnavailableError
from sottovoce.sandbox.swarm import SharedDownloads, sync_client
from tests.client.world import FakeProxy, World, item
from tests.sandbox.test_people import FakeTime


@pytest.fixture
def proxy() -> FakeProxy:
    """Return a proxy whose epoch is open now."""
    now = int(time.time())
    return FakeProxy(World(opens=now - 100, closes=now + 1000))


def test_sends_the_same_batch_again_to_a_busy_proxy(proxy: FakeProxy, tmp_path: Path) -> None:
    fake_time, busy = FakeTime(0.0), iter([True, True, False])

    def refuse(call: str) -> None:
        if call == "send" and next(busy):
            raise UnavailableError("429")

    proxy.before = refuse
    proxy.world.create(tmp_path / "c").close()
    result = sync_client(tmp_path / "c", proxy, 10.0, clock=fake_time.clock, sleep=fake_time.sleep)
    assert (result.outcome, result.tries, result.spent) == ("sent", 3, 10.0)
    assert fake_time.slept == [0.1, 0.2]
    assert len(proxy.received) == 1


def test_gives_up_when_its_time_is_over(proxy: FakeProxy, tmp_path: Path) -> None:
    fake_time = FakeTime(0.0)

    def refuse(call: str) -> None:
        raise UnavailableError(f"no {call}")

    proxy.before = refuse
    proxy.world.create(tmp_path / "c").close()
    result = sync_client(tmp_path / "c", proxy, 10.0, clock=fake_time.clock, sleep=fake_time.sleep)
    assert (result.outcome, result.spent, result.problem) == ("unavailable", 0.0, "no manifest")
    assert sum(fake_time.slept) <= 10.0
    assert result.tries > 5


def test_downloads_public_files_once_for_all_clients(proxy: FakeProxy, tmp_path: Path) -> None:
    shared = SharedDownloads(proxy)
    for number in range(3):
        with proxy.world.create(tmp_path / str(number)) as client:
            client.record([item(number)])
        assert sync_client(tmp_path / str(number), shared, 1.0).outcome == "sent"
    counts = {call: proxy.calls.count(call) for call in proxy.calls}
    repeated = dict.fromkeys(("manifest", "shelf", "taken?", "send"), 3)
    assert counts == {**repeated, "model": 1, "catalogue": 1}
