"""A device pays for no epoch in which its proxy takes no more batches."""

from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.errors import UnavailableError
from sottovoce.training import Participation
from tests.live.stack import Gate, Stack, run_stack

OPEN_TERMS = Participation(min_clients=1, hold=7200)


def report(stack: Stack, gate: Gate, devices: int) -> None:
    for number in range(devices):
        client = stack.add_client(f"early-{number}", ["film-1"])
        assert client.sync(gate.make_api(), jitter=0).outcome == "sent"


def test_nobody_pays_for_an_epoch_that_is_mixed(folder: Path) -> None:
    """East has mixed its crowd. West is down, and the server waits for it."""
    with run_stack(
        folder / "stack", "east", "west", terms=OPEN_TERMS, epoch_seconds=3600, grace_seconds=600
    ) as stack:
        east = stack.gates["east"]
        report(stack, east, 3)
        stack.world.now = stack.world.get_signed().manifest.closes
        for wait in (0, 601):
            stack.world.now += wait
            for _ in range(3):
                stack.tick()
                east.tick()
        assert stack.world.get_state(1) == "closed"
        shown = east.get_signed().manifest
        assert shown.epoch == 1
        assert shown.asks_for_reports(stack.world.now)
        late = stack.add_client("late", ["film-2"])
        synced = late.sync(east.make_api(), jitter=0)
        assert (synced.outcome, synced.spent) == ("not open", 0)
        stack.world.now += 600
        stack.hand_in()
        assert late.sync(east.make_api(), jitter=0).outcome == "sent"
        assert stack.end_epoch() == 2
        counted = {epoch.epoch: epoch.reports for epoch in stack.world.server.list_epochs()}
        assert (counted[1], counted[2]) == (3 * shown.terms.reports, shown.terms.reports)


def test_nobody_pays_for_an_epoch_that_is_full(folder: Path) -> None:
    with run_stack(folder / "stack", "east", terms=OPEN_TERMS) as stack:
        east = stack.gates["east"]
        east.proxy.intake._settings = replace(east.proxy.intake._settings, max_batches=2)
        report(stack, east, 2)
        late = stack.add_client("late", ["film-2"])
        with pytest.raises(UnavailableError):
            late.sync(east.make_api(), jitter=0)
        assert late.get_status().spent == 0
        assert late.recommend(3), "lists come all the same"
        stack.end_epoch()
        assert late.sync(east.make_api(), jitter=0).outcome == "sent"
