"""Accepted terms are an upper bound of what a server may ask for later."""

from dataclasses import fields, replace
from typing import Any

import pytest

from sottovoce.core import MECHANISMS
from sottovoce.protocol import Terms
from sottovoce.protocol.terms import MAX_CROWD_GROWTH, TERM_RULES
from tests.protocol.examples import terms

WORSE_VALUES: dict[str, list[Any]] = {
    "training": [bytes(16)],
    "mechanism": ["coordinate"],
    "parameters": [
        {"directions_seed": 7, "block": 8, "loud": 6},
        {"directions_seed": 8, "block": 2, "loud": 2},
    ],
    "epsilon": [2.5000000000000004, 40.0, 2.4, 1e-6],
    "loud_fraction": [0.18750000000000003, 0.5, 0.1],
    "reports": [5, 10_000, 1, 3],
    "epochs": [21, 2**53 - 1],
    "share": [0.7500000000000001, 1.0],
    "min_clients": [1, 49, 50 * MAX_CROWD_GROWTH + 1, 10**7],
    "hold": [604_801],
    "dummies": [0, 4],
    "factors": [3],
    "max_items": [9],
    "accounts": [True],
    "trial": [True],
}

BETTER_VALUES: dict[str, list[Any]] = {
    "parameters": [
        {"directions_seed": 8, "block": 4, "loud": 6},
        {"directions_seed": 7, "block": 4, "loud": 2},
    ],
    "epochs": [1, 19],
    "share": [0.1],
    "min_clients": [51, 50 * MAX_CROWD_GROWTH],
    "hold": [0],
    "dummies": [6, 10**7],
    "factors": [1],
    "max_items": [7],
}

FIELD_NAMES = [field.name for field in fields(Terms)]


def test_every_field_has_exactly_one_rule() -> None:
    assert [rule.field for rule in TERM_RULES] == FIELD_NAMES
    assert list(WORSE_VALUES) == FIELD_NAMES


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WORSE_VALUES.items() for v in vs])
def test_one_worse_field_is_a_violation(name: str, value: Any) -> None:
    better = {other: values[0] for other, values in BETTER_VALUES.items() if other != name}
    for asked in (terms(), terms(**better)):
        assert len(terms().list_worse_terms(replace(asked, **{name: value}))) == 1


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BETTER_VALUES.items() for v in vs])
def test_better_terms_need_no_consent(name: str, value: Any) -> None:
    assert terms().list_worse_terms(replace(terms(), **{name: value})) == []


@pytest.mark.parametrize("names", [8, 12])
def test_another_number_of_names_needs_consent(names: int) -> None:
    """Neither more nor fewer outcomes are better: the owner was told their number."""
    agreed = terms(mechanism="named", parameters={"names": 10}, loud_fraction=0.1)
    worse = agreed.list_worse_terms(replace(agreed, parameters={"names": names}))
    assert worse == [f"the mechanism's parameters would be names {names}, not names 10"]


def test_terms_of_names_say_what_a_report_tells() -> None:
    """Check the odds at epsilon 10 among 10,760 outcomes, and Bayes' theorem for linked reports."""
    asked = terms(mechanism="named", parameters={"names": 10_760}, epsilon=10.0)
    texts = dict(asked.describe())
    assert "in 67.2 of 100 cases, else one of 10,760" in texts["a report"]
    assert "true in 99.6 of 100 cases" in texts["if it is linked"]
    assert texts["if it is linked"].endswith("in 68.8")
    assert "(what you touched last, or one of 10,760 by chance)" in asked.summarize([], 1)[0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_unpinned_parameters_are_those_of_the_mechanism(name: str) -> None:
    kind = MECHANISMS[name]
    assert set(kind.changeable_parameters) - {"directions_seed"} <= set(kind.public_names())
