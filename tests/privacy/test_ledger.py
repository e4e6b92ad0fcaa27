"""The ledger's rules: exact, one after the other, each record bound to the one before.

`tests/vectors/ledger.json` has what every ledger, in any language, must decide alike. Limits and
charges go in, one after the other; out come each decision, what was spent so far, and what a person
is shown. The file changes only when the ledger's rule does. To write it again:
`python -m tests.privacy.test_ledger`.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError
from sottovoce.privacy import Charge, Entry, Ledger, Limit, round_down, round_up
from tests.cases import format_cases


def purpose(name: object) -> bytes:
    return hashlib.sha256(repr(name).encode()).digest()


def batch(name: object, epsilon: float = 2.5, reports: int = 4) -> Charge:
    return Charge(bytes(16), 7, purpose(name), "loudest", epsilon, reports, 0.1, 9, 0)


EPS_VALUES = st.sampled_from([0.1, 0.5, 1.0, 2.5, 1 / 3, 5e-324, 1e-9])
STEP_LISTS = st.lists(
    st.tuples(EPS_VALUES, st.integers(1, 9)) | st.floats(0, 60) | st.integers(0, 5),
    max_size=25,
)


@given(st.floats(0, 30), STEP_LISTS)
def test_ledger_equals_a_list_model(
    first: float, steps: list[tuple[float, int] | float | int]
) -> None:
    """Compare with a list: tuples charge, floats set the limit, ints repeat an earlier charge."""
    ledger, charges, limit = Ledger(first), list[Charge](), first
    for place, step in enumerate(steps):
        if isinstance(step, tuple):
            charge = batch(place, *step)
            if sum((item.cost for item in [*charges, charge]), Fraction(0)) <= Fraction(limit):
                ledger.charge(charge)
                charges.append(charge)
            else:
                with pytest.raises(BudgetExceededError):
                    ledger.charge(charge)
        elif isinstance(step, float):
            ledger.set_limit(step)
            limit = step
        elif step < len(charges):
            assert ledger.charge(charges[step]).content == charges[step]
            with pytest.raises(LedgerError):
                ledger.add(charges[step])
        assert [e.content for e in ledger.entries if isinstance(e.content, Charge)] == charges
        assert ledger.limit == limit
        assert ledger.spent == sum((item.cost for item in charges), Fraction(0))
        assert ledger.remaining == max(Fraction(limit) - ledger.spent, Fraction(0))
    assert [entry.record for entry in ledger.entries] == [*range(1, len(ledger.entries) + 1)]
    for one, following in pairwise(ledger.entries):
        assert following.previous == one.hash
    assert (
        ledger.head == ledger.entries[-1].hash == sha256(ledger.entries[-1].hash_input).hexdigest()
    )


@given(st.fractions(min_value=0), st.integers(0, 1100))
def test_rounding_is_never_optimistic(amount: Fraction, shift: int) -> None:
    exact = amount / 2**shift
    up, down = round_up(exact), round_down(exact)
    assert down <= exact <= up
    assert up == 0 or math.nextafter(up, -math.inf) < exact
    assert math.nextafter(down, math.inf) > exact
    assert math.copysign(1, down) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: batch(1, 0.0),
        lambda: batch(1, -1.0),
        lambda: batch(1, math.nan),
        lambda: batch(1, math.inf),
        lambda: batch(1, 10**400),
        lambda: batch(1, 2**60 + 1),
        lambda: batch(1, reports=0),
        lambda: batch(1, reports=2**53),
        lambda: Charge(bytes(16), -1, purpose(1), "loudest", 1.0, 1, 0.1, 9, 0),
        lambda: Charge(bytes(15), 1, purpose(1), "loudest", 1.0, 1, 0.1, 9, 0),
        lambda: Charge(bytes(16), 1, b"short", "loudest", 1.0, 1, 0.1, 9, 0),
        lambda: Charge(bytes(16), 1, purpose(1), "Loudest\n", 1.0, 1, 0.1, 9, 0),
        *(
            lambda rho=rho: Charge(bytes(16), 1, purpose(1), "loudest", 1.0, 1, rho, 9, 0)
            for rho in (0.0, -0.1, 0.51, math.nan)
        ),
        lambda: Charge(bytes(16), 1, purpose(1), "loudest", 1.0, 1, 0.1, 0, 0),
        lambda: Charge(bytes(16), 1, purpose(1), "loudest", 1.0, 1, 0.1, 9, -1),
        lambda: Limit(math.inf),
        lambda: Limit(-1),
    ],
)
def test_invalid_charges_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        make()


def test_numbers_of_numpy_are_recorded_as_python_numbers() -> None:
    charge = Charge(bytearray(16), True, bytearray(32), "loudest", 5, True, 0.5, True, False)  # type: ignore[arg-type]
    assert b'"epoch":1,' in Entry(2, charge, "0" * 64).hash_input
    assert (
        b'"epsilon":5.0,"reports":1,"loud_fraction":0.5,"clients":1,"dummies":0}'
        in Entry(2, charge, "0" * 64).hash_input
    )
    assert b'"limit":0.0,' in Entry(2, Limit(-0.0), "0" * 64).hash_input


VECTOR_FILE = Path(__file__).parents[1] / "vectors" / "ledger.json"
# Every finite float64, and so every amount, is a whole number of 2^-1074.
FRACTION_BITS = 1074
MAX_FLOAT = sys.float_info.max
MIN_FLOAT = 5e-324
Step = dict[str, Any]


def limit(value: float) -> Step:
    return {"limit": value}


def charge(name: object, epsilon: float, reports: int = 1, **changes: Any) -> Step:
    purpose = sha256(repr(name).encode()).hexdigest()
    when = {"training": "0f" * 16, "epoch": 1}
    fields = {"purpose": purpose, "mechanism": "loudest", "epsilon": epsilon}
    hidden = {"reports": reports, "loud_fraction": 0.1, "clients": 100, "dummies": 0}
    return {"charge": {**when, **fields, **hidden, **changes}}


def make_numbered_charges(count: int, epsilon: float, reports: int = 1) -> list[Step]:
    return [charge(number, epsilon, reports, epoch=number + 1) for number in range(count)]


STEP_SEQUENCES: dict[str, list[Step]] = {
    "a few epochs": [
        limit(50.0),
        *make_numbered_charges(4, 2.5, 4),
        *make_numbered_charges(6, 2.5, 4),
    ],
    "the limit exactly reached": [
        limit(10.0),
        *make_numbered_charges(3, 2.5, 2),
        charge("x", MIN_FLOAT),
    ],
    "the limit reached by one batch": [limit(250.0), charge(0, 2.5, 100), charge(1, 2.5, 100)],
    "ten times 0.1 is more than 1": [limit(1.0), *make_numbered_charges(11, 0.1)],
    "ten times 0.1 fits just above 1": [limit(1.0000000000000002), *make_numbered_charges(11, 0.1)],
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
        charge(0, 2.5, 4, dummies=1),
        charge(0, 2.5, 4),
    ],
    "refused, then again": [limit(1.0), charge(0, 2.5), charge(0, 2.5), limit(3.0), charge(0, 2.5)],
    "not alike beyond the limit": [limit(2.5), charge(0, 2.5), charge(0, 40.0, 10_000)],
    "a limit of nothing": [
        limit(0.0),
        charge(0, MIN_FLOAT),
        limit(MIN_FLOAT),
        charge(0, MIN_FLOAT),
    ],
    "raised": [
        limit(2.5),
        *make_numbered_charges(2, 2.5),
        limit(5.0),
        *make_numbered_charges(3, 2.5),
    ],
    "lowered below what is spent": [
        limit(10.0),
        *make_numbered_charges(3, 2.5),
        limit(5.0),
        charge(0, 2.5),
        charge("x", MIN_FLOAT),
        limit(7.5),
        charge("x", MIN_FLOAT),
        limit(7.500000000000001),
        charge("x", MIN_FLOAT),
    ],
    "huge": [
        limit(MAX_FLOAT),
        charge(0, MAX_FLOAT),
        charge(1, MIN_FLOAT),
        charge(0, MAX_FLOAT),
    ],
    "beyond every float": [
        limit(MAX_FLOAT),
        charge(0, MAX_FLOAT, 2),
        charge(1, 1e308, 2**53 - 1),
    ],
    "tiny": [
        limit(1e-323),
        charge(0, MIN_FLOAT),
        charge(1, MIN_FLOAT),
        charge(2, MIN_FLOAT),
    ],
    "tiny beside huge": [
        limit(1e300),
        charge(0, MIN_FLOAT, 2**53 - 1),
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


def charge_ledger(ledger: Ledger, what: Charge) -> str:
    """Charge, and return the decision."""
    before = len(ledger.entries)
    try:
        ledger.charge(what)
    except BudgetExceededError:
        return "refused"
    except LedgerError:
        return "contradicted"
    return "charged" if len(ledger.entries) > before else "known"


def describe_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return the state of the ledger: exact, and rounded as it is displayed."""
    units = ledger.spent * Fraction(2) ** FRACTION_BITS
    assert units.denominator == 1
    return {
        "spent": f"{units.numerator:x}",
        "shown": [round_up(ledger.spent), round_down(ledger.remaining)],
    }


