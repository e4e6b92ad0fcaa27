"""Taking part: what leaves, what it costs, and that it happens once in an epoch."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.web.front import HALF_AN_HOUR, HURRY, SLOWLY, WITHOUT_LOCKS

if TYPE_CHECKING:
    from tests.web.system import System
    from tests.web.visitor import Visitor

PEOPLE = 24
REPORTS = 20
SEALED, HEADER = 52, 56


def taking_part(visitor: Visitor, system: System, *titles: str) -> int:
    """Somebody who has chosen films and agreed; the epoch in which their reports have left."""
    epoch = system.signed().manifest.epoch
    visitor.taking_part(epoch, *(titles or ("toy story", "fargo")))
    return epoch


def epochs_of(system: System) -> list[int]:
    """Of every batch that was sent, in order."""
    return [int.from_bytes(batch[4:8], "little") for batch in system.front.batches()]


def test_what_the_table_shows_is_what_left_and_what_the_server_counts(
    visitor: Visitor, system: System
) -> None:
    epoch = taking_part(visitor, system)
    (batch,) = system.front.batches()
    manifest = system.signed().manifest
    assert len(batch) == HEADER + SEALED * REPORTS == HEADER + SEALED * manifest.terms.reports
    visitor.expect("#reports tbody tr").to_have_count(REPORTS)
    rows = visitor.rows()
    shown = [(row.row * manifest.terms.factors + row.factor) << 1 | row.bit for row in rows]
    assert shown == system.opened(batch)
    for at, row in enumerate(rows):
        begins = HEADER + SEALED * at
        assert row.sealed == batch[begins : begins + 8].hex()
        assert row.coin in ("kept", "random")
    first = visitor.at("#reports tbody tr").first
    first.locator("button").click()
    visitor.expect("#reports tr.whole code").to_have_text(batch[HEADER : HEADER + SEALED].hex())
    visitor.says("#batch-size", f"Epoch {epoch}: 1,096 bytes", "20 × 52", "It has left.")
    assert visitor.spent() == system.cost() == 50
    over = system.turn()
    assert (over.epoch, over.reports, over.undecodable) == (epoch, (PEOPLE + 1) * REPORTS, 0)
    visitor.expect("#people").to_have_text(str(PEOPLE + 1))


def test_the_question_tells_the_signed_terms_and_no_means_no(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    visitor.at("#take-part").click()
    visitor.says("#terms-dialog", "20 reports in an epoch", "epsilon 2.5", "at least 3 devices")
    visitor.says("#terms-dialog", "20 × 2.5 = 50", "10 epochs", "can never be called back")
    visitor.at("#terms-limit").fill("49.9")
    visitor.says("#terms-dialog", "Not enough for one epoch")
    visitor.at("#terms-limit").fill("0")
    visitor.at("#terms-dialog-yes").click()
    visitor.expect("#terms-limit").to_have_attribute("aria-invalid", "true")
    visitor.at("#terms-dialog-no").click()
    visitor.expect("#terms-dialog").to_have_count(0)
    visitor.is_on(on=False)
    visitor.looks_again()
    assert system.front.batches() == []
    assert visitor.charges() == []


def test_one_batch_an_epoch_whatever_is_done_with_the_page(
    visitor: Visitor, system: System
) -> None:
    first = taking_part(visitor, system)
    visitor.reload().sees_left(first)
    visitor.looks_again()
    visitor.page.close()
    visitor.another_tab()
    visitor.sees_left(first)
    visitor.another_tab()
    visitor.looks_again(4)
    assert epochs_of(system) == [first]
    assert visitor.spent() == system.cost()
    system.turn()
    for page in visitor.context.pages:
        visitor.page = page
        visitor.sees_left(first + 1)
    visitor.looks_again(4)
    assert epochs_of(system) == [first, first + 1]
    assert len(set(system.front.batches())) == 2
    assert [row["epoch"] for row in visitor.charges()] == [first, first + 1]
    assert visitor.spent() == 2 * system.cost()


def test_two_tabs_that_cannot_be_kept_apart_still_make_one_batch(
    visitor: Visitor, system: System
) -> None:
    system.front.prelude = WITHOUT_LOCKS
    first = taking_part(visitor, system)
    visitor.another_tab()
    assert visitor.page.evaluate("navigator.locks !== undefined"), "only the worker lacks them"
    for epoch in range(first + 1, first + 4):
        system.turn()
        for page in visitor.context.pages:
            visitor.page = page
            visitor.sees_left(epoch)
    assert sorted(set(epochs_of(system))) == list(range(first, first + 4))
    assert len(set(system.front.batches())) == 4, "the same bytes again, never others"
    assert [row["epoch"] for row in visitor.charges()] == list(range(first, first + 4))


def test_a_reload_finds_everything_again(visitor: Visitor, system: System) -> None:
    epoch = taking_part(visitor, system, "toy story", "fargo", "inception")
    visitor.expect("#reports tbody tr").to_have_count(REPORTS)
    before = (visitor.films(), visitor.advice(), visitor.spent(), visitor.rows())
    stored = visitor.stored()
    visitor.reload().sees_left(epoch)
    visitor.is_on()
    visitor.expect("#reports tbody tr").to_have_count(REPORTS)
    visitor.until(lambda: visitor.advice() == before[1], "the same recommendations")
    assert (visitor.films(), visitor.advice(), visitor.spent(), visitor.rows()) == before
    visitor.looks_again()
    assert visitor.stored() == stored


def test_once_stopped_nothing_leaves_and_recommendations_go_on(
    visitor: Visitor, system: System
) -> None:
    first = taking_part(visitor, system, "toy story")
    visitor.switch()
    visitor.is_on(on=False)
    system.turn()
    visitor.expect("#epoch").to_have_text(str(first + 1))
    visitor.says("#report-state", "Paused. Nothing leaves this device; recommendations go on.")
    visitor.looks_again(3)
    assert epochs_of(system) == [first]
    visitor.choose("fargo")
    wanted = [each.id for each in system.recommended(["1", "608"])]
    visitor.until(lambda: visitor.advice() == wanted, "recommendations of the new model")
    visitor.reload()
    visitor.is_on(on=False)
    visitor.looks_again()
    assert epochs_of(system) == [first]
    visitor.switch()
    visitor.sees_left(first + 1)
    assert epochs_of(system) == [first, first + 1]


def test_to_forget_leaves_the_ledger_and_the_epoch_is_not_reported_again(
    visitor: Visitor, system: System
) -> None:
    epoch = taking_part(visitor, system, "toy story", "fargo")
    charged = visitor.charges()
    visitor.forget()
    visitor.is_on(on=False)
    visitor.expect("#reports").to_be_hidden()
    stored = visitor.stored()
    assert stored["history"] == stored["batches"] == stored["shown"] == []
    assert stored["charges"] == charged
    assert (charged[0]["epoch"], len(charged)) == (epoch, 1)
    private = {name: rows for name, rows in stored.items() if name != "files"}
    assert "608" not in [value for row in private["settings"] for value in row.values()]
    assert "Fargo" not in json.dumps(private)
    assert visitor.advice() == []
    visitor.ready()
    visitor.choose("inception")
    visitor.switch()
    visitor.says("#report-state", "nothing is reported in this epoch again")
    visitor.looks_again()
    visitor.reload()
    visitor.looks_again()
    assert epochs_of(system) == [epoch]
    assert visitor.charges() == charged
    assert visitor.spent() == system.cost()
    system.turn()
    visitor.sees_left(epoch + 1)
    assert epochs_of(system) == [epoch, epoch + 1]


def test_nothing_of_a_forgotten_batch_stays_in_the_page(visitor: Visitor, system: System) -> None:
    taking_part(visitor, system)
    visitor.expect("#reports tbody tr").to_have_count(REPORTS)
    visitor.forget()
    visitor.expect("#reports tbody tr").to_have_count(0)
    visitor.expect("#batch .marks > *").to_have_count(0)


def test_the_lifetime_limit_ends_it_and_can_be_raised(visitor: Visitor, system: System) -> None:
    visitor.open()
    visitor.take_part(limit=system.cost())
    first = system.signed().manifest.epoch
    visitor.sees_left(first)
    system.turn()
    visitor.says("#report-state", "The lifetime limit does not allow another batch")
    visitor.says("#budget-text", "Spent 50 of 50: not enough for another epoch.")
    visitor.looks_again()
    assert epochs_of(system) == [first]
    visitor.at("#limit-change summary").click()
    visitor.at("#limit").fill("100")
    visitor.at("#limit-save").click()
    visitor.sees_left(first + 1)
    visitor.says("#budget-text", "Spent 100 of 100: not enough for another epoch.")
    assert epochs_of(system) == [first, first + 1]
    assert visitor.spent() == 2 * system.cost()


def test_somebody_without_films_sends_as_much_as_everybody(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    visitor.take_part()
    visitor.sees_left(system.signed().manifest.epoch)
    (batch,) = system.front.batches()
    assert len(batch) == HEADER + SEALED * REPORTS
    assert len(system.opened(batch)) == REPORTS


def test_a_batch_that_waits_to_leave_is_paid_for_and_a_pause_keeps_it_back(
    visitor: Visitor, system: System
) -> None:
    """It is made some seconds before the moment that was drawn."""
    system.front.prelude = SLOWLY
    visitor.open()
    visitor.choose("fargo")
    visitor.take_part()
    visitor.says("#report-state", "are sealed and paid for, and wait to be sent")
    assert visitor.spent() == system.cost(), "charged before anything is sent"
    (waiting,) = visitor.stored("batches")["batches"]
    assert (waiting["state"], system.front.batches()) == ("charged", [])
    visitor.switch()
    visitor.is_on(on=False)
    began = time.monotonic()
    visitor.until(lambda: time.monotonic() > began + 8, "more than the pause")
    assert system.front.batches() == []
    assert visitor.stored("batches")["batches"] == [waiting]
    visitor.switch()
    visitor.sees_left(system.signed().manifest.epoch)
    assert [list(batch) for batch in system.front.batches()] == [list(waiting["bytes"])]
    assert visitor.spent() == system.cost()


def test_a_page_that_is_closed_before_its_moment_has_spent_nothing_and_goes_on_from_its_plan(
    visitor: Visitor, system: System
) -> None:
    system.turn()  # the whole hour lies ahead
    system.front.prelude = HALF_AN_HOUR
    epoch = system.signed().manifest.epoch
    visitor.open()
    visitor.choose("fargo")
    visitor.take_part()
    visitor.says("#report-state", f"Epoch {epoch}: your reports leave at", "nothing is spent")
    visitor.looks_again()
    (plan,) = visitor.stored("plans")["plans"]
    assert 1700 < plan["sendAt"] - time.time() < 1900
    assert (system.front.batches(), visitor.charges(), visitor.spent()) == ([], [], 0)
    visitor.reload()
    visitor.says("#report-state", f"Epoch {epoch}: your reports leave at")
    assert visitor.stored("plans")["plans"] == [plan], "no second toss"
    system.front.prelude = HURRY  # as if the half hour had passed
    visitor.reload().sees_left(epoch)
    assert visitor.stored("plans")["plans"] == [plan]
    assert epochs_of(system) == [epoch]
    assert visitor.spent() == system.cost()
