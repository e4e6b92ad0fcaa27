"""Which visits report: real ones of 5 to 120 seconds, in a real browser, to a real proxy.

Each visitor agreed before and has not reported in the epoch. The site's page does as little as
possible, and all pauses are as shipped. `SOTTOVOCE_VISITS` sets how many visits each
length has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.world import KEYS
from tests.web import chromium
from tests.web.shop import Shop, client_scripts, running_shop
from tests.web.system import System, running
from tests.web.visitor_scripts import DUMP

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.web.chromium import Trap

VISITS_VARIABLE = os.environ.get("SOTTOVOCE_VISITS")
N_VISITS = int(VISITS_VARIABLE or 6)
VISIT_SECONDS = (5, 15, 30, 60, 120) if VISITS_VARIABLE else (5, 30)
# Between the beginnings of two visits: browsers of many people share this machine.
SPACING_SECONDS = 0.7
SHOP_PAGE = """<!doctype html><title>A shop</title><script type="module">
  import { Client } from "./sottovoce-client.js";
  const first = location.hash === "#first";
  const news = ({ offer }) => { if (offer && window.offered) window.offered(offer.terms); };
  const offered = new Promise((done) => { window.offered = done; });
  const client = await Client.open({ proxy: "PROXY", key: "KEY", limit: 5000, paused: true, news });
  if (first) {
    await client.record(["1"]);
    await client.accept(await offered, 5000);
    await client.pause(false);
    client.close();
    document.title = "agreed";
  }
</script>"""


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[Shop]:
    with running_shop() as shop:
        shop.scripts = client_scripts(folder / "js")
        yield shop


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shop: Shop) -> Iterator[System]:
    with running(folder, films=500, people=6, origins=(shop.url,)) as system:
        key = KEYS.verification_key.hex()
        shop.page = SHOP_PAGE.replace("PROXY", system.url).replace("KEY", key)
        yield system


def agree(context: BrowserContext, shop: Shop) -> None:
    page = context.new_page()
    page.goto(f"{shop.url}/#first")
    page.wait_for_function("document.title === 'agreed'", timeout=60_000)
    page.close()


def list_batch_states(context: BrowserContext, shop: Shop) -> list[str]:
    """Return the states of the batches that a browser stores, without opening a client."""
    page = context.new_page()
    page.goto(f"{shop.url}/sottovoce-client.js")
    (stored,) = page.evaluate(DUMP, None).values()
    page.close()
    return [batch["state"] for batch in stored["batches"]]


def run_visits(contexts: list[BrowserContext], shop: Shop, length: float) -> None:
    """Let visitors come one shortly after the other, and leave after this many seconds."""
    begun = time.monotonic() + SPACING_SECONDS
    ends = {number: begun + SPACING_SECONDS * number + length for number in range(len(contexts))}
    events = [(end - length, number, True) for number, end in ends.items()]
    events += [(end, number, False) for number, end in ends.items()]
    pages: dict[int, Page] = {}
    for moment, number, comes in sorted(events):
        wait = (moment if comes else ends[number]) - time.monotonic()
        if wait > 0 and pages:
            next(iter(pages.values())).wait_for_timeout(1000 * wait)
        if comes:
            pages[number] = contexts[number].new_page()
            ends[number] = time.monotonic() + length
            pages[number].goto(shop.url, wait_until="commit")
        else:
            pages.pop(number).close()


def test_visits_of_half_a_minute_report(
    browser: Browser, system: System, shop: Shop, trap: Trap
) -> None:
    table = []
    for length in VISIT_SECONDS:
        system.turn(report=False)
        with ExitStack() as opened:
            contexts = [
                opened.enter_context(chromium.fresh_profile(browser, trap)) for _ in range(N_VISITS)
            ]
            for context in contexts:
                agree(context, shop)
            system.front.requests.clear()
            run_visits(contexts, shop, length)
            arrived = sum(context.method == "POST" for context in system.front.requests)
            batch_states = [list_batch_states(context, shop) for context in contexts]
        sent, paid = batch_states.count(["sent"]), batch_states.count(["charged"])
        assert arrived >= sent, length
        table.append((length, sent, paid))
        print(f"visits of {length} s: of {N_VISITS} {sent} reported, {paid} had only paid")
    assert all(sent >= 0.95 * N_VISITS for length, sent, _ in table if length >= 30), table
