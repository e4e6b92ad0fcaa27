"""As shipped: `sottovoce up` and a browser, nothing changed and nothing hurried."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from sottovoce.sandbox.system import Child, running
from tests.processes import free_port, wait_until
from tests.web import chromium
from tests.web.front import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.chromium import Trap

EPOCH_SECONDS = 8
REPORTS = 100


def is_served(url: str, up: Child) -> bool:
    """Whether a browser would find a manifest there."""
    up.check()
    try:
        return httpx.get(f"{url}/v2/manifest", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_visitor_s_reports_are_in_the_next_model(
    browser: Browser, trap: Trap, folder: Path
) -> None:
    from tests.web.visitor import Visitor

    port = free_port()
    arguments = [
        "up", folder / "up", "--data", "synthetic:N=50,M=60", "--port", port,
        "--epoch-seconds", EPOCH_SECONDS, "--least-clients", 1,
    ]  # fmt: skip
    site = Site(f"http://127.0.0.1:{port}")
    with running("up", [str(each) for each in arguments], quiet=True) as up:
        wait_until(lambda: is_served(site.url, up), "a manifest")
        with chromium.fresh_profile(browser, trap) as context:
            visitor = Visitor(context, site, trap).open()
            visitor.choose("toy story", "fargo")
            visitor.take_part()
            visitor.says("#report-state", f"your {REPORTS} reports left")
            batches = [each for each in visitor.requests if each.method == "POST"]
            assert [len(each.post_data_buffer or b"") for each in batches] == [56 + 52 * REPORTS]
            visitor.expect("#people").to_have_text("1")
            assert visitor.spent() >= REPORTS * 2.5
            visitor.check()
