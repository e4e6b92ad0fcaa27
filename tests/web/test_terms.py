"""Terms: what was accepted is the most that is ever sent, whatever the server signs later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.web.front import Answer, instead, refuse
from tests.web.lying import MANIFEST, in_a_new_epoch, unmoved

if TYPE_CHECKING:
    from tests.web.front import Heard
    from tests.web.system import System
    from tests.web.visitor import Visitor

TERMS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "epsilon": ({"epsilon": 3.0}, ("The budget of one report would rise from epsilon 2.5 to 3",)),
    "mechanism": (
        {
            "mechanism": "coordinate",
            "parameters": {},
            "loud_fraction": 0.5,
        },
        ("Reports would be made by coordinate, not by loudest",),
    ),
    "all": (
        {"reports": 25, "epsilon": 4.0, "least_clients": 1},
        ("25 reports, not 20", "from epsilon 2.5 to 4", "at least 1 people, not 3"),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_worse_terms_need_a_yes(name: str, visitor: Visitor, system: System) -> None:
    changes, words = TERMS[name]
    before = in_a_new_epoch(visitor, system)
    advice = visitor.advice()
    system.front.lies = {
        MANIFEST: instead(system.signed_with(**changes)),
        "/v2/batches": refuse(202),  # the real proxy has another manifest
    }
    visitor.says(
        "#alert",
        "The server wants other terms.",
        "not those that you accepted",
        "Nothing was sent",
    )
    unmoved(visitor, system, before, advice)
    visitor.at("#accept-terms").click()
    visitor.says("#new-terms-dialog", *words)
    visitor.page.keyboard.press("Escape")
    visitor.expect("#new-terms-dialog").to_have_count(0)
    visitor.looks_again()
    assert len(system.front.batches()) == len(visitor.charges()) == 1
    visitor.at("#accept-terms").click()
    visitor.at("#new-terms-dialog-yes").click()
    visitor.sees_left(before.manifest.epoch + 1)
    visitor.expect("#alert").to_be_empty()
    asked = replace(before.manifest.terms, **changes)  # type: ignore[arg-type]
    assert len(system.front.batches()) == 2
    assert len(system.front.batches()[1]) == 56 + 52 * asked.reports
    paid = (
        before.manifest.terms.epsilon * before.manifest.terms.reports
        + asked.epsilon * asked.reports
    )
    assert visitor.spent() == paid


def test_better_terms_are_taken_without_asking(visitor: Visitor, system: System) -> None:
    before = in_a_new_epoch(visitor, system)
    better = system.signed_with(reports=10, epsilon=2.0, least_clients=30)
    system.front.lies = {MANIFEST: instead(better), "/v2/batches": refuse(202)}
    visitor.sees_left(before.manifest.epoch + 1)
    assert visitor.spent() == 50 + 20
    (settings,) = visitor.stored("settings")["settings"]
    assert settings["terms"]["reports"] == 20, "what was accepted stays the bound"


def test_what_is_accepted_is_what_the_question_showed(visitor: Visitor, system: System) -> None:
    """Worse terms that were only seen at an earlier visit, and never accepted, bind nobody."""
    system.front.lies = {MANIFEST: instead(system.signed_with(reports=30, epsilon=4.0))}
    visitor.open()
    system.front.lies[MANIFEST] = instead(system.signed().encode())
    system.turn()
    system.front.lies = {}
    epoch = system.signed().manifest.epoch
    visitor.expect("#epoch").to_have_text(str(epoch))
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in an epoch", "epsilon 2.5")
    visitor.at("#terms-dialog-yes").click()
    visitor.sees_left(epoch)
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    system.front.lies = {MANIFEST: instead(worse), "/v2/batches": refuse(202)}
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert len(system.front.batches()) == len(visitor.charges()) == 1


def test_terms_that_get_worse_while_somebody_reads_the_question(
    visitor: Visitor, system: System
) -> None:
    epoch = system.signed().manifest.epoch
    visitor.open()
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in an epoch", "epsilon 2.5")
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    system.front.lies = {MANIFEST: instead(worse), "/v2/batches": refuse(202)}
    visitor.expect("#epoch").to_have_text(str(epoch + 1))
    visitor.at("#terms-dialog-yes").click()
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert system.front.batches() == visitor.charges() == []


def test_worse_terms_that_were_on_their_way_when_others_were_accepted(
    visitor: Visitor, system: System
) -> None:
    """The proxy holds an answer back until they have said yes to something better."""
    epoch = system.signed().manifest.epoch
    visitor.open()
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    asked, agreed = threading.Event(), threading.Event()

    def held_back(_request: Heard, honest: Callable[[], Answer]) -> Answer:
        asked.set()
        agreed.wait(20)
        return replace(honest(), body=worse)

    system.front.lies = {MANIFEST: held_back, "/v2/batches": refuse(202)}
    visitor.until(asked.is_set, "the page to ask")
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in an epoch", "epsilon 2.5")
    visitor.at("#terms-dialog-yes").click()
    visitor.is_on()
    agreed.set()
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert system.front.batches() == visitor.charges() == []
