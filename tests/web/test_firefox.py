"""The page in a real Firefox: films, recommendations, a batch that the server can open, screens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lacking import leave_out
from tests.processes import wait_until
from tests.web import firefox as firefoxes
from tests.web.system import System, running
from tests.web.test_access import AXE
from tests.web.visitor_scripts import IN_VIEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.web.firefox import Firefox

TOY_STORY, FARGO = "1", "608"
DOWN, ENTER = "\ue015", "\ue007"
"""Keys, as WebDriver writes them."""
IDS = "return [...document.querySelectorAll(arguments[0])].map((each) => each.dataset.id)"
FITS = """
const { scrollWidth, clientWidth } = document.documentElement;
return scrollWidth <= clientWidth;
"""
NARROW = (500, 640)
"""Firefox makes no window narrower."""
VIOLATIONS = """
const done = arguments[arguments.length - 1];
axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
  done(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target)}`)));
"""


@pytest.fixture(scope="module")
def whole_system(folder: Path) -> Iterator[System]:
    if firefoxes.find() is None:
        leave_out(
            "the page in Firefox (apt-get install firefox-esr, or name one: SOTTOVOCE_FIREFOX)"
        )
    with running(folder) as system:
        yield system


@pytest.fixture
def firefox(system: System, tmp_path: Path) -> Iterator[Firefox]:
    with firefoxes.started(tmp_path) as window:
        window.resize(*NARROW)
        window.open(system.url)
        wait_until(lambda: window.text("#epoch"), "the model")
        yield window


def choose(firefox: Firefox, title: str, count: int) -> None:
    firefox.type("#search", title)
    firefox.says("#search-results", "19")
    firefox.type("#search", DOWN + ENTER)
    wait_until(lambda: len(ids(firefox, "#films > li")) == count, title)


def ids(firefox: Firefox, selector: str) -> Sequence[str]:
    found: list[str] = firefox.run(IDS, selector)
    return found


def violations(firefox: Firefox) -> list[str]:
    if not AXE.exists():
        leave_out("axe-core in Firefox (needs `npm ci` in web/)")
    found: list[str] = firefox.run_async(AXE.read_text() + VIOLATIONS)
    return found


def test_a_visit_in_firefox(firefox: Firefox, system: System) -> None:
    choose(firefox, "toy story", 1)
    choose(firefox, "fargo", 2)
    wanted = [each.id for each in system.recommended([TOY_STORY, FARGO])]
    wait_until(lambda: ids(firefox, "#recommendations > li") == wanted, "what Python recommends")
    firefox.says("#learning", "How good the model is")
    assert firefox.run(FITS)
    assert violations(firefox) == []
    firefox.click("#take-part")
    firefox.click("#terms-dialog .explained summary")
    assert firefox.run(f"return ({IN_VIEW})(arguments[0])", "terms-dialog") == [True] * 3
    assert violations(firefox) == []
    firefox.click("#terms-dialog-yes")
    firefox.says("#report-state", f"Epoch {system.signed().manifest.epoch}: your 20 reports left")
    (batch,) = system.front.batches()
    assert len(system.opened(batch)) == 20
    assert firefox.run(FITS)
