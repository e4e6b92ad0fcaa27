"""Manifests and their signatures. The list of what every client refuses: `malformed.py`."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, Shape, bounds
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import KeyStatement, Manifest, SignedManifest, Terms
from sottovoce.protocol.signing import MOST_STATEMENTS, SIGNED_KEY
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
    signing_key,
    terms,
)

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
    one = manifest(
        epoch=draw(st.integers(1, 2**32 - 1)),
        items=items,
        alpha=draw(st.floats(0, bounds.MOST_ALPHA)),
        regularization=draw(st.floats(bounds.LEAST_RIDGE, bounds.MOST_RIDGE)),
        model=draw(hashes),
        catalogue=draw(hashes),
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
        dummies=draw(st.integers(0, 10**7)),
        hold=draw(seconds),
        factors=factors,
        most_items=draw(st.integers(items, 2**24)),
    )
    return replace(one, terms=replace(one.terms, loud_fraction=one.build().loud_fraction))


@given(manifests(), st.integers(0, MOST))
def test_what_is_encoded_is_decoded_and_builds_its_mechanism(one: Manifest, seed: int) -> None:
    assert Manifest.decode(one.encode()) == one
    mechanism = one.build()
    assert (mechanism.name, mechanism.epsilon) == (one.terms.mechanism, one.terms.epsilon)
    assert mechanism.shape == Shape(one.items, one.terms.factors, one.alpha)
    assert mechanism.published() == one.terms.parameters
    assert one.training(Settings(seed=seed)).build(one.items) == mechanism


@given(st.binary(max_size=300) | damaged(RAW))
def test_any_bytes_are_a_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(st.sampled_from(KEYS + TERMS), json_values)
@settings(max_examples=150)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Manifest.decode, changed(RAW, **{name: value}))


@pytest.mark.parametrize("name", KEYS + TERMS)
def test_every_field_is_needed_once_and_with_a_value_of_its_kind(name: str) -> None:
    assert refuses(Manifest.decode, changed(RAW, **{name: ...}))
    may_be_null = name in ("public_key", "token_key", "next_token_key")
    no_boolean = 1 if name in ("trial", "accounts") else True
    for wrong in [no_boolean, {}, [], [1], "x", -1] + [None] * (not may_be_null):
        assert refuses(Manifest.decode, changed(RAW, **{name: wrong})), wrong
    for depth in (10, 970, 990, 1_000, 5_000):
        deep = changed(RAW, **{name: "HERE"}).decode().replace('"HERE"', nested(depth))
        assert refuses(Manifest.decode, deep.encode()), depth
    content = json.loads(RAW)
    given = content[name] if name in content else content["terms"][name]
    again = f'"{name}":{json.dumps(given, separators=(",", ":"))}'
    assert RAW.decode().count(again) == 1
    assert refuses(Manifest.decode, RAW.decode().replace(again, f"{again},{again}").encode())


def test_whole_numbers_are_no_floats_and_floats_are_finite() -> None:
    """What a browser cannot tell apart is not in `malformed.py`."""
    for changes in (
        {"version": 2.0},
        {"epoch": 1.0},
        {"mechanism": "\ud800"},
        {"epsilon": 10**400},
    ):
        assert refuses(Manifest.decode, changed(RAW, **changes)), changes


def test_reports_are_asked_for_until_the_wait_for_the_crowd_is_over() -> None:
    one = manifest(opens=10, closes=20, hold=5)
    moments = (9.999, 10, 20, 24.999, 25, float("nan"))
    asked = {now: one.asks_for_reports(now) for now in moments}
    assert [*asked.values()] == [False, True, True, True, False, False]
    assert not manifest(opens=10, closes=20, public_key=None).asks_for_reports(15)


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


# Signed.


PLAIN = SignedManifest.make(manifest(), signing_key()).encode()
SIGNERS = [signing_key(bytes([number]) * 32) for number in range(MOST_STATEMENTS + 2)]
PUBLIC_KEYS = [each.public_key().public_bytes_raw() for each in SIGNERS]
KEY = signing_key().public_key().public_bytes_raw()


def statements(count: int) -> tuple[KeyStatement, ...]:
    """From the first of `SIGNERS` to number `count`."""
    return tuple(KeyStatement.make(SIGNERS[i], PUBLIC_KEYS[i + 1]) for i in range(count))


def rotated(count: int) -> bytes:
    return SignedManifest.make(manifest(), SIGNERS[count], statements(count)).encode()


def accepted(data: bytes, key: bytes = KEY) -> bool:
    try:
        SignedManifest.open(data, key)
    except ProtocolError:
        return False
    return True


@given(st.integers(1, 2**32 - 1), st.integers(0, 5))
@settings(max_examples=25)
def test_what_is_signed_is_opened_and_named_by_the_hash_of_its_bytes(epoch: int, n: int) -> None:
    made = SignedManifest.make(manifest(epoch=epoch), SIGNERS[n], statements(n))
    opened = SignedManifest.open(made.encode(), PUBLIC_KEYS[0])
    assert opened == made
    assert opened.manifest == manifest(epoch=epoch)
    assert opened.hash == hashlib.sha256(manifest(epoch=epoch).encode()).digest()


def test_nobody_is_led_back_to_an_older_key() -> None:
    old, new = rotated(1), rotated(2)
    trusted = SignedManifest.open(new, PUBLIC_KEYS[0]).key
    assert not accepted(old, trusted)
    assert not accepted(SignedManifest.make(manifest(), SIGNERS[0]).encode(), trusted)
    # Not even by the owner of the old key, who could sign a way round the new one.
    around = (*statements(2), KeyStatement.make(SIGNERS[0], PUBLIC_KEYS[0]))
    assert not accepted(SignedManifest.make(manifest(), SIGNERS[0], around).encode(), trusted)


@pytest.mark.parametrize("data", [PLAIN, rotated(1)], ids=["plain", "with a statement"])
def test_no_flipped_bit_is_accepted(data: bytes) -> None:
    """Every bit of what stands before the signed text, and one of each byte of that."""
    key, text = KEY if data is PLAIN else PUBLIC_KEYS[0], data.index(b'{"')
    assert accepted(data, key)
    for at in range(len(data)):
        for bit in range(8) if at <= text else (at % 8,):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            assert not accepted(bytes(flipped), key), (at, bit)


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"", b"short", bytes(33)])
def test_no_other_key_accepts(key: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(PLAIN, key)


@pytest.mark.parametrize("body", [b"garbage", RAW, changed(RAW, epoch=0)])
def test_nothing_is_parsed_before_the_signature_holds(body: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(b"SVM2\x00" + bytes(64) + body, KEY)


def test_a_signature_of_anything_else_is_no_statement() -> None:
    for content in (
        PUBLIC_KEYS[1],
        SIGNED_KEY + PUBLIC_KEYS[1],
        SignedManifest.label + PUBLIC_KEYS[0] + PUBLIC_KEYS[1],
    ):
        forged = KeyStatement(PUBLIC_KEYS[1], SIGNERS[0].sign(content))
        data = SignedManifest.make(manifest(), SIGNERS[1], (forged,)).encode()
        assert not accepted(data, PUBLIC_KEYS[0])


def test_the_server_cannot_sign_what_no_device_could_work_with() -> None:
    without_loud = manifest(parameters={"directions_seed": 7, "block": 4, "loud": 0})
    with pytest.raises(ProtocolError, match="loud"):
        SignedManifest.make(without_loud, signing_key())
    with pytest.raises(ValueError, match="JSON"):
        SignedManifest.make(manifest(alpha=float("nan")), signing_key())


def test_among_dummies_no_direction_less_is_loud_than_the_terms_say() -> None:
    """Of many directions a few less are a small part, and still too few."""

    def of_loud(loud: int) -> Manifest:
        parameters = {"directions_seed": 7, "block": 4, "loud": loud}
        return manifest(items=400, most_items=400, parameters=parameters, loud_fraction=100 / 1600)

    SignedManifest.make(of_loud(100), signing_key())
    with pytest.raises(ProtocolError):
        SignedManifest.make(of_loud(95), signing_key())
