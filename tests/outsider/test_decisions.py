"""The independent client decides as tests/vectors say."""

from typing import Any

import pytest

from tests.outsider import plans
from tests.outsider.plans import Charge
from tests.outsider.vectors import read
from tests.outsider.wire import Manifest, worse

PLANS = read("plans")
TERMS: dict[str, Any] = PLANS["accepted"]


def make_manifest(fields: dict[str, Any], **changes: Any) -> Manifest:
    """Return a manifest with the fields on which decisions depend."""
    return Manifest("", b"", {"public_key": "", **fields}, {**TERMS, **changes})


@pytest.mark.parametrize("case", PLANS["comparisons"])
def test_terms_that_are_worse(case: Any) -> None:
    assert worse(case["asked"], TERMS) == set(case["worse"])


def test_coins_and_moments() -> None:
    assert PLANS["manifest"]["hold"] == TERMS["hold"]
    for case in PLANS["coins"]:
        one = make_manifest(PLANS["manifest"], share=case["share"])
        words = iter([int(word, 16) for word in case["words"]])
        plan = plans.draw(one, [], case["now"], case["jitter"], words.__next__)
        assert plan == (case["takes_part"], case["send_at"]), case
        assert plans.is_time(one, case["now"], case["jitter"]) == case["in_time"], case


def test_chances() -> None:
    for case in PLANS["chances"]:
        fields = {**PLANS["manifest"], "epochs_left": case["epochs_left"]}
        one = make_manifest(fields, share=case["share"], epochs=case["epochs"])
        own = [Charge(TERMS["training"], 1, 1.0, 1)] * case["charged"]
        charges = [*own, *(charge._replace(training="f" * 32) for charge in own)]
        assert plans.chance(one, charges) == case["chance"], case
        for word, takes_part in case["tosses"]:
            words = iter([int(word, 16), 0])
            plan = plans.draw(one, charges, one.fields["opens"], 3600, words.__next__)
            assert plan.takes_part == takes_part, case


@pytest.mark.parametrize("case", PLANS["leads"], ids=lambda case: str(case["items"]))
def test_leads(case: Any) -> None:
    one = make_manifest({"items": case["items"]}, factors=case["factors"], reports=case["reports"])
    assert plans.lead(one) == case["lead"]
    moments = [plans.leads_later(1000.0, 1000.0 + late, case["lead"]) for late in case["late"]]
    assert moments == case["moments"]
