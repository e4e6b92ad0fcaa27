"""Taking part: what leaves, what it costs, and that it happens once in an epoch."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.web import chromium
from tests.web.front import refuse

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Playwright

    from tests.web.system import System
    from tests.web.visitor import Visitor

PEOPLE = 24
REPORTS = 20
# Bytes of a sealed report and of a batch's header.
SEALED_BYTES = 52
HEADER_BYTES = 56


def taking_part(visitor: Visitor, system: System, *titles: str) -> int:
    """Choose films and agree; return the epoch in which the reports have left."""
    epoch = system.signed().manifest.epoch
    visitor.taking_part(epoch, *(titles or ("toy story", "fargo")))
    return epoch


def epochs_of(system: System) -> list[int]:
    """Return the epoch of every batch that was sent, in order."""
    return [int.from_bytes(batch[4:8], "little") for batch in system.front.batches()]


def test_table_shows_the_reports_that_the_server_counts(visitor: Visitor, system: System) -> None:
    epoch = taking_part(visitor, system)
    (batch,) = system.front.batches()
    manifest = system.signed().manifest
    assert (
        len(batch)
        == HEADER_BYTES + SEALED_BYTES * REPORTS
        == HEADER_BYTES + SEALED_BYTES * manifest.terms.reports
    )
    visitor.expect("#reports tbody tr").to_have_count(REPORTS)
    visitor.at("#batch summary").click()
    rows = visitor.rows()
    shown = [(row.row * manifest.terms.factors + row.factor) << 1 | row.bit for row in rows]
    assert shown == system.opened(batch)
    for at, row in enumerate(rows):
        begins = HEADER_BYTES + SEALED_BYTES * at
        assert row.sealed == batch[begins : begins + 8].hex()
        assert row.coin in ("kept", "random")
    first = visitor.at("#reports tbody tr").first
    first.locator("button").click()
    visitor.expect("#reports tr.whole code").to_have_text(
        batch[HEADER_BYTES : HEADER_BYTES + SEALED_BYTES].hex()
    )
    visitor.says("#batch-size", f"Epoch {epoch}: 1,096 bytes", "20 × 52", "It has left.")
    assert visitor.spent() == system.cost() == 50
    over = system.turn()
    assert (over.epoch, over.reports, over.undecodable) == (epoch, (PEOPLE + 1) * REPORTS, 0)
    visitor.expect("#people").to_have_text(f"{PEOPLE + 1} people")


def test_question_has_the_signed_terms_and_a_refusal_is_kept(
    visitor: Visitor, system: System
) -> None:
    visitor.open()
    visitor.at("#take-part").click()
    terms = system.signed().manifest.terms
    whole = terms.promise(turns=10).summarize(10 * REPORTS)
    visitor.expect("#terms-short p").to_have_text(whole)
    visitor.expect("#terms-dialog .words").to_have_text(
        " ".join([*whole, "Details"]), use_inner_text=True
    )
    visitor.at("#terms-details summary").click()
    visitor.says("#terms-dialog", "20 reports in an epoch", "epsilon 2.5", "at least 3 devices")
    visitor.says("#terms-dialog", "20 × 2.5 = 50", "10 epochs")
    visitor.at("#terms-limit").fill("50")
    visitor.expect("#terms-short p").to_have_text(terms.promise(turns=1).summarize(REPORTS))
    visitor.at("#terms-limit").fill("49.9")
    visitor.says("#terms-dialog", "Not enough for one epoch")
    visitor.at("#terms-limit").fill("0")
    visitor.at("#terms-details summary").click()
    visitor.at("#terms-dialog-yes").click()
    visitor.expect("#terms-limit").to_have_attribute("aria-invalid", "true")
    visitor.at("#terms-dialog-no").click()
    visitor.expect("#terms-dialog").to_have_count(0)
    visitor.is_on(on=False)
    visitor.looks_again()
    assert system.front.batches() == []
    assert visitor.charges() == []


def test_page_sends_one_batch_in_an_epoch(visitor: Visitor, system: System) -> None:
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


def test_forgetting_keeps_the_ledger_and_used_epochs(visitor: Visitor, system: System) -> None:
    epoch = taking_part(visitor, system, "toy story", "fargo")
    charged = visitor.charges()
    visitor.forget()
    visitor.is_on(on=False)
    visitor.expect("#reports").to_be_hidden()
    visitor.expect("#reports tbody tr").to_have_count(0)
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
    visitor.take_part()  # a click alone reports nothing: the question comes again
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


# A browser that is killed while its batch is on the way.


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that outlives the browser."""
    yield tmp_path / "profile"
    kill(tmp_path / "profile")


def kill(profile: Path) -> None:
    """Kill every process of the browser with this profile, as a power cut would."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"--user-data-dir={profile}".encode() in line.split(b"\0"):
            os.kill(int(entry.name), signal.SIGKILL)


def launched(playwright: Playwright, profile: Path) -> BrowserContext:
    return chromium.launch_with_profile(playwright.chromium, str(profile))


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the browser in /proc")
def test_charged_batch_is_sent_after_a_crash(
    playwright: Playwright, profile: Path, system: System
) -> None:
    from tests.web.visitor import Visitor

    system.turn()  # into this epoch nobody else of these tests has reported
    system.front.lies = {"/v2/batches": refuse(503)}
    epoch = system.signed().manifest.epoch
    visitor = Visitor(launched(playwright, profile), system.front)
    visitor.open()
    visitor.choose("toy story", "fargo")
    visitor.take_part()
    visitor.until(lambda: system.front.batches(), "the batch to arrive")
    kill(profile)
    sent = system.front.batches()[0]
    system.front.lies = {}
    visitor = Visitor(launched(playwright, profile), system.front)
    visitor.open().sees_left(epoch)
    assert set(system.front.batches()) == {sent}
    visitor.until(lambda: visitor.films() == ["1", "608"], "the films that were chosen")
    assert [row["epoch"] for row in visitor.charges()] == [epoch]
    assert visitor.spent() == system.cost()
    assert system.turn().reports == 25 * 20, "counted once"
    visitor.context.close()
