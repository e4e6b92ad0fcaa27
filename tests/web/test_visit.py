"""A first visit: films chosen with the keyboard alone, recommendations worked out in the page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.client.recommending import list_recommendations

if TYPE_CHECKING:
    from tests.web.conftest import Visit
    from tests.web.system import System
    from tests.web.visitor import Visitor

# Ids of films in the sample.
TOY_STORY = "1"
PULP_FICTION = "296"
FARGO = "608"
MATRIX = "2571"


def sees(visitor: Visitor, system: System, films: list[str]) -> None:
    """Ten films, those of the Python client in its order, each with a reason."""
    expected = [item.id for item in system.recommended(films, ordered=False)]
    assert not set(expected) & set(films)
    visitor.until(lambda: visitor.advice() == expected, f"{expected}, not {visitor.advice()}")
    visitor.expect("#recommendations .reason").to_have_count(len(expected))


def test_recommendations_are_those_of_the_python_client_and_follow_the_films(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    assert visitor.advice() == []
    visitor.choose("toy story")
    sees(visitor, system, [TOY_STORY])
    visitor.choose("pulp fict", "matrix the")
    sees(visitor, system, [TOY_STORY, PULP_FICTION, MATRIX])
    assert visitor.films() == [TOY_STORY, PULP_FICTION, MATRIX]
    visitor.at("#films > li[data-id='296'] button").press("Enter")
    visitor.expect("#films > li").to_have_count(2)
    sees(visitor, system, [TOY_STORY, MATRIX])
    visitor.at("#recommendations > li").first.locator("button").press("Enter")
    visitor.expect("#films > li").to_have_count(3)
    assert visitor.films()[2] == system.recommended([TOY_STORY, MATRIX], ordered=False)[0].id
    system.turn()
    visitor.expect("#epoch").to_have_text(str(system.signed().manifest.epoch))
    sees(visitor, system, visitor.films())


def test_a_film_marked_in_one_tab_is_in_the_other_without_a_new_model(visitor: Visitor) -> None:
    visitor.open()
    first = visitor.page
    visitor.another_tab()
    visitor.choose("toy story")
    second, visitor.page = visitor.page, first
    visitor.expect("#films > li").to_have_attribute("data-id", TOY_STORY)
    visitor.at("#films button").click()
    visitor.page = second
    visitor.expect("#films > li").to_have_count(0)


def test_on_a_phone_recommendations_come_before_suggestions(visit: Visit) -> None:
    visitor = visit(viewport={"width": 390, "height": 844}).open()
    visitor.expect("#suggestions > li").to_have_count(12)
    visitor.choose("toy stroy")
    visitor.until(lambda: len(visitor.advice()) == 10, "ten films")
    top = {name: visitor.at(name).bounding_box() for name in ("#recommendations", "#suggestions")}
    recommended, suggested = top["#recommendations"], top["#suggestions"]
    assert recommended is not None
    assert suggested is not None
    assert recommended["y"] < 844
    assert recommended["y"] + recommended["height"] < suggested["y"]
    visitor.at("#search").fill("zzzzqq")
    visitor.says(".search [role=status]", "No film is called “zzzzqq”.")


def test_switch_shows_the_list_without_reports_of_others(visitor: Visitor, system: System) -> None:
    visitor.open()
    visitor.choose("toy story", "matrix the")
    sees(visitor, system, [TOY_STORY, MATRIX])
    visitor.at("#whispers").press("Enter")
    visitor.expect("#whispers").to_have_attribute("aria-checked", "false")
    release = system.release(system.signed())
    unlearnt = replace(release, V=np.zeros_like(release.V))
    expected = [item.id for item in list_recommendations(unlearnt, {TOY_STORY: 1, MATRIX: 1}, 10)]
    visitor.until(lambda: visitor.advice() == expected, f"{expected}, not {visitor.advice()}")
    visitor.at("#whispers").press("Enter")
    sees(visitor, system, [TOY_STORY, MATRIX])


def test_nothing_is_sent_before_consent_and_no_input_is_ever_sent(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    visitor.choose("shawshank")
    visitor.at("#search").focus()
    visitor.page.keyboard.type("kubrick")
    system.turn()
    visitor.expect("#epoch").to_have_text(str(system.signed().manifest.epoch))
    visitor.looks_again()
    data = b"\n".join(request.to_bytes().lower() for request in system.front.requests)
    assert b"/v2/manifest" in data
    for typed in (b"shaw", b"redemption", b"kubrick", b"kub"):
        assert typed not in data
    assert system.front.batches() == []
    stored = visitor.stored()
    assert stored["batches"] == stored["charges"] == stored["shown"] == []
    others = {name: rows for name, rows in stored.items() if name not in ("history", "files")}
    assert "Shawshank" not in json.dumps(others)
    visitor.says("#report-state", "You do not take part. Nothing leaves this device.")


def test_policy_blocks_requests_of_an_injected_script(visit: Visit, system: System) -> None:
    # The test also shows that the trap for other requests works.
    visitor = visit()
    visitor.open()
    tried = visitor.page.evaluate(
        "() => fetch('http://127.0.0.1:9/steal').then(() => 'sent', (error) => error.name)"
    )
    assert tried == "TypeError"
    violations = visitor.page.evaluate("window.violations")
    assert [violation.split()[0] for violation in violations] == ["connect-src"]
    visitor.page.evaluate("window.violations = []")
    assert any("violates the following Content Security Policy" in e for e in visitor.errors)
    visitor.errors.clear()
    visitor.requests[:] = [
        violation for violation in visitor.requests if "127.0.0.1:9" not in violation.url
    ]
