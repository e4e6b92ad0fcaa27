"""Terms: what she agreed to is the most that is ever sent, whatever the server signs later."""

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
        {"mechanism": "hadamard", "loud": 0},
        ("Reports would be made by hadamard, not by loudest",),
    ),
    "all": (
        {"reports": 25, "epsilon": 4.0, "least_clients": 1},
        ("25 reports, not 20", "from epsilon 2.5 to 4", "at least 1 people, not 3"),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_worse_terms_need_her_word(name: str, visitor: Visitor, system: System) -> None:
    changes, words = TERMS[name]
    before = in_a_new_epoch(visitor, system)
    advice = visitor.advice()
    system.front.lies = {
        MANIFEST: instead(system.signed_with(**changes)),
        "/v1/batches": refuse(202),  # the real proxy has another manifest
    }
    visitor.says(
        "#alert",
        "The server wants other terms.",
        "not those that you agreed to",
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
    asked = replace(before.manifest, **changes)  # type: ignore[arg-type]
    assert len(system.front.batches()) == 2
    assert len(system.front.batches()[1]) == 56 + 52 * asked.reports
    paid = before.manifest.epsilon * before.manifest.reports + asked.epsilon * asked.reports
    assert visitor.spent() == paid


def test_better_terms_are_taken_without_asking(visitor: Visitor, system: System) -> None:
    before = in_a_new_epoch(visitor, system)
    better = system.signed_with(reports=10, epsilon=2.0, least_clients=50)
    system.front.lies = {MANIFEST: instead(better), "/v1/batches": refuse(202)}
    visitor.sees_left(before.manifest.epoch + 1)
    assert visitor.spent() == 50 + 20
    (settings,) = visitor.stored("settings")["settings"]
    assert settings["terms"]["reports"] == 20, "what she agreed to stays the bound"


def test_what_she_agrees_to_is_what_the_question_showed(visitor: Visitor, system: System) -> None:
    """Worse terms that she only saw at an earlier visit, and never agreed to, bind nobody."""
    system.front.lies = {MANIFEST: instead(system.signed_with(reports=30, epsilon=4.0))}
    visitor.open()
    system.front.lies[MANIFEST] = instead(system.signed().encode())
    system.turn()
    system.front.lies = {}
    epoch = system.signed().manifest.epoch
    visitor.expect("#epoch").to_have_text(str(epoch))
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in every epoch", "epsilon 2.5")
    visitor.at("#terms-dialog-yes").click()
    visitor.sees_left(epoch)
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    system.front.lies = {MANIFEST: instead(worse), "/v1/batches": refuse(202)}
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert len(system.front.batches()) == len(visitor.charges()) == 1


def test_terms_that_get_worse_while_she_reads_the_question(
    visitor: Visitor, system: System
) -> None:
    epoch = system.signed().manifest.epoch
    visitor.open()
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in every epoch", "epsilon 2.5")
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    system.front.lies = {MANIFEST: instead(worse), "/v1/batches": refuse(202)}
    visitor.expect("#epoch").to_have_text(str(epoch + 1))
    visitor.at("#terms-dialog-yes").click()
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert system.front.batches() == visitor.charges() == []


def test_worse_terms_that_were_on_their_way_when_she_agreed(
    visitor: Visitor, system: System
) -> None:
    """The proxy holds an answer back until she has said yes to something better."""
    epoch = system.signed().manifest.epoch
    visitor.open()
    worse = system.signed_with(epoch=epoch + 1, reports=30, epsilon=4.0)
    asked, agreed = threading.Event(), threading.Event()

    def held_back(_request: Heard, honest: Callable[[], Answer]) -> Answer:
        asked.set()
        agreed.wait(20)
        return replace(honest(), body=worse)

    system.front.lies = {MANIFEST: held_back, "/v1/batches": refuse(202)}
    visitor.until(asked.is_set, "the page to ask")
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in every epoch", "epsilon 2.5")
    visitor.at("#terms-dialog-yes").click()
    visitor.is_on()
    agreed.set()
    visitor.says("#alert", "The server wants other terms.")
    visitor.looks_again()
    assert system.front.batches() == visitor.charges() == []
