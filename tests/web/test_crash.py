"""A browser that is killed while its batch is on the way: paid once, and the same bytes later."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web import chromium
from tests.web.front import refuse

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Playwright

    from tests.web.system import System

BATCHES = "/v2/batches"


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Path]:
    """A folder that outlives the browser."""
    yield tmp_path / "profile"
    kill(tmp_path / "profile")


def kill(profile: Path) -> None:
    """Every process of the browser with this profile, as a power cut would."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"--user-data-dir={profile}".encode() in line.split(b"\0"):
            os.kill(int(entry.name), signal.SIGKILL)


def launched(playwright: Playwright, profile: Path) -> BrowserContext:
    return chromium.launch_with_profile(playwright.chromium, str(profile))


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the browser in /proc")
def test_what_was_charged_before_a_crash_is_sent_after_it(
    playwright: Playwright, profile: Path, system: System
) -> None:
    from tests.web.visitor import Visitor

    system.front.lies = {BATCHES: refuse(503)}
    epoch = system.signed().manifest.epoch
    visitor = Visitor(launched(playwright, profile), system.front)
    visitor.open()
    visitor.choose("toy story", "fargo")
    visitor.take_part()
    visitor.until(lambda: system.front.batches(), "the batch to arrive")
    kill(profile)
    sent = system.front.batches()[0]
    system.front.lies = {}
    visitor = Visitor(launched(playwright, profile), system.front)
    visitor.open().sees_left(epoch)
    assert set(system.front.batches()) == {sent}
    assert visitor.films() == ["1", "608"]
    assert [row["epoch"] for row in visitor.charges()] == [epoch]
    assert visitor.spent() == system.cost()
    over = system.turn()
    assert over.reports == 25 * 20
    visitor.context.close()
