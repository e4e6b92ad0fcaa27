"""Where lies begin, and what must be true after any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.server.world import KEYS
from tests.web.front import instead

if TYPE_CHECKING:
    from sottovoce.protocol import SignedManifest
    from tests.web.front import Answer, Heard, Lie
    from tests.web.system import System
    from tests.web.visitor import Visitor

MANIFEST, MODELS = "/v2/manifest", "/v2/models/"


def in_a_new_epoch(visitor: Visitor, system: System) -> SignedManifest:
    """They took part in the epoch before; in this one their reports are due, but not seen yet."""
    before = system.signed()
    visitor.taking_part(before.manifest.epoch, "toy story", "fargo")
    system.front.lies[MANIFEST] = instead(before.encode())
    system.turn()
    return before


def unmoved(visitor: Visitor, system: System, before: SignedManifest, advice: list[str]) -> None:
    """One batch, one charge, and recommendations from the last model that could be trusted."""
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


def other_key() -> Lie:
    """The page names a key of somebody else's."""

    def lie(_request: Heard, honest: Callable[[], Answer]) -> Answer:
        body = honest().body.replace(KEYS.verification_key.hex().encode(), b"ab" * 32)
        assert body != honest().body
        return replace(honest(), body=body)

    return lie
