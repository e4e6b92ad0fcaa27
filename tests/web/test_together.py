"""The learning curve: worked out in the page, from the signed models, as Python measures it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.client.recommending import wide_model
from sottovoce.protocol import SignedManifest
from sottovoce.simulation.evaluation.panel import panel_popularity, panel_quality
from tests.server.world import KEYS
from tests.web.front import flipped, refuse
from tests.web.visitor_scripts import LISTEN

if TYPE_CHECKING:
    from tests.web.system import System
    from tests.web.visitor import Visitor

TABLE = """
() => [...document.querySelectorAll("#curve-table tbody tr")]
  .map((row) => [...row.cells].map((cell) => cell.textContent))
"""


def measured(system: System) -> dict[int, float]:
    """HR@10 of every epoch's model, by Python."""
    found = {}
    for epoch in range(1, system.signed().manifest.epoch + 1):
        signed = SignedManifest.open(system.published_of(epoch), KEYS.verification_key)
        found[epoch] = panel_quality(wide_model(system.edition(signed)), system.panel)
    return found


def curve(visitor: Visitor) -> dict[str, Any]:
    """As the worker told it last, to the last digit."""
    told: list[dict[str, Any]] = visitor.page.evaluate(
        "window.told.filter(({ kind }) => kind === 'curve').map(({ curve }) => curve)"
    )
    return told[-1] if told else {"points": []}


def compare(visitor: Visitor, wanted: dict[int, float]) -> None:
    """What the worker told, what is drawn, and what is in the table."""
    visitor.until(lambda: len(curve(visitor)["points"]) == len(wanted), "the whole curve")
    points = curve(visitor)["points"]
    assert [point["epoch"] for point in points] == list(wanted)
    for point in points:
        assert abs(point["quality"] - wanted[point["epoch"]]) < 1e-9
    assert [point["people"] for point in points] == [24] * (len(wanted) - 1) + [None]
    visitor.expect("#curve .mark").to_have_count(len(wanted))
    rows = visitor.page.evaluate(TABLE)
    assert [row[0] for row in rows] == [str(epoch) for epoch in wanted]
    for row, quality in zip(rows, wanted.values(), strict=True):
        assert abs(float(row[1].rstrip("%")) - 100 * quality) <= 0.05 + 1e-9


def test_one_point_an_epoch_and_each_is_what_python_measures(
    visitor: Visitor, system: System
) -> None:
    visitor.context.add_init_script(LISTEN)
    for _ in range(2):
        system.turn()
    visitor.open()
    compare(visitor, measured(system))
    system.turn()
    compare(visitor, measured(system))
    assert curve(visitor)["panel"] == len(system.panel.people)
    popularity = panel_popularity(system.panel, system.catalogue.tags)
    assert curve(visitor)["popularity"] == pytest.approx(popularity, abs=1e-12)
    names = visitor.page.locator("#curve .level + text").all_text_contents()
    assert names == ["chance", "popularity"]


def test_an_epoch_that_the_proxy_forges_is_not_on_the_curve(
    visitor: Visitor, system: System
) -> None:
    visitor.context.add_init_script(LISTEN)
    system.turn()
    forged = system.signed().manifest.epoch - 1
    system.front.lies = {f"/v2/manifests/{forged}": flipped(8 * 100)}
    visitor.open()
    visitor.until(lambda: curve(visitor)["points"], "a point")
    visitor.looks_again(3)
    shown = {point["epoch"] for point in curve(visitor)["points"]}
    assert forged not in shown
    assert system.signed().manifest.epoch in shown


def test_without_a_panel_people_are_counted(visitor: Visitor, system: System) -> None:
    system.front.lies = {"/page/panel.json": refuse(404)}
    system.turn()
    visitor.open()
    visitor.says("#learning", "People who took part", "How good the model is, is not published")
    rows = visitor.page.evaluate(TABLE)
    assert rows[-1][1] == "not over"


def test_the_facts_are_the_manifest_s(visitor: Visitor, system: System) -> None:
    system.turn()
    visitor.open()
    visitor.expect("#epoch").to_have_text(str(system.signed().manifest.epoch))
    visitor.expect("#people").to_have_text("24")
    visitor.says("#countdown", "59:")
    visitor.says("#mechanism", "loudest")
    visitor.says(
        "#statement", "epsilon 2.5", "at least 3 devices", "Not hidden: that you take part"
    )
