"""How much a first visit loads, and how long sealing takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web.front import AS_SHIPPED
from tests.web.system import System, running
from tests.web.visitor_scripts import LISTEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.conftest import Visit

FILMS = 1_000
REPORTS = 100
MAX_BYTES = 150_000
MAX_MILLISECONDS = 1_000
LONGEST_TASK = 100
TRIES = 6
# Height by width of the window, both in pixels.
MAX_HEIGHTS = {1280: 1_300, 390: 2_600}
# Words that are visible before any details are opened.
MAX_WORDS = 350
COUNT_WORDS = """
() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let words = 0;
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    if (!parentElement.checkVisibility({ visibilityProperty: true })) continue;
    if (parentElement.closest(".visually-hidden, title, desc")) continue;
    words += data.split(/\\s+/u).filter((word) => /[\\p{L}\\p{N}]/u.test(word)).length;
  }
  return words;
}
"""
TASKS = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) {
    window.tasks.push({ at: performance.timeOrigin + startTime, duration });
  }
}).observe({ type: "longtask", buffered: true });
"""
SEALED = "window.told.find(({ kind }) => kind === 'made').at"
"""The moment at which all reports were sealed and paid for."""


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path) -> Iterator[System]:
    """Run a system as large as the demo's, with as many reports as a batch has by default."""
    with running(folder, people=4, films=FILMS, reports=REPORTS) as system:
        yield system


def test_first_visit_loads_little(visit: Visit, system: System) -> None:
    system.front.prelude = AS_SHIPPED
    visitor = visit().open()
    visitor.says("#learning", "How good the model is")
    visitor.until(
        lambda: visitor.page.evaluate("navigator.serviceWorker.controller !== null"),
        "the page to be kept for use offline",
    )
    beside_v = [
        request for request in system.front.requests if not request.path.startswith("/v2/models/")
    ]
    assert {"/", "/page/worker.js", "/sw.js", "/page/panel.json"} <= {e.path for e in beside_v}
    loaded = sum(request.sent for request in beside_v)
    print(f"first visit: {loaded} bytes on the wire without V")
    assert loaded < MAX_BYTES


def test_page_is_short_after_a_report(visit: Visit, system: System) -> None:
    visitor = visit(viewport={"width": 1280, "height": 800})
    visitor.taking_part(system.signed().manifest.epoch, "finding nemo", "matrix 1999", "alien 1979")
    system.turn()
    visitor.says("#list-change", "Since your first report")
    visitor.expect("#curve .last").to_be_visible()
    # Random reports change which titles the model lists. By tags alone the list is always the same.
    visitor.at("#whispers").click()
    visitor.expect("#whispers").to_have_attribute("aria-checked", "false")
    visitor.expect("#recommendations > li").to_have_count(10)
    for width, max_height in MAX_HEIGHTS.items():
        visitor.page.set_viewport_size({"width": width, "height": 800})
        words = visitor.page.evaluate(COUNT_WORDS)
        height = visitor.page.evaluate("document.documentElement.scrollHeight")
        print(f"{width} pixels wide: {height} high, {words} words")
        assert height <= max_height
        assert words <= MAX_WORDS


def test_100_reports_are_sealed_in_a_second_and_nothing_freezes(
    visit: Visit, system: System
) -> None:
    """Take the best of a few tries: this machine may be busy with something else."""
    tries: list[tuple[float, float]] = []
    while len(tries) < TRIES and not _good(tries):
        tries.append(_sealed(visit, system))
    print(f"100 reports sealed, stored and charged: {tries} (milliseconds, longest task)")
    assert _good(tries), tries


def _good(tries: list[tuple[float, float]]) -> bool:
    return any(taken < MAX_MILLISECONDS and task < LONGEST_TASK for taken, task in tries)


def _sealed(visit: Visit, system: System) -> tuple[float, float]:
    """Return how long it took, and the longest task of the page's own thread meanwhile."""
    visitor = visit()
    visitor.context.add_init_script(LISTEN)
    visitor.context.add_init_script(TASKS)
    visitor.open()
    visitor.choose("toy story", "fargo", "inception")
    visitor.take_part()
    visitor.sees_left(system.signed().manifest.epoch)
    assert len(system.front.batches()[-1]) == 56 + 52 * REPORTS
    sealed = visitor.page.evaluate(SEALED)
    # It begins when the manifest was requested again.
    begun = max(
        request.at * 1000
        for request in system.front.requests
        if request.path == "/v2/manifest" and request.at * 1000 < sealed
    )
    meanwhile = [
        task["duration"]
        for task in visitor.page.evaluate("window.tasks")
        if task["at"] + task["duration"] >= begun and task["at"] <= sealed + 500
    ]
    return sealed - begun, max(meanwhile, default=0)
