"""Somebody who visits the page: what they do and see, and what their browser asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.web.visitor_scripts import DUMP, VIOLATIONS

if TYPE_CHECKING:
    from playwright.sync_api import (
        BrowserContext,
        ConsoleMessage,
        Locator,
        Page,
        Request,
    )
    from playwright.sync_api._generated import LocatorAssertions

    from tests.web.chromium import Trap
    from tests.web.front import RecordedRequest, Site

SECONDS = 30.0
"""Every wait: machines are busy."""
expect.set_options(timeout=SECONDS * 1000)
GETS = re.compile(
    r"/|/sw\.js|/page/(page\.js|worker\.js|style\.css|icon\.svg|panel\.json)|/v2/(manifest|shelf)"
    r"|/v2/manifests/[1-9][0-9]*|/v2/(models|catalogues|batches)/[0-9a-f]{64}"
)
NETWORK = re.compile(r"Failed to load resource|net::ERR_")
"""What Chromium itself writes to the console about a request that failed."""


@dataclass(frozen=True)
class Row:
    """One line of the table of reports."""

    row: int
    factor: int
    bit: int
    sealed: str
    """The beginning of the bytes that left, in hexadecimal."""
    coin: str


class Visitor:
    """One browser profile with a page."""

    def __init__(self, context: BrowserContext, front: Site, trap: Trap | None = None):
        self.context = context
        self.front = front
        self._trap = trap
        self.requests: list[Request] = []
        self.errors: list[str] = []
        context.set_default_timeout(SECONDS * 1000)
        context.add_init_script(VIOLATIONS)
        context.on("request", lambda request: self.requests.append(request))
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.page: Page = context.pages[0] if context.pages else context.new_page()

    # What they do

    def open(self) -> Visitor:
        """Visit, and wait until the model is there."""
        self.page.goto(self.front.url)
        return self.ready()

    def reload(self) -> Visitor:
        self.page.reload()
        return self.ready()

    def ready(self) -> Visitor:
        expect(self.at("#epoch")).not_to_be_empty()
        return self

    def another_tab(self) -> None:
        """Look at a second one; the first stays open."""
        self.page = self.context.new_page()
        self.open()

    def choose(self, *titles: str) -> None:
        """Choose films with the keyboard only."""
        for title in titles:
            count = len(self.films())
            self.at("#search").focus()
            self.page.keyboard.type(title)
            option = self.at("#search-results [role=option]").first
            expect(option).to_contain_text(title.split()[0], ignore_case=True)
            self.page.keyboard.press("ArrowDown")
            self.page.keyboard.press("Enter")
            expect(self.at("#films > li")).to_have_count(count + 1)

    def take_part(self, limit: float | None = None) -> None:
        """Read, and say yes."""
        self.at("#take-part").click()
        if limit is not None:
            self.at("#terms-details summary").click()
            self.at("#terms-limit").fill(str(limit))
        self.at("#terms-dialog-yes").click()
        self.is_on()

    def switch(self) -> None:
        """Switch it on or off, after consent."""
        self.at("#take-part").click()

    def forget(self) -> None:
        self.at("#forget").click()
        self.at("#forget-dialog-yes").click()
        expect(self.at("#films > li")).to_have_count(0)

    # What they see

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def expect(self, selector: str) -> LocatorAssertions:
        """Expect something of what this selector shows, now or soon."""
        return expect(self.at(selector))

    def is_on(self, on: bool = True) -> None:
        expect(self.at("#take-part")).to_have_attribute("aria-checked", str(on).lower())

    def films(self) -> list[str]:
        return self._ids("#films > li")

    def advice(self) -> list[str]:
        return self._ids("#recommendations > li")

    def _ids(self, selector: str) -> list[str]:
        ids: list[str] = self.page.evaluate(
            "(selector) => [...document.querySelectorAll(selector)].map((each) => each.dataset.id)",
            selector,
        )
        return ids

    def spent(self) -> float:
        """Return the epsilon on the meter."""
        return float(self.at("#budget").get_attribute("aria-valuenow") or "nan")

    def rows(self) -> list[Row]:
        """Return the table of reports."""
        cells: list[list[str]] = self.page.evaluate(
            "() => [...document.querySelectorAll('#reports tbody tr:not(.whole, .group)')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
        )
        return [_row(cell) for cell in cells]

    def says(self, selector: str, *words: str) -> None:
        """Expect all of these words there, now or soon."""
        for word in words:
            expect(self.at(selector)).to_contain_text(word, ignore_case=True)

    def sees_left(self, epoch: int) -> None:
        """Expect the state line to say that this epoch's reports have left."""
        self.says("#report-state", f"Epoch {epoch}: your", "left")

    def taking_part(self, epoch: int, *titles: str) -> Visitor:
        """Choose films, agree, and see the reports of this epoch leave."""
        self.open()
        self.choose(*titles)
        self.take_part()
        self.sees_left(epoch)
        return self

    def stored(self, *names: str) -> dict[str, list[Any]]:
        """Return what is in these object stores of the page's database, or in all stores."""
        whole: dict[str, dict[str, list[Any]]] = self.page.evaluate(DUMP, list(names) or None)
        (ours,) = (stores for stores in whole.values() if stores)
        return ours

    def charges(self) -> list[Any]:
        """Return the charges in the ledger, by epoch."""
        return sorted(self.stored("charges")["charges"], key=lambda charge: int(charge["epoch"]))

    # Waiting

    def until(self, done: Callable[[], object], what: str) -> None:
        """Look again and again, while the browser goes on."""
        give_up = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < give_up, f"waited too long for {what}"
            self.page.wait_for_timeout(25)

    def looks_again(self, times: int = 2) -> None:
        """Wait until the page has requested the manifest again this often, and has its answer."""
        asked = self.front.asked("/v2/manifest")
        self.until(lambda: self.front.asked("/v2/manifest") >= asked + times, "another look")

    def leaves(self) -> None:
        """Go away from the page, and wait until its worker, which dies slowly, says no more."""
        self.page.goto("about:blank")
        self.until(lambda: time.time() - self.front.requests[-1].at > 1, "silence")

    # What their browser did

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not NETWORK.search(message.text):
            self.errors.append(message.text)

    def check(self) -> None:
        """Check that nobody else was contacted, and nothing went where it must not."""
        assert self._trap is None or self._trap.caught == []
        for request in self.requests:
            _check_address(request.url, self.front.url)
        for recorded in self.front.requests:
            _check_recorded(recorded)
        for page in self.context.pages:
            assert page.evaluate("window.violations ?? []") == []
        assert self.errors == []
        assert self.context.cookies() == []


def _row(cells: list[str]) -> Row:
    _, direction, sign, sealed, coin = cells
    match = re.fullmatch(r"row (\d+),\s+factor (\d+)", direction)
    assert match, direction
    assert sign in ("+", "−"), sign
    return Row(int(match[1]), int(match[2]), int(sign == "+"), sealed.rstrip("…"), coin)


def _check_address(url: str, origin: str) -> None:
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}" == origin, url
    assert parts.query == parts.fragment == "", url


def _check_recorded(request: RecordedRequest) -> None:
    """Find no name, no cookie, no other page's address, and a body in batches only."""
    headers = {"cookie", "referer", "authorization", "from", "x-requested-with"} & set(
        request.headers
    )
    if request.path == "/sw.js":  # the browser's own look for a newer one
        headers -= {"referer"}
    assert not headers, (request.path, headers)
    assert request.query == b"", request.path
    if request.method == "POST":
        assert request.path == "/v2/batches"
        assert request.body[:4] == b"SVB2"
    else:
        assert request.method == "GET"
        assert GETS.fullmatch(request.path), request.path
        assert request.body == b""
