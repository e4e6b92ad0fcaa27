"""The page is accessible: axe-core finds nothing; small screens, large text, only a keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lacking import leave_out
from tests.web.front import instead, other_key
from tests.web.visitor_scripts import IN_VIEW

if TYPE_CHECKING:
    from tests.web.conftest import Visit
    from tests.web.system import System
    from tests.web.visitor import Visitor

AXE_FILE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
WIDE_SIZE = (1280, 800)
PHONE_SIZE = (390, 844)
NARROW_SIZE = (320, 640)
# At 200% a window has room for half the pixels.
ZOOMED_SIZE = (WIDE_SIZE[0] // 2, WIDE_SIZE[1] // 2)
VIEW_CASES = [
    pytest.param(WIDE_SIZE, "light", id="wide light"),
    pytest.param(WIDE_SIZE, "dark", id="wide dark"),
    pytest.param(PHONE_SIZE, "light", id="phone light"),
    pytest.param(NARROW_SIZE, "dark", id="narrow dark"),
    pytest.param(ZOOMED_SIZE, "light", id="200%"),
]
FITS_SCRIPT = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SCROLL_SCRIPT = "(top) => { document.querySelector('#terms-dialog .words').scrollTop = top; }"
MARK_STOPS_SCRIPT = """
() => {
  const wanted = "button, input, summary, a[href], [tabindex='0']";
  const found = [...document.querySelectorAll(wanted)].filter((each) =>
    !each.disabled && each.checkVisibility());
  found.forEach((each, at) => { each.dataset.stop = String(at); });
  return found.length;
}
"""
FOCUS_SCRIPT = """
() => {
  const active = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(active);
  return {
    stop: active.dataset.stop ?? null,
    outlined: outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2,
    what: active.outerHTML.slice(0, 120),
  };
}
"""


@pytest.fixture(scope="module")
def axe(playwright: object) -> str:
    if not AXE_FILE.exists():
        leave_out("axe-core on the page (needs `npm ci` in web/)")
    return AXE_FILE.read_text()


def find_violations(visitor: Visitor, axe: str) -> list[str]:
    """Return the problems that axe-core reports, with elements; nothing may scroll sideways."""
    assert visitor.page.evaluate(FITS_SCRIPT)
    visitor.page.evaluate(f"() => {{ {axe} }}")
    problems: list[dict[str, Any]] = visitor.page.evaluate(
        "async () => (await axe.run({ resultTypes: ['violations'] })).violations"
    )
    return [
        f"{problem['id']}: {[node['target'] for node in problem['nodes']]}" for problem in problems
    ]


def visit_in_size(visit: Visit, size: tuple[int, int], scheme: str = "light") -> Visitor:
    return visit(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)


@pytest.mark.parametrize(("size", "scheme"), VIEW_CASES)
def test_axe_finds_no_violation(
    size: tuple[int, int], scheme: str, visit: Visit, system: System, axe: str
) -> None:
    visitor = visit_in_size(visit, size, scheme).open()
    visitor.says("#learning", "How good the model is")
    assert find_violations(visitor, axe) == []
    visitor.choose("harry potter", "raiders")
    visitor.until(lambda: len(visitor.advice()) == 10, "ten films")
    visitor.at("#search").focus()
    visitor.page.keyboard.type("star")
    visitor.page.keyboard.press("ArrowDown")
    visitor.expect("#search-results").to_be_visible()
    assert find_violations(visitor, axe) == []
    visitor.page.keyboard.press("Escape")
    visitor.at("#take-part").click()
    visitor.at("#terms-dialog .explained summary").click()
    visitor.expect("#terms-epsilon").to_be_visible()
    assert find_violations(visitor, axe) == []
    visitor.at("#terms-dialog-yes").click()
    visitor.sees_left(system.signed().manifest.epoch)
    visitor.at("#batch summary").click()
    visitor.at("#reports tbody button").first.click()
    visitor.at("#limit-change summary").click()
    visitor.at("#measure summary").click()
    assert find_violations(visitor, axe) == []
    visitor.at("#forget").click()
    visitor.expect("#forget-dialog").to_be_visible()
    assert find_violations(visitor, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_bad_news(
    scheme: str, visit: Visit, system: System, axe: str
) -> None:
    visitor = visit_in_size(visit, PHONE_SIZE, scheme)
    visitor.taking_part(system.signed().manifest.epoch, "fargo")
    worse = system.signed_with(epoch=system.signed().manifest.epoch + 1, reports=21)
    system.front.lies = {"/v2/manifest": instead(worse)}
    visitor.says("#alert", "The server wants other terms.")
    assert find_violations(visitor, axe) == []
    visitor.at("#accept-terms").click()
    visitor.expect("#new-terms-dialog").to_be_visible()
    assert find_violations(visitor, axe) == []
    visitor.page.keyboard.press("Escape")
    visitor.context.set_offline(True)
    visitor.says("#status", "Offline")
    assert find_violations(visitor, axe) == []
    visitor.context.set_offline(False)
    visitor.leaves()
    system.front.lies = {"/": other_key()}
    visitor.page.goto(system.url)
    visitor.at("#begin-anew").click()
    visitor.expect("#begin-anew-dialog").to_be_visible()
    assert find_violations(visitor, axe) == []


def test_tab_reaches_every_control_and_shows_where_it_is(visitor: Visitor, system: System) -> None:
    visitor.taking_part(system.signed().manifest.epoch, "toy story", "fargo")
    visitor.expect("#reports tbody tr").to_have_count(20)
    visitor.switch()  # nothing moves after this
    visitor.is_on(on=False)
    visitor.until(lambda: len(visitor.advice()) == 10, "ten films")
    visitor.page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    stops = visitor.page.evaluate(MARK_STOPS_SCRIPT)
    assert stops > 20 + 10 + 2 + 5
    visitor.page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(stops + 2):  # once round, over the end of the page
        visitor.page.keyboard.press("Tab")
        focused = visitor.page.evaluate(FOCUS_SCRIPT)
        assert focused["outlined"] or focused["what"].startswith("<body"), focused["what"]
        reached.append(focused["stop"])
    missed = set(map(str, range(stops))) - set(reached)
    assert not missed, visitor.page.evaluate(
        "(missed) => missed.map((at) => document.querySelector(`[data-stop='${at}']`).outerHTML)",
        sorted(missed),
    )


@pytest.mark.parametrize("size", [PHONE_SIZE, (640, 320)], ids=["phone", "low"])
def test_the_title_and_the_buttons_of_a_long_question_are_in_view(
    size: tuple[int, int], visit: Visit, system: System
) -> None:
    """Check the top and the bottom of the scrolled words."""
    visitor = visit_in_size(visit, size).open()
    visitor.at("#take-part").click()
    visitor.at("#terms-dialog .explained summary").click()
    for top in (0, 1e6):
        visitor.page.evaluate(SCROLL_SCRIPT, top)
        assert visitor.page.evaluate(IN_VIEW, "terms-dialog") == [True] * 3
