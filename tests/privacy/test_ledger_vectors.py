"""`tests/vectors/ledger.json`: what every ledger, in any language, must decide alike.

Limits and charges go in, one after the other; out come each decision, what was spent so far, and
what a person is shown. The file changes only when the ledger's rule does. To write it anew:
`python -m tests.privacy.test_ledger_vectors`.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import BudgetExceededError, LedgerError
from sottovoce.privacy import Charge, Ledger, rounded_down, rounded_up
from tests.cases import one_a_line

FILE = Path(__file__).parents[1] / "vectors" / "ledger.json"
UNITS = 1074
"""Every finite float64, and so every amount, is a whole number of 2^-1074."""
LARGEST, LEAST = sys.float_info.max, 5e-324

Step = dict[str, Any]


def limit(value: float) -> Step:
    return {"limit": value}


def charge(name: object, epsilon: float, reports: int = 1, **changes: Any) -> Step:
    purpose = sha256(repr(name).encode()).hexdigest()
    when = {"training": "0f" * 16, "epoch": 1}
    fields = {"purpose": purpose, "mechanism": "loudest", "epsilon": epsilon}
    hidden = {"reports": reports, "loud_fraction": 0.1, "clients": 100}
    return {"charge": {**when, **fields, **hidden, **changes}}


def numbered(count: int, epsilon: float, reports: int = 1) -> list[Step]:
    return [charge(number, epsilon, reports, epoch=number + 1) for number in range(count)]


SEQUENCES: dict[str, list[Step]] = {
    "a few epochs": [limit(50.0), *numbered(4, 2.5, 4), *numbered(6, 2.5, 4)],
    "the limit exactly reached": [limit(10.0), *numbered(3, 2.5, 2), charge("x", LEAST)],
    "the limit reached by one batch": [limit(250.0), charge(0, 2.5, 100), charge(1, 2.5, 100)],
    "ten times 0.1 is more than 1": [limit(1.0), *numbered(11, 0.1)],
    "ten times 0.1 fits just above 1": [limit(1.0000000000000002), *numbered(11, 0.1)],
    "one batch of ten times 0.1": [limit(1.0), charge(0, 0.1, 10), charge(1, 0.1, 9)],
    "0.1 and 0.2 are more than 0.3": [limit(0.3), charge(0, 0.1), charge(1, 0.2), charge(2, 0.1)],
    "a smaller one fits where a larger does not": [
        limit(5.0),
        charge(0, 2.5),
        charge(1, 2.6),
        charge(2, 2.5),
    ],
    "the same again": [limit(5.0), charge(0, 2.5), charge(0, 2.5), charge(1, 2.5), charge(0, 2.5)],
    "the same, but not alike": [
        limit(50.0),
        charge(0, 2.5, 4),
        charge(0, 2.5, 3),
        charge(0, 2.0, 4),
        charge(0, 2.5, 4, epoch=2),
        charge(0, 2.5, 4, mechanism="coordinate"),
        charge(0, 2.5, 4, training="f0" * 16),
        charge(0, 2.5, 4, loud_fraction=0.05),
        charge(0, 2.5, 4, clients=99),
        charge(0, 2.5, 4),
    ],
    "refused, then again": [limit(1.0), charge(0, 2.5), charge(0, 2.5), limit(3.0), charge(0, 2.5)],
    "not alike beyond the limit": [limit(2.5), charge(0, 2.5), charge(0, 40.0, 10_000)],
    "a limit of nothing": [limit(0.0), charge(0, LEAST), limit(LEAST), charge(0, LEAST)],
    "raised": [limit(2.5), *numbered(2, 2.5), limit(5.0), *numbered(3, 2.5)],
    "lowered below what is spent": [
        limit(10.0),
        *numbered(3, 2.5),
        limit(5.0),
        charge(0, 2.5),
        charge("x", LEAST),
        limit(7.5),
        charge("x", LEAST),
        limit(7.500000000000001),
        charge("x", LEAST),
    ],
    "huge": [limit(LARGEST), charge(0, LARGEST), charge(1, LEAST), charge(0, LARGEST)],
    "beyond every float": [limit(LARGEST), charge(0, LARGEST, 2), charge(1, 1e308, 2**53 - 1)],
    "tiny": [limit(1e-323), charge(0, LEAST), charge(1, LEAST), charge(2, LEAST)],
    "tiny beside huge": [
        limit(1e300),
        charge(0, LEAST, 2**53 - 1),
        charge(1, 1e300),
        charge(2, 1.0),
    ],
    "awkward floats": [
        limit(12.345678901234567),
        charge(0, 0.30000000000000004, 7),
        charge(1, 1e-6, 10_000),
        charge(2, 2.2250738585072014e-308, 3),
        charge(3, 1.7320508075688772, 5),
        charge(4, 1.5749130000000001),
        charge(5, 1.574913),
        charge(6, 4.9e-17),
    ],
    "the last epoch and many reports": [
        limit(4e5),
        charge(0, 40.0, 10_000, epoch=2**32 - 1, mechanism="coordinate"),
        charge(1, 1e-6, 1, epoch=2**53 - 1),
    ],
}


def decision(ledger: Ledger, what: Charge) -> str:
    """What becomes of a charge."""
    before = len(ledger.entries)
    try:
        ledger.charge(what)
    except BudgetExceededError:
        return "refused"
    except LedgerError:
        return "contradicted"
    return "charged" if len(ledger.entries) > before else "known"


def account(ledger: Ledger) -> dict[str, Any]:
    """Where the ledger stands: exactly, and as it is shown."""
    units = ledger.spent * Fraction(2) ** UNITS
    assert units.denominator == 1
    return {
        "spent": f"{units.numerator:x}",
        "shown": [rounded_up(ledger.spent), rounded_down(ledger.remaining)],
    }


def played(steps: list[Step]) -> list[Step]:
    """The steps, each with its answer."""
    ledger = Ledger(steps[0]["limit"])
    return [{**step, **_done(ledger, step), **account(ledger)} for step in steps]


def _done(ledger: Ledger, step: Step) -> dict[str, str]:
    if "limit" in step:
        ledger.set_limit(step["limit"])
        return {}
    fields = step["charge"]
    named = {name: bytes.fromhex(fields[name]) for name in ("training", "purpose")}
    found = decision(ledger, Charge(**{**fields, **named}))
    # The bytes that are hashed, for whoever keeps the chain too.
    return {"decision": found} | (
        {"hashed": ledger.entries[-1].hashed.decode()} if found == "charged" else {}
    )


def asked(steps: list[Step]) -> list[Step]:
    """Without the answers."""
    return [{key: step[key] for key in ("limit", "charge") if key in step} for step in steps]


def stored() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(FILE.read_text())
    return content


def test_the_file_has_these_sequences() -> None:
    assert {one["label"]: asked(one["steps"]) for one in stored()} == SEQUENCES


def test_every_kind_of_decision_is_there() -> None:
    decisions = {step.get("decision") for one in stored() for step in one["steps"]}
    assert decisions == {None, "charged", "known", "refused", "contradicted"}


@pytest.mark.parametrize("label", SEQUENCES)
def test_the_ledger_decides_as_the_file_says(label: str) -> None:
    [case] = [one for one in stored() if one["label"] == label]
    assert played(asked(case["steps"])) == case["steps"]


def main() -> None:
    cases = [{"label": label, "steps": played(steps)} for label, steps in SEQUENCES.items()]
    FILE.write_text(one_a_line(cases) + "\n")


if __name__ == "__main__":
    main()