def played(steps: list[Step]) -> list[Step]:
    """Return the steps, each with its result."""
    ledger = Ledger(steps[0]["limit"])
    return [{**step, **_do_step(ledger, step), **describe_ledger(ledger)} for step in steps]


def _do_step(ledger: Ledger, step: Step) -> dict[str, str]:
    if "limit" in step:
        ledger.set_limit(step["limit"])
        return {}
    fields = step["charge"]
    named = {name: bytes.fromhex(fields[name]) for name in ("training", "purpose")}
    result = charge_ledger(ledger, Charge(**{**fields, **named}))
    # The bytes that are hashed, for everyone who keeps the chain too.
    return {"decision": result} | (
        {"hashed": ledger.entries[-1].hash_input.decode()} if result == "charged" else {}
    )


def strip_results(steps: list[Step]) -> list[Step]:
    """Return the steps without their results."""
    return [{key: step[key] for key in ("limit", "charge") if key in step} for step in steps]


def make_vectors() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(VECTOR_FILE.read_text())
    return content


def test_vector_file_has_all_sequences() -> None:
    assert {one["label"]: strip_results(one["steps"]) for one in make_vectors()} == STEP_SEQUENCES


@pytest.mark.parametrize("label", STEP_SEQUENCES)
def test_ledger_decisions_equal_the_vectors(label: str) -> None:
    [case] = [one for one in make_vectors() if one["label"] == label]
    assert played(strip_results(case["steps"])) == case["steps"]


def write() -> None:
    cases = [{"label": label, "steps": played(steps)} for label, steps in STEP_SEQUENCES.items()]
    VECTOR_FILE.write_text(format_cases(cases) + "\n")


if __name__ == "__main__":
    write()
