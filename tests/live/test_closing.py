"""An operator closes an epoch that waits for its crowd: nothing is mixed below it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT
from sottovoce.server.administration import close_epoch
from sottovoce.training import Participation
from tests.live.stack import Stack, run_stack

CROWD_SIZE = 3


@pytest.fixture
def stack(folder: Path) -> Iterator[Stack]:
    terms = Participation(min_clients=CROWD_SIZE, hold=7 * 86_400)
    with run_stack(folder / "stack", "east", "west", terms=terms, epoch_seconds=3600) as stack:
        yield stack


def report(stack: Stack, gate: str, devices: int) -> None:
    for number in range(devices):
        client = stack.add_client(f"{gate}-{number}", [f"film-{number}"])
        assert client.sync(stack.gates[gate].make_api(), jitter=0).outcome == "sent"


def close_current_epoch(stack: Stack) -> dict[str, str]:
    """Close the epoch when every proxy has reported its state, and return these states."""
    stack.world.now = stack.world.get_signed().manifest.closes
    stack.hand_in()
    assert stack.world.get_state(1) == "open"
    number, states = close_epoch(stack.world.store, stack.world.now)
    assert number == 1
    stack.hand_in()
    assert stack.world.get_state(1) == "closed", "the proxy that is short may still get its crowd"
    return states


def apply_after_grace(stack: Stack) -> tuple[int, int]:
    """Return what was counted and dropped after the grace; no proxy has anything left."""
    stack.world.now += stack.world.settings.grace_seconds
    stack.hand_in()
    for gate in stack.gates.values():
        assert gate.get_signed().manifest.epoch == 2
        with gate.store.read() as tables:
            assert tables.get_unsettled() == []
    (epoch, *_) = stack.world.server.list_epochs()
    return epoch.reports, epoch.crowdless


def test_only_proxies_with_a_crowd_deliver_reports(stack: Stack) -> None:
    report(stack, "west", CROWD_SIZE)
    report(stack, "east", CROWD_SIZE - 1)
    reports = stack.world.get_signed().manifest.terms.reports
    assert close_current_epoch(stack) == {"east": CROWD_SHORT, "west": CROWD_ENOUGH}
    assert apply_after_grace(stack) == (CROWD_SIZE * reports, 0)


def test_model_does_not_change_without_a_crowd(stack: Stack) -> None:
    report(stack, "east", CROWD_SIZE - 1)
    before = stack.load_model()
    assert close_current_epoch(stack) == {"east": CROWD_SHORT, "west": CROWD_NONE}
    assert apply_after_grace(stack) == (0, 0)
    assert np.array_equal(stack.load_model(), before)


def test_crowd_that_is_completed_before_the_proxy_closes_counts(stack: Stack) -> None:
    report(stack, "west", CROWD_SIZE)
    report(stack, "east", CROWD_SIZE - 1)
    reports = stack.world.get_signed().manifest.terms.reports
    close_current_epoch(stack)
    late = stack.add_client("east-late", ["film-9"])
    assert late.sync(stack.gates["east"].make_api(), jitter=0).outcome == "sent"
    stack.hand_in()
    assert apply_after_grace(stack) == (2 * CROWD_SIZE * reports, 0)
