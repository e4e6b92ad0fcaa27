"""What becomes of a batch when the proxy does not simply take it: same bytes, one charge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.web.front import Answer, refuse

if TYPE_CHECKING:
    from tests.web.front import Lie
    from tests.web.system import System
    from tests.web.visitor import Visitor

BATCHES = "/v2/batches"


def agreeing(visitor: Visitor, system: System, lie: Lie) -> int:
    """Somebody who agrees while the proxy answers so; the epoch."""
    system.front.lies = {BATCHES: lie}
    visitor.open()
    visitor.choose("fargo")
    visitor.take_part()
    visitor.until(lambda: system.front.batches(), "a batch")
    return system.signed().manifest.epoch


def one_charge(visitor: Visitor, system: System, state: str) -> None:
    """Paid for once, and this became of it."""
    visitor.until(lambda: visitor.stored("batches")["batches"][0]["state"] == state, state)
    (batch,), (charge,) = visitor.stored("batches")["batches"], visitor.charges()
    assert batch["purpose"] == charge["purpose"]
    assert (batch["bytes"] is None) == (state != "charged")
    assert visitor.spent() == system.cost()


@pytest.mark.parametrize("status", [503, 429])
def test_later_means_the_same_bytes_later(status: int, visitor: Visitor, system: System) -> None:
    system.turn(report=False)  # in the last epoch a page of the test before may have reported
    epoch = agreeing(visitor, system, refuse(status, retry_after="3"))
    visitor.says("#status", "Recommendations go on, nothing is sent meanwhile.")
    visitor.says("#report-state", "are sealed and paid for, and wait to be sent")
    one_charge(visitor, system, "charged")
    system.front.lies = {}
    visitor.sees_left(epoch)
    first, *_, last = sent = [each for each in system.front.heard if each.path == BATCHES]
    assert len({each.body for each in sent}) == 1
    assert last.status == 202
    assert last.at - first.at >= 3
    one_charge(visitor, system, "sent")
    assert system.opened(last.body)
    over = system.turn()
    assert over.reports == 25 * 20, "counted once"


def test_the_time_to_wait_holds_after_a_reload_too(visitor: Visitor, system: System) -> None:
    agreeing(visitor, system, refuse(503, retry_after="600"))
    one_charge(visitor, system, "charged")
    system.front.lies = {}
    visitor.reload()
    visitor.says("#status", "asked to be sent the batch")
    visitor.another_tab()
    visitor.says("#status", "asked to be sent the batch")
    assert len(system.front.batches()) == 1
    one_charge(visitor, system, "charged")


@pytest.mark.parametrize(
    "lie",
    [
        refuse(410),
        lambda *_: Answer(
            409,
            json.dumps({"type": "urn:sottovoce:wrong-epoch"}).encode(),
            {"content-type": "application/problem+json"},
        ),
    ],
    ids=["closed", "wrong epoch"],
)
def test_too_late_is_told_and_stays_spent(lie: Lie, visitor: Visitor, system: System) -> None:
    epoch = agreeing(visitor, system, lie)
    visitor.says("#report-state", "came too late", "what was charged for it stays spent")
    one_charge(visitor, system, "dropped")
    visitor.says("#batch-size", "It came too late and was not counted.")
    visitor.reload()
    visitor.looks_again()
    assert len(system.front.batches()) == 1
    system.front.lies = {}
    system.turn()
    visitor.sees_left(epoch + 1)
    assert [row["epoch"] for row in visitor.charges()] == [epoch, epoch + 1]


@pytest.mark.parametrize(
    "lie",
    [refuse(400), refuse(200), refuse(409), refuse(307, location="http://sottovoce.invalid/x")],
    ids=["malformed", "200 is no thanks", "other bytes", "redirect"],
)
def test_a_refusal_is_told_and_the_batch_kept(lie: Lie, visitor: Visitor, system: System) -> None:
    epoch = agreeing(visitor, system, lie)
    visitor.says("#status", "Nothing of yours was lost; what waits is kept.")
    one_charge(visitor, system, "charged")
    system.front.lies = {}
    visitor.sees_left(epoch)
    assert len(set(system.front.batches())) == 1
    one_charge(visitor, system, "sent")
    # Chromium announces where a redirect leads; that nobody went there, the trap says.
    visitor.requests[:] = [each for each in visitor.requests if each.redirected_from is None]


def test_a_proxy_without_a_manifest_is_waited_for(visitor: Visitor, system: System) -> None:
    system.front.lies = {"/v2/manifest": refuse(503, retry_after="1")}
    visitor.page.goto(system.url)
    visitor.says("#status", "The proxy answered 503.")
    visitor.says("#no-recommendations", "The model is on its way.")
    system.front.lies = {}
    visitor.ready()
    visitor.expect("#status").to_be_empty()
