from __future__ import annotations

import operator
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    "loud_fraction": [0.18750000000000003, 0.5],
    "reports": [5, 10_000],
    "epochs": [21, 2**53 - 1],
    "share": [0.7500000000000001, 1.0],
    "least_clients": [1, 49, 50 * MOST_GROWTH + 1, 10**7],
    "hold": [604_801],
    "factors": [3],
    "most_items": [9],
}
BETTER: dict[str, list[Any]] = {
    "parameters": [
        {"directions_seed": 8, "block": 4, "loud": 6},
        {"directions_seed": 7, "block": 4, "loud": 2},
    ],
    "epsilon": [2.4, 1e-6],
    "loud_fraction": [0.1],
    "reports": [1, 3],
    "epochs": [1, 19],
    "share": [0.1],
    "least_clients": [51, 50 * MOST_GROWTH],
    "hold": [0],
    "factors": [1],
    "most_items": [7],
}
NAMES = [field.name for field in fields(Terms)]


def test_every_field_has_exactly_one_rule() -> None:
    assert [rule.field for rule in RULES] == NAMES
    assert list(WORSE) == NAMES


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WORSE.items() for v in vs])
def test_one_worse_field_is_enough_whatever_else_got_better(name: str, value: Any) -> None:
    asked = replace(terms(), **{name: value})
    assert len(terms().broken_by(asked)) == 1
    better = {other: values[0] for other, values in BETTER.items() if other != name}
    broken = terms().broken_by(replace(terms(**better), **{name: value}))
    assert len(broken) == 1
    assert broken[0].strip()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BETTER.items() for v in vs])
def test_better_needs_no_consent(name: str, value: Any) -> None:
    assert terms().broken_by(replace(terms(), **{name: value})) == []


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.randoms(use_true_random=False))
def test_each_field_that_is_worse_is_named_once(worse: set[str], random: Any) -> None:
    changes = {name: random.choice(WORSE[name]) for name in worse}
    rest = {name: random.choice(v) for name, v in BETTER.items() if name not in worse}
    broken = terms().broken_by(terms(**rest, **changes))
    # Parameters of another mechanism say nothing beside its name.
    hidden = "mechanism" in worse and "parameters" in worse
    assert len(broken) == len(set(broken)) == len(worse) - hidden


def test_the_share_of_loud_directions_is_what_binds_their_number() -> None:
    kind = MECHANISMS["loudest"]
    assert "loud" in kind.unpinned
    more = terms(parameters={"directions_seed": 7, "block": 4, "loud": 8}, loud_fraction=8 / 32)
    assert terms().broken_by(more) == [
        "the share of loud directions would rise from 0.1875 to 0.25"
    ]


def test_the_size_of_blocks_is_pinned_and_told_in_words() -> None:
    assert "block" not in MECHANISMS["loudest"].unpinned
    other = terms(parameters={"loud": 2, "block": 8, "directions_seed": 9})
    [sentence] = terms().broken_by(other)
    assert sentence == (
        "the mechanism's parameters would be block 8, directions_seed 9, loud 2, "
        "not block 4, directions_seed 7, loud 6"
    )


def test_how_often_is_told_in_words() -> None:
    assert dict(terms().in_words())["epochs"] == (
        "this device takes part in 20 at most, about 0.75 of those there are, drawn by this device"
    )
    assert dict(terms(share=1.0).in_words())["epochs"] == "this device takes part in 20 at most"
    [sentence] = terms().broken_by(terms(share=1.0))
    assert sentence == "the part of the epochs with this device would rise from 0.75 to 1.0"


@pytest.mark.parametrize("name", MECHANISMS)
def test_unpinned_parameters_are_those_of_the_mechanism(name: str) -> None:
    kind = MECHANISMS[name]
    assert set(kind.unpinned) - {"directions_seed"} <= set(kind.public_names())


def test_terms_are_compared_in_their_own_direction() -> None:
    """What is worse one way is better the other way, but for what must stay the same."""
    for name, values in BETTER.items():
        for value in values:
            changed = replace(terms(), **{name: value})
            back = changed.broken_by(terms())
            assert bool(back) == (name != "parameters" and operator.ne(changed, terms())), name
