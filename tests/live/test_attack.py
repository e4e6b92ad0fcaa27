"""Under attack from all sides: honest people are served in time, and nothing of theirs is lost.

SOTTOVOCE_ATTACK=full (`make nightly`) is the full size: it needs 20,000 file descriptors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.attackers import Plan
from tests.live.processes import CROWD, FACTORS, ITEMS, ROOT, Launcher, Sender, Site, launching
from tests.live.sent_batches import SentBatches
from tests.processes import wait_until

FULL = os.environ.get("SOTTOVOCE_ATTACK") == "full"
SECONDS = 60.0 if FULL else 5.0
SLOWEST = 0.25 if FULL else 1.0
"""Seconds, for 99 of 100 requests. Other tests run beside the small size."""
GROWTH = 128 * 2**20
"""Bytes by which a service may grow: its places for connections, and what it reads of them."""
PEOPLE = 6


class TimedClient(httpx.Client):
    """A new connection for each request, from an address of its own; knows how long each took."""

    def __init__(self, number: int):
        transport = httpx.HTTPTransport(local_address=f"127.1.0.{number + 1}")
        super().__init__(
            transport=transport, timeout=20, trust_env=False, headers={"Connection": "close"}
        )
        self.seconds: list[float] = []
        self.failures = 0

    def send(self, *arguments: Any, **named: Any) -> httpx.Response:
        begun = time.monotonic()
        try:
            return super().send(*arguments, **named)
        except httpx.TransportError:
            self.failures += 1
            raise
        finally:
            self.seconds.append(time.monotonic() - begun)


class Person(threading.Thread):
    """Reports in every epoch, several times: every batch counts once."""

    def __init__(self, site: Site, sent_batches: SentBatches, number: int, over: threading.Event):
        super().__init__()
        each = ITEMS * FACTORS // PEOPLE
        self.http = TimedClient(number)
        directions = range(number * each, (number + 1) * each)
        self._sender = Sender(site, self.http, sent_batches, directions)
        self._over = over

    def run(self) -> None:
        with self.http:
            while not self._over.wait(0.02):
                self._sender.try_once()


@contextmanager
def attackers(plan: Plan) -> Iterator[dict[str, int]]:
    """What they were answered is there when they have ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.live.attackers", plan.encode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    answers: dict[str, int] = {}
    try:
        yield answers
        answers |= json.loads(process.communicate("", timeout=60)[0])
    finally:
        process.kill()
        process.communicate()


def memory(launcher: Launcher) -> dict[str, int]:
    """Resident bytes of each."""
    pages = {
        part: int(Path(f"/proc/{launcher.pid(part)}/statm").read_text().split()[1])
        for part in ("server", "proxy")
    }
    return {part: number * os.sysconf("SC_PAGESIZE") for part, number in pages.items()}


def plan_for(site: Site) -> Plan:
    size = (8, 200, 4_000, 10_000, 100_000) if FULL else (2, 40, 400, 1_200, 1_200)
    return Plan(site.ports["proxy"], site.ports["server"], site.key.hex(), *size)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs all of 127.0.0.0/8, and /proc")
def test_honest_people_are_served(folder: Path) -> None:
    site, over, sent = Site(folder), threading.Event(), SentBatches(CROWD)
    site.change(
        "proxy", ("per_epoch = 0", "per_epoch = 20"), ("least_clients = 1", "least_clients = 30")
    )
    people = [Person(site, sent, number, over) for number in range(PEOPLE)]
    with launching(site) as launcher:
        for part in ("server", "proxy"):
            launcher.start(part)
        wait_until(people[0]._sender.manifest, "the proxy to have a manifest")
        before = memory(launcher)
        with attackers(plan_for(site)) as answers:
            time.sleep(2.0)
            for each in people:
                each.http.seconds.clear()
                each.start()
            time.sleep(SECONDS)
            grown = {part: now - before[part] for part, now in memory(launcher).items()}
        over.set()
        for each in people:
            each.join()
    print(answers, grown, "epochs", site.check(sent), sent.n_acknowledged())
