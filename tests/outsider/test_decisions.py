"""The independent client decides, charges and chains as tests/vectors say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.outsider import ledger, plans
from tests.outsider.ledger import Charge
from tests.outsider.vectors import read
from tests.outsider.wire import Manifest, worse

PLANS = read("plans")
TERMS: dict[str, Any] = PLANS["accepted"]


def manifest(fields: dict[str, Any], **changes: Any) -> Manifest:
    """As far as decisions depend on it."""
    return Manifest("", b"", {"public_key": "", **fields}, {**TERMS, **changes})


@pytest.mark.parametrize("case", PLANS["comparisons"])
def test_terms_that_are_worse(case: Any) -> None:
    assert worse(case["asked"], TERMS) == set(case["worse"])


def test_coins_and_moments() -> None:
    assert PLANS["manifest"]["hold"] == TERMS["hold"]
    for case in PLANS["coins"]:
        one = manifest(PLANS["manifest"], share=case["share"])
        words = iter([int(word, 16) for word in case["words"]])
        plan = plans.draw(one, [], case["now"], case["jitter"], words.__next__)
        assert plan == (case["takes_part"], case["send_at"]), case
        assert plans.is_time(one, case["now"], case["jitter"]) == case["in_time"], case


def test_chances() -> None:
    for case in PLANS["chances"]:
        fields = {**PLANS["manifest"], "epochs_left": case["epochs_left"]}
        one = manifest(fields, share=case["share"], epochs=case["epochs"])
        own = [Charge(TERMS["training"], 1, "", "loudest", 1.0, 1, 0.1, 9)] * case["charged"]
        charges = [*own, *(charge._replace(training="f" * 32) for charge in own)]
        assert plans.chance(one, charges) == case["chance"], case
        for word, takes_part in case["tosses"]:
            words = iter([int(word, 16), 0])
            plan = plans.draw(one, charges, one.fields["opens"], 3600, words.__next__)
            assert plan.takes_part == takes_part, case


@pytest.mark.parametrize("case", PLANS["leads"], ids=lambda case: str(case["items"]))
def test_leads(case: Any) -> None:
    one = manifest({"items": case["items"]}, factors=case["factors"], reports=case["reports"])
    assert plans.lead(one) == case["lead"]
    moments = [plans.leads_later(1000.0, 1000.0 + late, case["lead"]) for late in case["late"]]
    assert moments == case["moments"]


def test_turns_that_are_left() -> None:
    for case in PLANS["turns"]:
        own = [Charge(TERMS["training"], 1, "", "loudest", 1.0, 1, 0.1, 9)] * case["charged"]
        charges = [*own, *(charge._replace(training="f" * 32) for charge in own)]
        assert plans.turns({**TERMS, "epochs": case["epochs"]}, charges) == case["left"], case


@pytest.mark.parametrize("case", read("ledger"), ids=lambda case: str(case["label"]))
def test_the_ledger(case: Any) -> None:
    limit, number, previous = 0.0, 0, ledger.CHAIN
    charges: list[Charge] = []
    for step in case["steps"]:
        content = {name: step[name] for name in ("limit", "charge") if name in step}
        if "charge" in step:
            charge = Charge(**step["charge"])
            assert ledger.decide(limit, charges, charge) == step["decision"]
        if step.get("decision", "charged") == "charged":
            number += 1
            hashed = ledger.record(number, content, previous)
            assert hashed.decode() == step.get("hashed", hashed.decode())
            previous = ledger.name(hashed)
            if "charge" in step:
                charges.append(charge)
        limit = step.get("limit", limit)
        assert ledger.spent(charges) == Fraction(int(step["spent"], 16), 2**1074)
        assert list(ledger.shown(limit, charges)) == step["shown"]
