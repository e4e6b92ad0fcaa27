"""One browser for all tests here, a system for every module; left out where there is no browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lacking import leave_out
from tests.live.conftest import quick_folder
from tests.web import chromium
from tests.web.system import System, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

    from tests.web.chromium import Trap
    from tests.web.visitor import Visitor

    Visit = Callable[..., Visitor]


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Start Playwright for one module: while it runs, no other test here can run a loop."""
    missing_part = chromium.missing()
    if missing_part is not None:
        leave_out(f"every test of the page in a real browser ({missing_part})")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def trap() -> Iterator[Trap]:
    with chromium.trap() as trap:
        yield trap


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = chromium.launch(playwright.chromium)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Yield a folder in memory where possible: databases here sync thousands of small files."""
    with quick_folder() as path:
        yield path


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path) -> Iterator[System]:
    """Run a system for one module, if there is a browser.

    A page computes something for every epoch that there was, so each module has a new system.
    """
    with running(folder) as system:
        yield system


@pytest.fixture
def system(whole_system: System) -> System:
    """Honest, and with nothing heard yet."""
    whole_system.front.begin()
    return whole_system


@pytest.fixture
def visit(browser: Browser, system: System, trap: Trap) -> Iterator[Visit]:
    """Return a function that makes visitors with fresh profiles and checks them at the end."""
    from tests.web.visitor import Visitor

    with ExitStack() as opened:

        def make(**options: Any) -> Visitor:
            context = opened.enter_context(chromium.fresh_profile(browser, trap, **options))
            visitors.append(Visitor(context, system.front, trap))
            return visitors[-1]

        visitors: list[Visitor] = []
        yield make
        for visitor in visitors:
            visitor.check()


@pytest.fixture
def visitor(visit: Visit) -> Visitor:
    """Return one visitor."""
    return visit()
