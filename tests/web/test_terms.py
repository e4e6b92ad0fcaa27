"""Terms: what was accepted is the most that is ever sent, whatever the server signs later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.server.world import KEYS
from tests.web.front import flipped, instead, other_key, refuse

if TYPE_CHECKING:
    from sottovoce.protocol import SignedManifest
    from tests.web.system import System
    from tests.web.visitor import Visitor

# Paths at the proxy.
MANIFEST = "/v2/manifest"
MODELS = "/v2/models/"


def in_a_new_epoch(visitor: Visitor, system: System) -> SignedManifest:
    """They took part in the epoch before; in this one their reports are due, but not seen yet."""
    before = system.signed()
    visitor.taking_part(before.manifest.epoch, "toy story", "fargo")
    system.front.lies[MANIFEST] = instead(before.encode())
    system.turn()
    return before


def unmoved(visitor: Visitor, system: System, before: SignedManifest, advice: list[str]) -> None:
    """Find one batch, one charge, and lists from the last model that could be trusted."""
    visitor.looks_again()
    assert len(system.front.batches()) == 1
    assert len(visitor.charges()) == 1
    assert visitor.spent() == before.manifest.terms.epsilon * before.manifest.terms.reports
    assert visitor.advice() == advice
    visitor.choose("inception")
    visitor.until(lambda: visitor.advice() != advice, "recommendations go on")
    assert len(visitor.advice()) == 10
    (settings,) = visitor.stored("settings")["settings"]
    assert settings["terms"]["reports"] == before.manifest.terms.reports


def test_worse_terms_need_consent(visitor: Visitor, system: System) -> None:
    changes = {"reports": 25, "epsilon": 4.0, "min_clients": 1}
    words = ("25 reports, not 20", "from epsilon 2.5 to 4", "at least 1 people, not 3")
    before = in_a_new_epoch(visitor, system)
    advice = visitor.advice()
    system.front.lies = {
        MANIFEST: instead(system.signed_with(**changes)),
        "/v2/batches": refuse(202),  # the real proxy has another manifest
        "/v2/batches/": refuse(204),
    }
    visitor.says(
        "#alert",
        "The server wants other terms.",
        "not those that you accepted",
        "No report is made",
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


def test_consent_is_for_the_limit_that_is_displayed(visitor: Visitor, system: System) -> None:
    visitor.open()
    visitor.at("#take-part").click()
    visitor.at("#terms-details summary").click()
    before = visitor.at("#terms-short").inner_text()
    limit = 4 * system.cost()
    # In one step of the page: the sentences of the new limit cannot be there yet.
    visitor.page.evaluate(
        """(limit) => {
          const field = document.querySelector("#terms-limit");
          field.value = limit;
          field.dispatchEvent(new Event("input"));
          document.querySelector("#terms-dialog-yes").click();
        }""",
        str(limit),
    )
    visitor.expect("#terms-dialog").to_be_visible()
    visitor.expect("#terms-short").not_to_have_text(before)
    visitor.at("#terms-dialog-yes").click()
    visitor.is_on()
    (settings,) = visitor.stored("settings")["settings"]
    assert settings["limit"] == limit


# The page finds out a proxy that lies, and sends nothing. All lies: `web/client/test`.


def test_forged_files_are_reported_until_they_are_replaced(
    visitor: Visitor, system: System
) -> None:
    before = in_a_new_epoch(visitor, system)
    advice = visitor.advice()
    for lies in (
        {MANIFEST: flipped(8 * 400)},
        {MANIFEST: instead(system.published_of(before.manifest.epoch - 1))},
        {MODELS: flipped(8 * 300)},
    ):
        system.front.lies = lies
        visitor.looks_again()
        visitor.says("#alert", "The server's word could not be trusted.", "o report is made")
    unmoved(visitor, system, before, advice)
    system.front.lies = {}
    visitor.sees_left(before.manifest.epoch + 1)
    visitor.expect("#alert").to_be_empty()
    assert len(system.front.batches()) == len(visitor.charges()) == 2


def test_another_key_is_reported_and_a_new_start_keeps_the_ledger(
    visitor: Visitor, system: System
) -> None:
    epoch = system.signed().manifest.epoch
    visitor.taking_part(epoch, "toy story")
    visitor.leaves()
    system.front.lies = {"/": other_key()}
    n_before = len(system.front.requests)
    visitor.page.goto(system.url)
    visitor.says("#other-key", "another server", "asks for nothing more", "no report is sent")
    visitor.until(lambda: len(visitor.advice()) == 10, "recommendations go on")
    later = [request.path for request in system.front.requests[n_before:]]
    assert [path for path in later if "/v2/" in path or path == "/page/panel.json"] == []
    for lies in (system.front.lies, {}):
        system.front.lies = lies
        visitor.page.reload()
        visitor.at("#begin-anew").click()
        visitor.at("#begin-anew-dialog-yes").click()
        visitor.expect("#other-key").to_have_count(0)
        assert visitor.films() == []
        noted = json.loads(visitor.page.evaluate("localStorage['sottovoce-spending']"))
        assert noted[KEYS.verification_key.hex()] == system.cost(), "the other ledger's charges"
    visitor.ready()
    visitor.take_part()
    visitor.says("#report-state", "nothing is reported in this epoch again")
    assert visitor.spent() == system.cost()
    assert len(system.front.batches()) == 1


def test_restarted_demo_offers_to_begin_again(visitor: Visitor, system: System) -> None:
    system.front.lies = {"/": other_key(KEYS.verification_key, demo=True)}
    visitor.open()
    visitor.choose("toy story")
    visitor.leaves()
    system.front.lies = {"/": other_key(demo=True)}
    visitor.page.goto(system.url)
    visitor.says("#new-demo", "This is a new demo.", "nothing is sent")
    visitor.expect("#other-key").to_have_count(0)
    visitor.until(lambda: visitor.films() == ["1"], "the films of the old demo")
    visitor.at("#begin-again").click()
    visitor.expect("#new-demo").to_have_count(0)
    visitor.until(lambda: visitor.films() == [], "no films")
    system.front.lies = {}  # a service that does not say that it is a demo
    visitor.page.reload()
    visitor.says("#other-key", "another server")
