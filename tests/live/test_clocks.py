"""A clock that is wrong by a day, of any part, and is put right again: nothing is lost or twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.client import Client
from sottovoce.training import Participation
from tests.live.stack import Stack, running

DAY = 86_400.0
WEEK = 7 * 86_400
LEAST = 3


@pytest.fixture
def stack(folder: Path) -> Iterator[Stack]:
    terms = Participation(least_clients=LEAST, hold=WEEK)
    with running(folder / "stack", "east", "west", terms=terms, epoch_seconds=3600) as stack:
        yield stack


def devices(stack: Stack, gate: str) -> list[Client]:
    return [stack.client(f"{gate}-{n}", [f"film-{n}"]) for n in range(LEAST)]


def report(stack: Stack, gate: str, clients: list[Client]) -> set[str]:
    return {client.sync(stack.gates[gate].api(), jitter=0).outcome for client in clients}


def counted(stack: Stack, epoch: int) -> int:
    return stack.world.get_counts(epoch)[1]


@pytest.mark.parametrize("wrong", ["server", "east"])
@pytest.mark.parametrize("by", [DAY, -DAY])
def test_a_service_whose_clock_jumps(stack: Stack, wrong: str, by: float) -> None:
    """Let the epoch wait, and count everything once the clock is right again."""
    clients = {name: devices(stack, name) for name in stack.gates}
    signed = stack.world.get_signed()
    assert report(stack, "west", clients["west"]) == {"sent"}
    assert report(stack, "east", clients["east"][:1]) == {"sent"}
    stack.ahead[wrong] = by
    stack.hand_in()
    assert stack.world.get_signed() == signed, "one part alone ends no epoch"
    stack.ahead[wrong] = 0
    assert report(stack, "east", clients["east"][1:]) == {"sent"}
    assert stack.turn() == 1
    assert counted(stack, 1) == 2 * LEAST * signed.manifest.terms.reports


def test_a_server_that_is_a_day_ahead_when_it_publishes(stack: Stack) -> None:
    """Open the next epoch in a day: devices wait for it and pay nothing meanwhile."""
    clients = devices(stack, "east")
    assert report(stack, "east", clients) == {"sent"}
    stack.world.now = stack.world.get_signed().manifest.closes
    stack.ahead["server"] = DAY
    stack.hand_in()
    signed = stack.world.get_signed()
    assert signed.manifest.epoch == 2
    assert counted(stack, 1) == LEAST * signed.manifest.terms.reports
    stack.ahead["server"] = 0
    assert report(stack, "east", clients) == {"not open"}
    assert [client.get_status().epochs for client in clients] == [1] * LEAST
    stack.world.now += DAY
    assert report(stack, "east", clients) == {"sent"}
    assert stack.turn() == 2
    assert counted(stack, 2) == LEAST * signed.manifest.terms.reports


@pytest.mark.parametrize("by", [DAY, -DAY / 2])
def test_a_device_whose_clock_jumps(folder: Path, by: float) -> None:
    """Let it neither report nor pay until its time is right."""
    terms = Participation(least_clients=1, hold=1000)
    with running(folder / "stack", terms=terms) as stack:
        (client, *_) = devices(stack, "east")
        stack.ahead["device"] = by
        assert report(stack, "east", [client]) == {"not open"}
        assert client.get_status().spent == 0
        stack.ahead["device"] = 0
        assert report(stack, "east", [client]) == {"sent"}
        assert report(stack, "east", [client]) == {"already sent"}
