"""A first visit: films chosen with the keyboard alone, recommendations worked out in the page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from sottovoce.core.recommending import Tag
from sottovoce.protocol import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.client import Recommendation
    from tests.web.conftest import Visit
    from tests.web.system import System
    from tests.web.visitor import Visitor

PREFIXES = {"genre": "", "year": "films from "}
LEAST_SHARE = 0.005
"""The page leaves out reasons that explain no more of a score."""
TOY_STORY, PULP_FICTION, FARGO, MATRIX = "1", "296", "608", "2571"


def sees(visitor: Visitor, system: System, films: list[str]) -> None:
    """Ten films, those of the Python client in its order, each with its reasons."""
    expected = system.recommended(films)
    assert not {each.id for each in expected} & set(films)
    assert {
        reason.what.id
        for each in expected
        for reason in each.because
        if isinstance(reason.what, Item)
    } <= set(films)
    visitor.until(lambda: shows(visitor, expected), f"{expected}, not {visitor.advice()}")


def shows(visitor: Visitor, expected: Sequence[Recommendation]) -> bool:
    if visitor.advice() != [each.id for each in expected]:
        return False
    shown = visitor.reasons()  # of this epoch's model only if the page has not changed since
    return len(shown) == len(expected) and all(map(gives, shown, expected))


def gives(reasons: tuple[list[str], list[str]], advised: Recommendation) -> bool:
    """Whether they name the films and tags that speak for it, and nothing else."""
    names, shown = reasons
    because = [reason.what for reason in advised.because if reason.share > LEAST_SHARE]
    own = [what.title for what in because if isinstance(what, Item)]
    tags = [what for what in because if isinstance(what, Tag)]
    assert own or tags
    tags.sort(key=lambda tag: tag.kind == "year")  # which the page puts last
    same = len(names) == len(own) and all(map(lambda a, b: words(a) <= words(b), names, own))
    return same and shown == [PREFIXES[tag.kind] + tag.name for tag in tags]


def words(title: str) -> set[str]:
    """The Matrix is Matrix, The."""
    return set(re.findall(r"\w+", title))


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
    assert visitor.films()[2] == system.recommended([TOY_STORY, MATRIX])[0].id
    system.turn()
    visitor.expect("#epoch").to_have_text(str(system.signed().manifest.epoch))
    sees(visitor, system, visitor.films())


def test_nothing_that_is_typed_or_chosen_leaves_and_nothing_is_sent_before_a_yes(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    visitor.choose("shawshank")
    visitor.at("#search").focus()
    visitor.page.keyboard.type("kubrick")
    system.turn()
    visitor.expect("#epoch").to_have_text(str(system.signed().manifest.epoch))
    visitor.looks_again()
    said = b"\n".join(each.everything().lower() for each in system.front.heard)
    assert b"/v2/manifest" in said
    for typed in (b"shaw", b"redemption", b"kubrick", b"kub"):
        assert typed not in said
    assert system.front.batches() == []
    stored = visitor.stored()
    assert stored["batches"] == stored["charges"] == stored["shown"] == []
    others = {name: rows for name, rows in stored.items() if name not in ("history", "files")}
    assert "Shawshank" not in json.dumps(others)
    visitor.says("#report-state", "You do not take part. Nothing leaves this device.")


def test_the_policy_stops_what_a_smuggled_script_would_try(visit: Visit, system: System) -> None:
    """And what a test that fails on any other request would see: the trap is not blind."""
    visitor = visit()
    visitor.open()
    tried = visitor.page.evaluate(
        "() => fetch('http://127.0.0.1:9/steal').then(() => 'sent', (error) => error.name)"
    )
    assert tried == "TypeError"
    violations = visitor.page.evaluate("window.violations")
    assert [each.split()[0] for each in violations] == ["connect-src"]
    visitor.page.evaluate("window.violations = []")
    assert any("violates the following Content Security Policy" in e for e in visitor.errors)
    visitor.errors.clear()
    visitor.requests[:] = [each for each in visitor.requests if "127.0.0.1:9" not in each.url]
