"""A disk that is full or read-only somewhere on the way: it takes longer, and that is all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from sottovoce.errors import UnavailableError
from sottovoce.training import Settings
from tests.live.killable import charged_epochs
from tests.live.stack import running

REPORTS = 100
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=3, lifetime=6, factors=2)
Switch = tuple[str, str]
FULL: Switch = ("max_page_count = 1", "max_page_count = 1000000")
"""No more pages than there are."""
READ_ONLY: Switch = ("query_only = ON", "query_only = OFF")


@pytest.mark.parametrize("switch", [FULL, READ_ONLY])
def test_at_the_proxy(folder: Path, switch: Switch) -> None:
    """The device is told to come again, keeps its bytes, is charged once and counted once."""
    with running(folder, training=TRAINING) as stack:
        gate = stack.gates["east"]
        client = stack.client("patient", ["film-1"])
        gate.store._writer.rows(f"PRAGMA {switch[0]}")
        before = 0
        while gate.post(stack.random_batch(gate, before).encode()) == 202:
            before += 1
        for _ in range(2):
            with pytest.raises(UnavailableError, match="again in 5 seconds"):
                client.sync(gate.api(), jitter=0)
            stack.world.now += 5  # as it was asked to wait
        with pytest.raises(UnavailableError):
            gate.proxy.check()
        gate.store._writer.rows(f"PRAGMA {switch[1]}")
        gate.beat()
        assert client.sync(gate.api(), jitter=0).outcome == "sent"
        bodies = {request.body for request in gate.ear.heard if request.method == "POST"}
        assert len(bodies) == before + 2, "the client's three attempts are the same bytes"
        stack.turn()
        assert stack.world.counts(1)[1:] == ((before + 1) * REPORTS, 0, 0)
        assert len(charged_epochs(folder / "clients" / "patient")) == 1


@pytest.mark.parametrize("switch", [FULL, READ_ONLY])
def test_at_the_server(folder: Path, switch: Switch) -> None:
    """The proxy keeps its chunks and hands them in when there is room."""
    with running(folder, training=TRAINING, chunk_reports=1000) as stack:
        gate = stack.gates["east"]
        for seed in range(40):
            assert gate.post(stack.random_batch(gate, seed).encode()) == 202
        stack.world.now = gate.signed().manifest.closes
        gate.beat()
        stack.beat()
        engine = stack.world.store._engine
        now = [switch[0]]

        def set_up(connection: Any, *_: object) -> None:
            connection.execute(f"PRAGMA {now[0]}")

        event.listen(engine, "checkout", set_up)
        for _ in range(3):
            with pytest.raises(UnavailableError):
                gate.beat()
        assert stack.world.counts(1)[1] < 40 * REPORTS
        now[0] = switch[1]
        stack.hand_in()
        assert stack.world.counts(1) == (4, 40 * REPORTS, 0, 0)
        assert stack.world.signed().manifest.epoch == 2
        assert np.abs(stack.world.sums(1)).sum() <= 40 * REPORTS
