"""A visitor of a shop with a real browser, who keeps its page open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.lacking import leave_out
from tests.web import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

MINUTE_SECONDS = 60.0
# A list that has learnt takes longest: epochs, and the polls of a page.
MAX_WAIT_SECONDS = 180.0


class Shopper:
    """Looks at the page. All pauses are real ones."""

    def __init__(self, browser: Browser, url: str):
        self._page = browser.new_context().new_page()
        self._accepted_batches = 0
        self._page.on("response", self._count_batch)
        self._page.goto(url)

    def log_in(self, name: str) -> None:
        """Log in to a shop that accepts any name."""
        self._page.fill("input", name)
        self._page.keyboard.press("Tab")

    def look_at_first_article(self) -> str:
        """Look at an article of the toy shop, and return its id."""
        article = self._page.locator("button[value]").first
        article.click()
        return article.get_attribute("value") or ""

    def publish(self, *, confirm: bool) -> None:
        """Press the toy shop's button for volunteers, and confirm the question or not."""
        with self._page.expect_event("dialog") as dialog:
            answer = "accept" if confirm else "dismiss"
            self._page.once("dialog", lambda dialog: getattr(dialog, answer)())
            self._page.locator("#publish").click()
        assert "Anybody may read it, for ever" in dialog.value.message
        title = self._page.locator("button[value]").first.inner_text()
        assert dialog.value.message.endswith(f"You would publish: {title}")
        if confirm:
            self._page.locator("#published:has-text('Published under')").wait_for()

    def come_back(self, seconds: float) -> None:
        """Stay for a while, then load the page again."""
        self._page.wait_for_timeout(1000 * seconds)
        self._page.reload()

    def question(self) -> list[str]:
        """Return the sentences of the question once they are there."""
        self._page.locator("sottovoce-consent [part=consent]").wait_for()
        return self._page.locator("sottovoce-consent [part=sentence]").all_inner_texts()

    def press(self, part: str) -> None:
        self._page.locator(f"sottovoce-consent button[part~={part}]").click()

    def state(self, words: str) -> None:
        self._page.locator(f"sottovoce-consent [part=state]:has-text('{words}')").wait_for()

    def titles(self) -> list[str]:
        return self._page.locator("sottovoce-list [part=link]").all_inner_texts()

    def until(self, holds: Callable[[list[str]], bool], what: str) -> list[str]:
        """Return the list as soon as the condition holds; an empty list is still loading."""
        give_up = time.monotonic() + MAX_WAIT_SECONDS
        while not (titles := self.titles()) or not holds(titles):
            assert time.monotonic() < give_up, f"waited too long for {what}: {titles}"
            self._page.wait_for_timeout(250)
        return titles

    def wait_for_batch(self) -> None:
        """Wait until the proxy has accepted a batch of this page."""
        give_up = time.monotonic() + MAX_WAIT_SECONDS
        while not self._accepted_batches:
            assert time.monotonic() < give_up, "waited too long for a batch"
            self._page.wait_for_timeout(250)

    def _count_batch(self, response: Response) -> None:
        self._accepted_batches += response.url.endswith("/batches") and response.status == 202

    def seconds_until(self, holds: Callable[[list[str]], bool]) -> float:
        began = time.monotonic()
        self.until(holds, "a change of the list")
        return time.monotonic() - began


@pytest.fixture
def shopper() -> Iterator[Callable[[str], Shopper]]:
    """Return a function that opens a page in a browser of this test only."""
    missing_part = chromium.missing()
    if missing_part is not None:
        leave_out(f"a shop's page in a real browser ({missing_part})")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = chromium.launch(started.chromium)
        yield lambda url: Shopper(browser, url)
        browser.close()
