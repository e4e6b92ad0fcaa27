"""Terms that are accepted are the most that is ever asked for."""

from dataclasses import fields, replace
from typing import Any

import pytest

from sottovoce.core import MECHANISMS
from sottovoce.protocol import Terms
from sottovoce.protocol.terms import MOST_GROWTH, RULES
from tests.protocol.examples import terms

WORSE: dict[str, list[Any]] = {
    "training": [bytes(16)],
    "mechanism": ["coordinate"],
    "parameters": [
        {"directions_seed": 7, "block": 8, "loud": 6},
        {"directions_seed": 8, "block": 2, "loud": 2},
    ],
    "epsilon": [2.5000000000000004, 40.0],
    "loud_fraction": [0.18750000000000003, 0.5, 0.1],
    "reports": [5, 10_000],
    "epochs": [21, 2**53 - 1],
    "share": [0.7500000000000001, 1.0],
    "least_clients": [1, 49, 50 * MOST_GROWTH + 1, 10**7],
    "hold": [604_801],
    "dummies": [0, 4],
    "factors": [3],
    "most_items": [9],
    "accounts": [True],
    "trial": [True],
}

BETTER: dict[str, list[Any]] = {
    "parameters": [
        {"directions_seed": 8, "block": 4, "loud": 6},
        {"directions_seed": 7, "block": 4, "loud": 2},
    ],
    "epsilon": [2.4, 1e-6],
    "reports": [1, 3],
    "epochs": [1, 19],
    "share": [0.1],
    "least_clients": [51, 50 * MOST_GROWTH],
    "hold": [0],
    "dummies": [6, 10**7],
    "factors": [1],
    "most_items": [7],
}

NAMES = [field.name for field in fields(Terms)]


def test_every_field_has_exactly_one_rule() -> None:
    assert [rule.field for rule in RULES] == NAMES
    assert list(WORSE) == NAMES


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WORSE.items() for v in vs])
def test_one_worse_field_is_enough_whatever_else_got_better(name: str, value: Any) -> None:
    better = {other: values[0] for other, values in BETTER.items() if other != name}
    for asked in (terms(), terms(**better)):
        assert len(terms().broken_by(replace(asked, **{name: value}))) == 1


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BETTER.items() for v in vs])
def test_better_needs_no_consent(name: str, value: Any) -> None:
    assert terms().broken_by(replace(terms(), **{name: value})) == []


@pytest.mark.parametrize("name", MECHANISMS)
def test_unpinned_parameters_are_those_of_the_mechanism(name: str) -> None:
    kind = MECHANISMS[name]
    assert set(kind.unpinned) - {"directions_seed"} <= set(kind.public_names())
