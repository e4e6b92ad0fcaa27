from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, Histories, Shape, bounds
from sottovoce.errors import ProtocolError
from sottovoce.protocol import Manifest, Terms
from sottovoce.protocol.strict import MOST
from sottovoce.training import Participation, Settings
from tests.protocol.examples import (
    changed,
    damaged,
    json_values,
    manifest,
    nested,
    parameters,
    refuses,
    terms,
)
from tests.protocol.malformed import MANIFEST_VALUES, TERMS_VALUES, TOO_LARGE

RAW = manifest().encode()
KEYS = [*json.loads(RAW)]
TERMS = [*json.loads(RAW)["terms"]]
hashes = st.binary(min_size=32, max_size=32)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    mechanism: str = draw(st.sampled_from(list(MECHANISMS)))
    items, factors = draw(st.integers(1, 5_000)), draw(st.integers(1, 64))
    opens = draw(st.integers(0, MOST - 1))
    seconds = st.integers(0, MOST)
    return manifest(
        epoch=draw(st.integers(1, 2**32 - 1)),
        items=items,
        alpha=draw(st.floats(0, bounds.MOST_ALPHA)),
        regularization=draw(st.floats(bounds.LEAST_RIDGE, bounds.MOST_RIDGE)),
        model=draw(hashes),
        catalogue=draw(hashes),
        catalogue_version=draw(st.integers(1, MOST)),
        public_key=draw(st.none() | hashes),
        opens=opens,
        closes=draw(st.integers(opens + 1, MOST)),
        epochs_left=draw(st.integers(0, MOST)),
        reports_behind=draw(seconds),
        training=draw(st.binary(min_size=16, max_size=16)),
        mechanism=mechanism,
        parameters=draw(parameters(mechanism, items, factors)),
        epsilon=draw(st.floats(1e-6, 40)),
        loud_fraction=0.5,
        reports=draw(st.integers(1, 10_000)),
        epochs=draw(st.integers(1, MOST)),
        share=draw(st.floats(2**-32, 1)),
        least_clients=draw(st.integers(1, 10**7)),
        hold=draw(seconds),
        factors=factors,
        most_items=draw(st.integers(items, 2**24)),
    )


@given(manifests())
def test_what_is_encoded_is_decoded(one: Manifest) -> None:
    assert Manifest.decode(one.encode()) == one


@given(manifests())
def test_what_decodes_builds_its_mechanism(one: Manifest) -> None:
    mechanism = one.build()
    assert mechanism.name == one.terms.mechanism
    assert mechanism.epsilon == one.terms.epsilon
    assert (mechanism.shape.n_items, mechanism.shape.factors) == (one.items, one.terms.factors)
    assert mechanism.shape.alpha == one.alpha
    assert mechanism.published() == one.terms.parameters


@given(st.binary(max_size=300))
def test_any_bytes_are_a_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(damaged(RAW))
def test_a_damaged_manifest_is_another_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(st.sampled_from(KEYS + TERMS), json_values)
@settings(max_examples=400)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Manifest.decode, changed(RAW, **{name: value}))


@pytest.mark.parametrize("name", KEYS + TERMS)
@pytest.mark.parametrize("depth", [10, 900, 950, 970, 980, 985, 990, 995, 1_000, 5_000])
def test_deep_nesting_in_any_field_is_refused(name: str, depth: int) -> None:
    deep = changed(RAW, **{name: "HERE"}).decode().replace('"HERE"', nested(depth))
    assert refuses(Manifest.decode, deep.encode())


@pytest.mark.parametrize("name", KEYS + TERMS)
def test_every_field_is_needed_once_and_with_a_value_of_its_kind(name: str) -> None:
    assert refuses(Manifest.decode, changed(RAW, **{name: ...}))
    may_be_null = name in ("public_key", "token_key")
    for wrong in [True, {}, [], [1], "x", -1] + [None] * (not may_be_null):
        assert refuses(Manifest.decode, changed(RAW, **{name: wrong})), wrong


@pytest.mark.parametrize("name", KEYS + TERMS)
def test_no_field_may_be_there_twice(name: str) -> None:
    content = json.loads(RAW)
    given = content[name] if name in content else content["terms"][name]
    again = f'"{name}":{json.dumps(given, separators=(",", ":"))}'
    assert RAW.decode().count(again) == 1
    assert refuses(Manifest.decode, RAW.decode().replace(again, f"{again},{again}").encode())


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"unknown \['rotate'\]"):
        Manifest.decode(changed(RAW, rotate=True))


