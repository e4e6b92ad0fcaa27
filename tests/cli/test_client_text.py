"""What `sottovoce client` prints about a client."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.client_text import describe_list, describe_status, format_remaining
from sottovoce.client import Status
from tests.client.world import World
from tests.protocol.examples import START


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (0.0, "0"), (25.0, "25"), (0.3, "0.3"), (1.9999999, "1.99999"), (15.000004, "15"),
        (1_234_567.9, "1.23456e+06"), (0.000_001_99999999, "1.99999e-06"), (None, "unknown"),
    ],
)  # fmt: skip
def test_remaining_epsilon_is_rounded_down(epsilon: float | None, text: str) -> None:
    assert format_remaining(epsilon) == text
    assert epsilon is None or float(text) <= epsilon


@pytest.fixture
def status(tmp_path: Path) -> Status:
    with World().create(tmp_path / "client") as client:
        return client.get_status()


@pytest.mark.parametrize(
    ("changes", "reporting"),
    [
        ({}, "on"),
        ({"terms": None}, "off: no terms are accepted"),
        ({"pending_terms": "a-name"}, "off: other terms wait for an answer"),
        ({"problem": "client.db: record 2"}, "off: the ledger is damaged"),
        ({"terms": None, "paused": True}, "paused"),
    ],
)
def test_reporting_is_on_only_if_the_next_sync_may_report(
    status: Status, changes: dict[str, Any], reporting: str
) -> None:
    rows = dict(describe_status(replace(status, **changes), "terms"))
    assert rows["reporting"] == reporting
    assert "start" not in rows


def test_a_start_is_named_and_no_model_with_one_is_young(status: Status) -> None:
    begun = replace(status, start=START, items=50, in_catalogue=1)
    assert START.name in dict(describe_status(begun, "terms"))["start"]
    (line,) = describe_list(begun, has_reasons=True)
    assert START.name in line
    assert START.licence in line
