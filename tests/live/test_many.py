"""Three proxies and four workers of a server on PostgreSQL, under load, any of them killed."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from random import Random

import pytest

from tests.lacking import leave_out
from tests.live.balancer import balancing
from tests.live.processes import Site, launching, sender
from tests.server import postgres

PROXIES = ("east", "middle", "west")
WORKERS = ("server-1", "server-2", "server-3", "server-4")
KILLS = int(os.environ.get("SOTTOVOCE_KILLS", "14"))
"""How many die; `make nightly` kills more."""


@pytest.mark.slow
def test_many_proxies_and_workers_any_of_them_killed(folder: Path) -> None:
    rng = Random(1)
    try:
        database = postgres.running()
        url = database.__enter__()
    except OSError as error:
        leave_out(f"many workers on PostgreSQL ({error})")
    try:
        with socket.create_server(("127.0.0.1", 0)) as front:
            port = front.getsockname()[1]
            site = Site(folder, proxies=PROXIES, workers=WORKERS, database=url, server_port=port)
            with (
                balancing([site.ports[name] for name in WORKERS], front),
                launching(site) as launcher,
                sender(site) as people,
            ):
                for name in (*WORKERS, *PROXIES):
                    launcher.start(name)
                people.go_on(1)
                for _ in range(KILLS):
                    moment = time.monotonic() + rng.uniform(0.0, 1.0)
                    people.until(lambda then=moment: time.monotonic() > then, "nothing")  # type: ignore[misc]
                    name = rng.choice((*WORKERS, *PROXIES))
                    launcher.kill(name)
                    launcher.start(name)
                people.go_on(2)
            assert site.check(people.sent_batches) >= 3
        assert people.sent_batches.n_acknowledged() >= 3 * 3 * 4
        assert "Traceback" not in site.logs()
    finally:
        database.__exit__(None, None, None)
