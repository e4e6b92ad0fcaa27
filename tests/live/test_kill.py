"""kill -9 for real processes, at every commit and at any moment: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.live.launcher import KINDS
from tests.live.processes import ROOT, Sender, Site, launching, sender

NUMBERS = {"add_chunk": (1, 2, 3), "set_delivered": (1, 2, 3), "add_batch": (1, 2, 4)}
"""Of commits that there are many of in an epoch; the others come once."""


@pytest.mark.slow
@pytest.mark.parametrize("part", ["server", "proxy"])
def test_killed_at_every_commit(folder: Path, part: str) -> None:
    site = Site(folder)
    kill_points = [
        (kind, number, after)
        for kind in KINDS[part]
        for number in NUMBERS.get(kind, (1,))
        for after in (False, True)
    ]
    with launching(site) as launcher, sender(site) as people:
        launcher.start("proxy" if part == "server" else "server")
        for kind, number, after in kill_points:
            launcher.start(part, kind, number, after=after)
            told = f"the {part} to die at {kind} {number}"
            people.until(lambda: launcher.is_dead(part), told)
        launcher.start(part)
        people.go_on(2)
    check(site, people, epochs=4)


def check(site: Site, people: Sender, epochs: int) -> None:
    assert site.check(people.sent_batches) >= epochs
    assert people.sent_batches.n_acknowledged() > 10
    assert "Traceback" not in site.logs()


@pytest.mark.slow
def test_killed_at_any_moment(folder: Path) -> None:
    """In the middle of whatever it does, whichever part is the next to go."""
    site, rng = Site(folder), Random(1)
    with launching(site) as launcher, sender(site) as people:
        for part in ("server", "proxy"):
            launcher.start(part)
        people.go_on(1)
        for _ in range(20):
            moment = time.monotonic() + rng.uniform(0.0, 0.6)
            people.until(lambda moment=moment: time.monotonic() > moment, "nothing")  # type: ignore[misc]
            part = rng.choice(("server", "proxy"))
            launcher.kill(part)
            launcher.start(part)
        people.go_on(3)
    check(site, people, epochs=3)


@pytest.mark.slow
def test_told_to_stop_under_load_they_end_well_and_lose_nothing(folder: Path) -> None:
    """As an operator starts them: `python -m sottovoce`, with processes that open reports."""
    site = Site(folder)
    command = [sys.executable, "-m", "sottovoce"]

    def start(part: str) -> subprocess.Popen[bytes]:
        log = (folder / f"{part}.log").open("ab")
        with log:
            return subprocess.Popen(
                [*command, part, "run", "--config", str(site.configs[part])], stderr=log, cwd=ROOT
            )

    running = {part: start(part) for part in ("server", "proxy")}
    try:
        with sender(site) as people:
            people.go_on(2)
            for part in ("proxy", "server"):
                with sending(people):
                    running[part].send_signal(signal.SIGTERM)
                    code = running[part].wait(60)
                assert code == 0, (folder / f"{part}.log").read_text()
                running[part] = start(part)
                people.go_on(2)
            assert site.check(people.sent_batches) >= 4
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert "Traceback" not in site.logs()


@contextmanager
def sending(people: Sender) -> Iterator[None]:
    """All the while, without a pause."""
    stopping = threading.Event()

    def send() -> None:
        while not stopping.is_set():
            people.try_once()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