@pytest.mark.parametrize("above", [1.01, 1.0001, 1 + 1e-9, 1 + 2**-52])
def test_no_louder_mechanism_than_the_terms_promise_is_accepted(above: float) -> None:
    """The central promise is for the share in the terms: none above it is near enough."""
    share = manifest().build().loud_fraction
    Manifest.decode(changed(RAW, loud_fraction=share))
    with pytest.raises(ProtocolError):
        Manifest.decode(changed(RAW, loud_fraction=share / above))


def test_the_json_has_the_fields_of_the_class_in_their_order() -> None:
    of_class = [field.name for field in fields(Manifest)]
    assert ["version", "suite", *of_class, "token_key"] == KEYS
    assert [field.name for field in fields(Terms)] == TERMS


VALUES = MANIFEST_VALUES | TERMS_VALUES | TOO_LARGE


@pytest.mark.parametrize("change", VALUES.values(), ids=VALUES)
def test_the_field_at_fault_is_named(change: dict[str, Any]) -> None:
    together = ("parameters", "block", "loud", "seed", "too many for a device")
    with pytest.raises(ProtocolError, match="|".join([*change, *together])):
        Manifest.decode(changed(RAW, **change))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2.0}, "this program speaks version 2"),
        ({"version": True}, "this program speaks version 2"),
        ({"version": 1}, "this program speaks version 2"),
        ({"epoch": 1.0}, "epoch"),
        ({"mechanism": "\ud800"}, "no mechanism"),
        ({"epsilon": 1e-20}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
    ],
)
def test_what_no_device_could_work_with_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        Manifest.decode(changed(RAW, **changes))


def test_a_number_that_is_infinite_only_as_a_float_is_refused() -> None:
    assert refuses(Manifest.decode, RAW.replace(b"2.5", b"1e400"))
    assert refuses(Manifest.decode, RAW.replace(b"2.5", b"NaN"))


@pytest.mark.parametrize("epsilon", [1e-6, 40.0])
def test_the_ends_of_epsilon_make_coins_of_64_bits(epsilon: float) -> None:
    for mechanism, kind in MECHANISMS.items():
        shape = Shape(5, 2, 1.0)
        parameters = kind.build(shape, epsilon, 2, kind.example).published()
        changes = {"mechanism": mechanism, "parameters": parameters, "loud_fraction": 0.5}
        one = manifest(epsilon=epsilon, **changes)
        built = Manifest.decode(one.encode()).build()
        V = np.ones((one.items, one.terms.factors), np.float32)
        nobody = Histories.from_lists([[]], one.items)
        words = np.full((1, 9, 4), 2**64 - 1, np.uint64)
        built.reports(V, np.ones((1, one.terms.factors), np.float32), nobody, words)


def test_reports_are_asked_for_until_the_wait_for_the_crowd_is_over() -> None:
    one = manifest(opens=10, closes=20, hold=5)
    moments = (9.999, 10, 20, 24.999, 25, float("nan"))
    asked = {now: one.asks_for_reports(now) for now in moments}
    assert [*asked.values()] == [False, True, True, True, False, False]
    assert not manifest(opens=10, closes=20, public_key=None).asks_for_reports(15)


@given(manifests(), st.integers(0, MOST))
def test_the_settings_behind_a_manifest_make_the_same_mechanism(one: Manifest, seed: int) -> None:
    assert one.training(Settings(seed=seed)).build(one.items) == one.build()


def test_lambda_of_one_model_is_not_a_setting_of_its_training() -> None:
    """Or a simulation beside it would add the share of the model twice, and shrink items by it."""
    known = Settings(regularization=0.01, ridge=0.5)
    found = manifest(regularization=123.0).training(known)
    assert (found.regularization, found.ridge) == (0.01, 0.5)


@given(manifests())
def test_terms_that_a_training_asks_for_are_those_of_its_settings(one: Manifest) -> None:
    settings, asked = one.training(Settings(epochs=3)), Participation(least_clients=7, hold=9)
    made = Terms.of(one.terms.training, settings, asked, one.items)
    again = replace(one, terms=made)
    assert Manifest.decode(again.encode()) == again
    assert made.parameters == one.terms.parameters
    assert (made.epochs, made.least_clients, made.hold) == (3, 7, 9)


def test_a_name_stands_for_exactly_these_terms() -> None:
    names = {terms().name, *(terms(**change).name for change in OTHERS)}
    assert len(names) == 1 + len(OTHERS)
    assert {len(name) for name in names} == {64}  # two with the same 12 digits were once found
    assert terms().name == terms(parameters={"loud": 6, "block": 4, "directions_seed": 7}).name


OTHERS: list[dict[str, Any]] = [
    {"training": bytes(16)},
    {"epsilon": 2.4},
    {"parameters": {"directions_seed": 8, "block": 4, "loud": 6}},
    {"hold": 1},
]
