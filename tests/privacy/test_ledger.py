"""The ledger's rules: exact, one after the other, each record bound to the one before."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError
from sottovoce.privacy import Charge, Entry, Ledger, Limit, rounded_down, rounded_up


def purpose(name: object) -> bytes:
    return hashlib.sha256(repr(name).encode()).digest()


def batch(name: object, epsilon: float = 2.5, reports: int = 4) -> Charge:
    return Charge(bytes(16), 7, purpose(name), "loudest", epsilon, reports, 0.1, 9)


@pytest.fixture
def ledger() -> Ledger:
    """Six records."""
    made = Ledger(100)
    for name in range(3):
        made.charge(batch(name))
    made.set_limit(50)
    made.charge(batch("last", 0.1, 3))
    return made


def test_the_hashed_bytes_are_those_of_the_docstring() -> None:
    ledger = Ledger(50)
    ledger.charge(Charge(bytes(16), 7, bytes(range(32)), "loudest", 2.5, 4, 0.1, 9))
    first = b'{"record":1,"limit":50.0,"previous":"sottovoce-ledger-1"'
    one = hashlib.sha256(first).hexdigest()
    second = (
        b'{"record":2,"charge":{"training":"00000000000000000000000000000000","epoch":7,'
        b'"purpose":'
        b'"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        b'"mechanism":"loudest","epsilon":2.5,"reports":4,"loud_fraction":0.1,"clients":9},'
        b'"previous":"' + one.encode() + b'"'
    )
    assert [entry.hashed for entry in ledger.entries] == [first, second]
    assert ledger.head == hashlib.sha256(second).hexdigest()


def test_every_part_of_a_record_is_in_its_hash() -> None:
    charge = batch("a")
    entry = Entry(2, charge, "0" * 64)
    changes: list[dict[str, object]] = [
        {"epoch": 8},
        {"purpose": purpose("b")},
        {"mechanism": "coordinate"},
        {"epsilon": math.nextafter(2.5, 3)},
        {"reports": 5},
        {"loud_fraction": 0.2},
        {"clients": 10},
    ]
    others = [replace(entry, what=replace(charge, **change)) for change in changes]  # type: ignore[arg-type]
    others += [replace(entry, record=3), replace(entry, previous="1" * 64)]
    others += [replace(entry, what=Limit(2.5))]
    assert len({entry.hash, *(other.hash for other in others)}) == 11


def test_what_the_records_add_up_to(ledger: Ledger) -> None:
    assert ledger.limit == 50.0
    assert ledger.spent == 30 + 3 * Fraction(0.1)
    assert ledger.remaining == 50 - ledger.spent
    assert [entry.record for entry in ledger.entries] == [1, 2, 3, 4, 5, 6]
    records = [Limit(100), batch(0), batch(1), batch(2), Limit(50), batch("last", 0.1, 3)]
    assert [entry.what for entry in ledger.entries] == records
    previous = [entry.previous for entry in ledger.entries[1:]]
    assert previous == [entry.hash for entry in ledger.entries[:-1]]


def test_a_retry_costs_nothing_and_adds_nothing(ledger: Ledger) -> None:
    assert ledger.set_limit(50) is None
    assert ledger.charge(batch(1)) == ledger.entries[2]
    for other in (
        batch(1, reports=5),
        batch(1, 2.0),
        Charge(bytes(16), 8, purpose(1), "loudest", 2.5, 4, 0.1, 9),
    ):
        with pytest.raises(LedgerError, match="randomised anew"):
            ledger.charge(other)
    with pytest.raises(LedgerError, match="charged twice"):
        ledger.add(batch(1))
    assert len(ledger.entries) == 6


def test_the_limit_is_exact_and_a_refusal_adds_nothing() -> None:
    ledger = Ledger(25)
    ledger.charge(batch(1))
    with pytest.raises(BudgetExceededError, match="beyond the lifetime limit of 25"):
        ledger.charge(batch(2, math.nextafter(15, 16), 1))
    assert len(ledger.entries) == 2
    assert ledger.spent == 10
    ledger.charge(batch(2, 15, 1))
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceededError):
        ledger.charge(batch(3, 5e-324, 1))
    assert ledger.charge(batch(1)) == ledger.entries[1]


AMOUNTS = st.sampled_from([0.1, 0.5, 1.0, 2.5, 1 / 3, 5e-324, 1e-9])
STEPS = st.lists(
    st.tuples(AMOUNTS, st.integers(1, 9)) | st.floats(0, 60) | st.integers(0, 5), max_size=25
)


@given(st.floats(0, 30), STEPS)
def test_against_a_list(first: float, steps: list[tuple[float, int] | float | int]) -> None:
    """A tuple charges, a float sets the limit, an int repeats an earlier charge."""
    ledger, charges, limit = Ledger(first), list[Charge](), first
    for place, step in enumerate(steps):
        if isinstance(step, tuple):
            charge = batch(place, *step)
            if sum((each.cost for each in [*charges, charge]), Fraction(0)) <= Fraction(limit):
                ledger.charge(charge)
                charges.append(charge)
            else:
                with pytest.raises(BudgetExceededError):
                    ledger.charge(charge)
        elif isinstance(step, float):
            ledger.set_limit(step)
            limit = step
        elif step < len(charges):
            assert ledger.charge(charges[step]).what == charges[step]
        assert [e.what for e in ledger.entries if isinstance(e.what, Charge)] == charges
        assert ledger.limit == limit
        assert ledger.spent == sum((each.cost for each in charges), Fraction(0))
        assert ledger.remaining == max(Fraction(limit) - ledger.spent, Fraction(0))


@given(st.fractions(min_value=0), st.integers(0, 1100))
def test_rounding_never_flatters(amount: Fraction, shift: int) -> None:
    exact = amount / 2**shift
    up, down = rounded_up(exact), rounded_down(exact)
    assert down <= exact <= up
    assert up == 0 or math.nextafter(up, -math.inf) < exact
    assert math.nextafter(down, math.inf) > exact
    assert math.copysign(1, down) == 1


def test_more_than_a_float_is_infinite() -> None:
    assert rounded_up(Fraction(10**400)) == math.inf


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
        lambda: Charge(bytes(16), -1, purpose(1), "loudest", 1.0, 1, 0.1, 9),
        lambda: Charge(bytes(15), 1, purpose(1), "loudest", 1.0, 1, 0.1, 9),
        lambda: Charge(bytes(16), 1, b"short", "loudest", 1.0, 1, 0.1, 9),
        lambda: Charge(bytes(16), 1, purpose(1), "Loudest\n", 1.0, 1, 0.1, 9),
        *(
            lambda rho=rho: Charge(bytes(16), 1, purpose(1), "loudest", 1.0, 1, rho, 9)
            for rho in (0.0, -0.1, 0.51, math.nan)
        ),
        lambda: Charge(bytes(16), 1, purpose(1), "loudest", 1.0, 1, 0.1, 0),
        lambda: Limit(math.inf),
        lambda: Limit(-1),
    ],
)
def test_what_cannot_be_a_charge_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        make()


def test_whole_numbers_and_floats_of_any_make_are_recorded_as_ours() -> None:
    charge = Charge(bytearray(16), True, bytearray(32), "loudest", 5, True, 0.5, True)  # type: ignore[arg-type]
    assert b'"epoch":1,' in Entry(2, charge, "0" * 64).hashed
    assert (
        b'"epsilon":5.0,"reports":1,"loud_fraction":0.5,"clients":1}'
        in Entry(2, charge, "0" * 64).hashed
    )
    assert b'"limit":0.0,' in Entry(2, Limit(-0.0), "0" * 64).hashed
