"""Real processes that are killed, told to stop, or have no room: nothing acknowledged is lost.

A kill at every single commit is tried in `tests/proxy/test_proxy.py`, `tests/server/test_store.py`
and the lists of operations.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.lacking import leave_out
from tests.live.processes import Sender, Site, launching, sender
from tests.processes import wait_until
from tests.server import postgres

KILLS = int(os.environ.get("SOTTOVOCE_KILLS", "14"))
"""How many die; `make nightly` kills more."""


def check(site: Site, people: Sender, epochs: int) -> None:
    assert site.check(people.sent_batches) >= epochs
    assert people.sent_batches.n_acknowledged() > 10
    assert "Traceback" not in site.logs()


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True])
def test_killed_at_any_moment(folder: Path, many: bool) -> None:
    """One of each on SQLite; three proxies, each at a worker of its own, on PostgreSQL."""
    proxies = ("east", "middle", "west") if many else ("proxy",)
    workers = ("server-1", "server-2", "server-3") if many else ("server",)
    rng = Random(1)
    with ExitStack() as opened:
        database = None
        if many:
            try:
                database = opened.enter_context(postgres.running())
            except OSError as error:
                leave_out(f"many workers on PostgreSQL ({error})")
        site = Site(folder, proxies=proxies, workers=workers, database=database)
        launcher = opened.enter_context(launching(site))
        people = opened.enter_context(sender(site))
        for part in (*workers, *proxies):
            launcher.start(part)
        people.go_on(1)
        for _ in range(KILLS):
            moment = time.monotonic() + rng.uniform(0.0, 0.8)
            people.until(lambda moment=moment: time.monotonic() > moment, "nothing")  # type: ignore[misc]
            part = rng.choice((*workers, *proxies))
            launcher.kill(part)
            launcher.start(part)
        people.go_on(3)
        check(site, people, epochs=3)


def let_write(pid: int, most: int = resource.RLIM_INFINITY) -> None:
    """No file of this process grows beyond so many bytes."""
    assert sys.platform == "linux"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="another process's limits are Linux's")
@pytest.mark.parametrize("part", ["proxy", "server"])
def test_a_full_disk_heals_without_an_operator(folder: Path, part: str) -> None:
    site = Site(folder)
    site.change("server", ("epoch_seconds = 1", "epoch_seconds = 3"))
    ready = f"http://127.0.0.1:{site.ports[f'watch {part}']}/readyz"

    def status() -> int:
        people.try_once()
        return httpx.get(ready, trust_env=False).status_code

    with launching(site) as launcher, sender(site) as people:
        for each in ("server", "proxy"):
            launcher.start(each)
        people.go_on(1)
        let_write(launcher.pid(part), 1)
        if part == "proxy":
            signed = people.manifest()
            assert signed is not None
            people.waiting["proxy"].append(people.batch(signed))
            people.try_once()
            assert people.waiting["proxy"], "it was answered 503"
        wait_until(lambda: status() == 503, f"the {part} to notice")
        for _ in range(10):
            assert status() == 503
        let_write(launcher.pid(part))
        wait_until(lambda: status() == 200, f"the {part} to go on")
        people.go_on(2)
    check(site, people, epochs=2)
