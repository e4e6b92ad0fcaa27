"""What is on the screen: nothing broken over two lines, covered, or out of view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.front import instead
from tests.web.lying import other_key
from tests.web.system import NOTICE
from tests.web.visitor_scripts import IN_VIEW

if TYPE_CHECKING:
    from tests.web.conftest import Visit
    from tests.web.system import System
    from tests.web.visitor import Visitor

SIZES = [(360, 640), (390, 844), (640, 320), (1280, 800)]
SCROLL = "(id) => { const all = document.querySelector(`#${id} .words`); all.scrollTop = 1e6; }"
CROSSING = """
() => {
  const line = document.querySelector("#curve .line");
  const { x, y, width, height } = document.querySelector("#curve .value").getBBox();
  const points = [...Array(501).keys()].map((at) =>
    line.getPointAtLength((line.getTotalLength() * at) / 500));
  return points.filter((point) =>
    point.x >= x && point.x <= x + width && point.y >= y && point.y <= y + height).length;
}
"""
"""How many points of the curve lie in the box of the newest percentage."""
PLACES = """
() => [...document.querySelectorAll("#recommendations > li")].map((each) =>
  Number.parseFloat(getComputedStyle(each, "::before").height))
"""


BELOW = """
(id) => {
  const above = document.getElementById(id);
  const [one, next] = [above, above.nextElementSibling].map((each) => each.getBoundingClientRect());
  return next.top - one.bottom;
}
"""
"""Pixels between an element and the next one."""


def sized(visit: Visit, size: tuple[int, int], scheme: str = "light") -> Visitor:
    return visit(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)


def whole(visitor: Visitor, dialog: str) -> None:
    """Title and buttons are in view, wherever the words are scrolled to."""
    visitor.expect(f"#{dialog}").to_be_visible()
    assert visitor.page.evaluate(IN_VIEW, dialog) == [True] * 3
    visitor.page.evaluate(SCROLL, dialog)
    assert visitor.page.evaluate(IN_VIEW, dialog) == [True] * 3


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_buttons_of_every_dialog_are_in_view(
    size: tuple[int, int], visit: Visit, system: System
) -> None:
    visitor = sized(visit, size).open()
    visitor.at("#take-part").click()
    visitor.at("#terms-dialog .explained summary").click()
    whole(visitor, "terms-dialog")
    visitor.expect("#terms-limit").to_be_in_viewport()
    visitor.at("#terms-dialog-yes").click()
    visitor.sees_left(system.signed().manifest.epoch)
    visitor.at("#forget").click()
    whole(visitor, "forget-dialog")
    visitor.at("#forget-dialog-no").click()
    worse = system.signed_with(epoch=system.signed().manifest.epoch + 1, reports=21)
    system.front.lies = {"/v2/manifest": instead(worse)}
    visitor.at("#accept-terms").click()
    whole(visitor, "new-terms-dialog")
    visitor.at("#new-terms-dialog-no").click()
    visitor.leaves()
    system.front.lies = {"/": other_key()}
    visitor.page.goto(system.url)
    visitor.at("#begin-anew").click()
    whole(visitor, "begin-anew-dialog")


@pytest.mark.parametrize("size", [(320, 640), (390, 844), (1440, 1000)], ids=str)
def test_rank_ten_stands_on_one_line_and_a_young_model_says_so(
    size: tuple[int, int], visit: Visit, system: System
) -> None:
    visitor = sized(visit, size).open()
    visitor.expect("#young").to_be_hidden()
    visitor.choose("toy story")
    visitor.until(lambda: len(visitor.advice()) == 10, "ten films")
    assert len(set(visitor.page.evaluate(PLACES))) == 1
    visitor.says("#young", "This model is young: so far it does no better for its test people")


@pytest.mark.parametrize("size", [(360, 640), (1440, 1000)], ids=str)
def test_the_newest_percentage_stands_clear_of_the_curve(
    size: tuple[int, int], visit: Visit, system: System
) -> None:
    visitor = sized(visit, size, "dark")
    epoch = system.signed().manifest.epoch
    for each in range(epoch, epoch + 3):
        visitor.open()
        visitor.expect("#curve .mark").to_have_count(each)
        assert visitor.page.evaluate(CROSSING) == 0
        system.turn()


def test_an_operator_s_notice_stands_apart(visitor: Visitor, system: System) -> None:
    visitor.open()
    visitor.says("#operator-notice", NOTICE)
    visitor.expect("#epoch").to_be_visible()
    assert visitor.page.evaluate(BELOW, "operator-notice") >= 16


def test_words_of_the_trade_are_explained_where_they_stand(
    visitor: Visitor, system: System
) -> None:
    visitor.taking_part(system.signed().manifest.epoch, "toy story")
    visitor.says("#learning", "hidden among 99 others", "call this HR@10")
    visitor.says("#mechanism", "called loudest", "speak for what you touched most are your loudest")
    visitor.says("#leaving", "The budget is the most that this device may give away")
    visitor.says(
        "#together figure", "Epsilon says how much a report can tell", "12.2 times likelier"
    )
    picture = visitor.at("#together figure svg")
    assert picture.get_attribute("role") == "img"
    visitor.says("#epsilon-description", "epsilon 2.5 (one report): 93 in 100")
    visitor.says("#epsilon-description", "epsilon 50,000 (everything, linked): certain")


def test_search_finds_what_people_type(visitor: Visitor, system: System) -> None:
    """All kinds of questions over all titles: web/page/test/titles.test.ts."""
    visitor.open()
    visitor.at("#search").focus()
    visitor.page.keyboard.type("starwars 4")
    visitor.says("#search-results li:first-child", "Star Wars: Episode IV")
