"""A clock of any part is wrong by a day and then right again: nothing is lost or counted twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.client import Client
from sottovoce.training import Participation
from tests.live.stack import Stack, run_stack

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * 86_400
CROWD_SIZE = 3


@pytest.fixture
def stack(folder: Path) -> Iterator[Stack]:
    terms = Participation(min_clients=CROWD_SIZE, hold=WEEK_SECONDS)
    with run_stack(folder / "stack", "east", "west", terms=terms, epoch_seconds=3600) as stack:
        yield stack


def add_devices(stack: Stack, gate: str) -> list[Client]:
    return [stack.add_client(f"{gate}-{n}", [f"film-{n}"]) for n in range(CROWD_SIZE)]


def report(stack: Stack, gate: str, clients: list[Client]) -> set[str]:
    return {client.sync(stack.gates[gate].make_api(), jitter=0).outcome for client in clients}


def count_reports(stack: Stack, epoch: int) -> int:
    return stack.world.get_counts(epoch)[1]


@pytest.mark.parametrize("wrong", ["server", "east"])
@pytest.mark.parametrize("by", [DAY_SECONDS, -DAY_SECONDS])
def test_clock_jump_of_a_service_loses_nothing(stack: Stack, wrong: str, by: float) -> None:
    # The epoch waits, and everything is counted once when the clock is right again.
    clients = {name: add_devices(stack, name) for name in stack.gates}
    signed = stack.world.get_signed()
    assert report(stack, "west", clients["west"]) == {"sent"}
    assert report(stack, "east", clients["east"][:1]) == {"sent"}
    stack.ahead[wrong] = by
    stack.hand_in()
    assert stack.world.get_signed() == signed, "one part alone ends no epoch"
    stack.ahead[wrong] = 0
    assert report(stack, "east", clients["east"][1:]) == {"sent"}
    assert stack.end_epoch() == 1
    assert count_reports(stack, 1) == 2 * CROWD_SIZE * signed.manifest.terms.reports


def test_server_that_publishes_a_day_ahead(stack: Stack) -> None:
    # The next epoch opens in a day: devices wait for it and pay nothing meanwhile.
    clients = add_devices(stack, "east")
    assert report(stack, "east", clients) == {"sent"}
    stack.world.now = stack.world.get_signed().manifest.closes
    stack.ahead["server"] = DAY_SECONDS
    stack.hand_in()
    signed = stack.world.get_signed()
    assert signed.manifest.epoch == 2
    assert count_reports(stack, 1) == CROWD_SIZE * signed.manifest.terms.reports
    stack.ahead["server"] = 0
    assert report(stack, "east", clients) == {"not open"}
    assert [client.get_status().epochs for client in clients] == [1] * CROWD_SIZE
    stack.world.now += DAY_SECONDS
    assert report(stack, "east", clients) == {"sent"}
    assert stack.end_epoch() == 2
    assert count_reports(stack, 2) == CROWD_SIZE * signed.manifest.terms.reports


@pytest.mark.parametrize("by", [DAY_SECONDS, -DAY_SECONDS / 2])
def test_device_with_a_wrong_clock_does_not_report(folder: Path, by: float) -> None:
    # It pays nothing until its time is right.
    terms = Participation(min_clients=1, hold=1000)
    with run_stack(folder / "stack", terms=terms) as stack:
        (client, *_) = add_devices(stack, "east")
        stack.ahead["device"] = by
        assert report(stack, "east", [client]) == {"not open"}
        assert client.get_status().spent == 0
        stack.ahead["device"] = 0
        assert report(stack, "east", [client]) == {"sent"}
        assert report(stack, "east", [client]) == {"already sent"}
