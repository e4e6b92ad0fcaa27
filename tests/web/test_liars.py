"""A proxy that lies, or a server that does: the page refuses, says so, sends and spends nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.protocol.examples import SMALL_ORDER
from tests.web.front import flipped, instead
from tests.web.lying import CATALOGUES, MANIFEST, MODELS, in_a_new_epoch, other_key, unmoved

if TYPE_CHECKING:
    from sottovoce.protocol import SignedManifest
    from tests.web.front import Lie
    from tests.web.system import System
    from tests.web.visitor import Visitor

FILMS = ["1", "608"]
Lying = Callable[["System", "SignedManifest"], "dict[str, Lie]"]
"""Given the system in a new epoch and the manifest before: which paths lie, and how."""


def older(system: System, before: SignedManifest) -> dict[str, Lie]:
    """The true manifest of an epoch that is over, once a later one was seen."""
    return {MANIFEST: instead(system.published_of(before.manifest.epoch - 1))}


def model(system: System, _: SignedManifest) -> dict[str, Lie]:
    """The last bit of V."""
    size = 4 * system.signed().manifest.items * system.signed().manifest.terms.factors
    return {MODELS: flipped(8 * size)}


def catalogue(system: System, _: SignedManifest) -> dict[str, Lie]:
    """A manifest that names another catalogue, whose bytes the proxy makes up."""
    told = system.signed_with(catalogue=bytes(range(32)))
    return {MANIFEST: instead(told), CATALOGUES: instead(system.catalogue.raw)}


def two_of_one_epoch(system: System, before: SignedManifest) -> dict[str, Lie]:
    """Both signed by the server's true key."""
    told = system.signed_with(epoch=before.manifest.epoch, reports_behind=1)
    return {MANIFEST: instead(told)}


UNSIGNED = ("not signed by the server that this device knows", "nothing is sent")
OTHER_BYTES = ("other bytes than the file", "nothing is sent")
HOTEL = b"<html>Please log in" + b" " * 200
LIES: dict[str, tuple[Lying, tuple[str, ...]]] = {
    "a bit of the signature": (lambda *_: {MANIFEST: flipped(8 * 9)}, UNSIGNED),
    "a bit of what was signed": (lambda *_: {MANIFEST: flipped(8 * 400)}, UNSIGNED),
    "page of a hotel": (lambda *_: {MANIFEST: instead(HOTEL)}, ("bad magic", "Nothing was sent")),
    "older": (older, ("was seen already", "serves old ones", "Nothing is sent")),
    "model": (model, OTHER_BYTES),
    "catalogue": (catalogue, OTHER_BYTES),
    "two of one epoch": (two_of_one_epoch, ("two different manifests", "does not tell everybody")),
}


def test_every_lie_is_refused_told_and_costs_nothing(visitor: Visitor, system: System) -> None:
    before = in_a_new_epoch(visitor, system)
    advice = [each.id for each in system.recommended_by(before, FILMS)]
    assert visitor.advice() == advice
    for lying, words in LIES.values():
        system.front.lies = lying(system, before)
        visitor.looks_again()
        visitor.says("#alert", "The server's word could not be trusted.", *words)
        visitor.says("#alert", "Recommendations go on with the last model")
        visitor.expect("#epoch").to_have_text(str(before.manifest.epoch))
        assert len(system.front.batches()) == len(visitor.charges()) == 1
        assert visitor.advice() == advice
    unmoved(visitor, system, before, advice)
    visitor.reload()
    visitor.says("#alert", *words)
    assert len(system.front.batches()) == len(visitor.charges()) == 1


def test_nothing_is_sealed_to_a_key_of_small_order(visitor: Visitor, system: System) -> None:
    """The model of that manifest is true, and may be used. All such keys: the vectors."""
    key = bytes.fromhex(SMALL_ORDER[2])
    in_a_new_epoch(visitor, system)
    system.front.lies = {MANIFEST: instead(system.signed_with(public_key=key))}
    visitor.says("#alert", "nothing can be sealed to this epoch's key", "nothing is sent")
    visitor.looks_again()
    assert len(system.front.batches()) == len(visitor.charges()) == 1
    assert visitor.spent() == system.cost()


@pytest.mark.parametrize("name", ["a bit of the signature", "model"])
def test_when_the_lies_end_it_goes_on_by_itself(
    name: str, visitor: Visitor, system: System
) -> None:
    before = in_a_new_epoch(visitor, system)
    system.front.lies = LIES[name][0](system, before)
    visitor.says("#alert", *LIES[name][1])
    system.front.lies = {}
    visitor.sees_left(before.manifest.epoch + 1)
    visitor.expect("#alert").to_be_empty()
    assert len(system.front.batches()) == len(visitor.charges()) == 2


@pytest.mark.parametrize("path", [MODELS, CATALOGUES])
def test_a_lie_at_the_first_visit_leaves_nothing_behind(
    path: str, visitor: Visitor, system: System
) -> None:
    system.front.lies = {path: flipped(8 * 300)}
    visitor.page.goto(system.url)
    visitor.says("#alert", "other bytes than the file", "nothing is sent")
    visitor.expect("#take-part").to_be_disabled()
    assert visitor.stored("files")["files"] == []
    assert visitor.stored("settings")["settings"][0]["newest"] is None
    system.front.lies = {}
    visitor.ready()
    visitor.expect("#alert").to_be_empty()


def test_another_key_after_the_first_visit(visitor: Visitor, system: System) -> None:
    before = in_a_new_epoch(visitor, system)
    advice = visitor.advice()
    visitor.leaves()
    system.front.lies = {"/": other_key()}
    heard = len(system.front.heard)
    visitor.page.goto(system.url)
    visitor.says("#other-key", "another server", "somebody may be pretending", "nothing is sent")
    visitor.until(lambda: visitor.advice() == advice, "recommendations go on")
    visitor.choose("inception")
    visitor.until(lambda: visitor.advice() != advice, "recommendations go on")
    visitor.switch()
    visitor.is_on(on=False)
    visitor.switch()
    visitor.is_on()
    assert [each.path for each in system.front.heard[heard:] if "/v2/" in each.path] == []
    assert len(system.front.batches()) == len(visitor.charges()) == 1
    visitor.at("#begin-anew").click()
    visitor.says("#begin-anew-dialog", "Begin anew with this server?")
    visitor.page.keyboard.press("Escape")
    system.front.lies = {}
    visitor.reload()
    visitor.expect("#other-key").to_have_count(0)
    visitor.sees_left(before.manifest.epoch + 1)


def test_to_begin_anew_and_come_back_keeps_the_ledger(visitor: Visitor, system: System) -> None:
    epoch = system.signed().manifest.epoch
    visitor.taking_part(epoch, "toy story")
    system.front.lies = {"/": other_key()}
    visitor.page.reload()
    visitor.at("#begin-anew").click()
    visitor.at("#begin-anew-dialog-yes").click()
    visitor.says("#alert", "not signed by the server that this device knows")
    visitor.expect("#take-part").to_be_disabled()
    assert visitor.films() == visitor.advice() == []
    system.front.lies = {}
    visitor.page.reload()
    visitor.at("#begin-anew").click()
    visitor.at("#begin-anew-dialog-yes").click()
    visitor.ready()
    visitor.expect("#other-key").to_have_count(0)
    visitor.is_on(on=False)
    assert visitor.films() == []
    visitor.switch()
    visitor.says("#report-state", "nothing is reported in this epoch again")
    assert visitor.spent() == system.cost()
    assert len(system.front.batches()) == 1
