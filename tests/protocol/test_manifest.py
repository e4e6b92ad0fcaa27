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
from sottovoce.protocol.manifest import MAX_LICENCE_LENGTH, MAX_START_NAME_LENGTH
from sottovoce.protocol.signing import KEY_STATEMENT_LABEL, MAX_STATEMENTS
from sottovoce.protocol.strict import MAX_INTEGER
from sottovoce.training import Participation, Settings
from sottovoce.training.start import Provenance
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

RAW_JSON = manifest().encode()
MANIFEST_FIELDS = [*json.loads(RAW_JSON)]
TERMS_FIELDS = [*json.loads(RAW_JSON)["terms"]]
hashes = st.binary(min_size=32, max_size=32)


def draw_provenance() -> st.SearchStrategy[Provenance]:
    plain = st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cf"])
    return st.builds(
        Provenance,
        st.text(plain, min_size=1, max_size=MAX_START_NAME_LENGTH),
        st.integers(1, MAX_INTEGER),
        st.none() | st.dates().map(str),
        st.text(plain, min_size=1, max_size=MAX_LICENCE_LENGTH),
    )


@st.composite
def draw_manifest(draw: st.DrawFn) -> Manifest:
    mechanism: str = draw(st.sampled_from(list(MECHANISMS)))
    items, factors = draw(st.integers(1, 5_000)), draw(st.integers(1, 64))
    opens = draw(st.integers(0, MAX_INTEGER - 1))
    seconds = st.integers(0, MAX_INTEGER)
    one = manifest(
        epoch=draw(st.integers(1, 2**32 - 1)),
        items=items,
        alpha=draw(st.floats(0, bounds.MAX_ALPHA)),
        regularization=draw(st.floats(bounds.MIN_RIDGE, bounds.MAX_RIDGE)),
        model=draw(hashes),
        catalogue=draw(hashes),
        public_key=draw(st.none() | hashes),
        opens=opens,
        closes=draw(st.integers(opens + 1, MAX_INTEGER)),
        epochs_left=draw(st.integers(0, MAX_INTEGER)),
        reports_behind=draw(seconds),
        start=draw(st.none() | draw_provenance()),
        training=draw(st.binary(min_size=16, max_size=16)),
        mechanism=mechanism,
        parameters=draw(parameters(mechanism, items, factors)),
        epsilon=draw(st.floats(1e-6, 40)),
        loud_fraction=0.5,
        reports=draw(st.integers(1, 10_000)),
        epochs=draw(st.integers(1, MAX_INTEGER)),
        share=draw(st.floats(2**-32, 1)),
        min_clients=draw(st.integers(1, 10**7)),
        dummies=draw(st.integers(0, 10**7)),
        hold=draw(seconds),
        factors=factors,
        max_items=draw(st.integers(items, 2**24)),
    )
    return replace(one, terms=replace(one.terms, loud_fraction=one.build().loud_fraction))


@given(draw_manifest(), st.integers(0, MAX_INTEGER))
def test_manifest_round_trip_builds_its_mechanism(one: Manifest, seed: int) -> None:
    assert Manifest.decode(one.encode()) == one
    mechanism = one.build()
    assert (mechanism.name, mechanism.epsilon) == (one.terms.mechanism, one.terms.epsilon)
    assert mechanism.shape == Shape(one.items, one.terms.factors, one.alpha)
    assert mechanism.public_parameters() == one.terms.parameters
    assert one.training(Settings(seed=seed)).build(one.items) == mechanism


@given(st.binary(max_size=300) | damaged(RAW_JSON))
def test_any_bytes_are_a_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(st.sampled_from(MANIFEST_FIELDS + TERMS_FIELDS), json_values)
@settings(max_examples=150)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Manifest.decode, changed(RAW_JSON, **{name: value}))


@pytest.mark.parametrize("name", MANIFEST_FIELDS + TERMS_FIELDS)
def test_every_field_is_required_once_with_its_type(name: str) -> None:
    assert refuses(Manifest.decode, changed(RAW_JSON, **{name: ...}))
    may_be_null = name == "start" or name.endswith(("_key", "_patch"))
    no_boolean = 1 if name in ("trial", "accounts") else True
    for wrong in [no_boolean, {}, [], [1], "x", -1] + [None] * (not may_be_null):
        assert refuses(Manifest.decode, changed(RAW_JSON, **{name: wrong})), wrong
    for depth in (10, 970, 990, 1_000, 5_000):
        deep = changed(RAW_JSON, **{name: "HERE"}).decode().replace('"HERE"', nested(depth))
        assert refuses(Manifest.decode, deep.encode()), depth
    content = json.loads(RAW_JSON)
    value = content[name] if name in content else content["terms"][name]
    again = f'"{name}":{json.dumps(value, separators=(",", ":"))}'
    assert RAW_JSON.decode().count(again) == 1
    assert refuses(Manifest.decode, RAW_JSON.decode().replace(again, f"{again},{again}").encode())


def test_integers_are_no_floats_and_floats_are_finite() -> None:
    """Check what a browser cannot distinguish, so that it is not in `malformed.py`."""
    for changes in (
        {"version": 2.0},
        {"epoch": 1.0},
        {"mechanism": "\ud800"},
        {"epsilon": 10**400},
    ):
        assert refuses(Manifest.decode, changed(RAW_JSON, **changes)), changes


def test_reports_are_asked_for_until_the_epoch_ends() -> None:
    one = manifest(opens=10, closes=20, hold=5)
    moments = (9.999, 10, 20, 24.999, 25, float("nan"))
    asked = {now: one.asks_for_reports(now) for now in moments}
    assert [*asked.values()] == [False, True, True, True, False, False]
    assert not manifest(opens=10, closes=20, public_key=None).asks_for_reports(15)


def test_lambda_of_one_model_is_not_a_setting_of_its_training() -> None:
    """Check this because a simulation would otherwise add the share of the model twice."""
    expected = Settings(regularization=0.01, ridge=0.5)
    result = manifest(regularization=123.0).training(expected)
    assert (result.regularization, result.ridge) == (0.01, 0.5)


@given(draw_manifest())
def test_terms_that_a_training_asks_for_are_those_of_its_settings(one: Manifest) -> None:
    settings, asked = one.training(Settings(epochs=3)), Participation(min_clients=7, hold=9)
    created = Terms.from_settings(one.terms.training, settings, asked, one.items)
    again = replace(one, terms=created)
    assert Manifest.decode(again.encode()) == again
    assert created.parameters == one.terms.parameters
    assert (created.epochs, created.min_clients, created.hold) == (3, 7, 9)


def test_name_of_terms_identifies_them() -> None:
    names = {terms().name, *(terms(**change).name for change in OTHER_TERMS)}
    assert len(names) == 1 + len(OTHER_TERMS)
    assert {len(name) for name in names} == {64}  # two with the same 12 digits were once found
    assert terms().name == terms(parameters={"loud": 6, "block": 4, "directions_seed": 7}).name


OTHER_TERMS: list[dict[str, Any]] = [
    {"training": bytes(16)},
    {"epsilon": 2.4},
    {"parameters": {"directions_seed": 8, "block": 4, "loud": 6}},
    {"hold": 1},
]


# Signed.


SIGNED_BYTES = SignedManifest.make(manifest(), signing_key()).encode()
SIGNING_KEYS = [signing_key(bytes([number]) * 32) for number in range(MAX_STATEMENTS + 2)]
PUBLIC_KEYS = [item.public_key().public_bytes_raw() for item in SIGNING_KEYS]
VERIFICATION_KEY = signing_key().public_key().public_bytes_raw()


def make_statements(count: int) -> tuple[KeyStatement, ...]:
    """Return statements from the first of `SIGNING_KEYS` to number `count`."""
    return tuple(KeyStatement.make(SIGNING_KEYS[i], PUBLIC_KEYS[i + 1]) for i in range(count))


def sign_by_rotated_key(count: int) -> bytes:
    return SignedManifest.make(manifest(), SIGNING_KEYS[count], make_statements(count)).encode()


def is_accepted(data: bytes, key: bytes = VERIFICATION_KEY) -> bool:
    try:
        SignedManifest.open(data, key)
    except ProtocolError:
        return False
    return True


@given(st.integers(1, 2**32 - 1), st.integers(0, 5))
@settings(max_examples=25)
def test_signed_manifest_round_trip(epoch: int, n: int) -> None:
    created = SignedManifest.make(manifest(epoch=epoch), SIGNING_KEYS[n], make_statements(n))
    opened = SignedManifest.open(created.encode(), PUBLIC_KEYS[0])
    assert opened == created
    assert opened.manifest == manifest(epoch=epoch)
    assert opened.hash == hashlib.sha256(manifest(epoch=epoch).encode()).digest()


def test_statements_never_lead_to_an_older_key() -> None:
    old, new = sign_by_rotated_key(1), sign_by_rotated_key(2)
    trusted = SignedManifest.open(new, PUBLIC_KEYS[0]).key
    assert not is_accepted(old, trusted)
    assert not is_accepted(SignedManifest.make(manifest(), SIGNING_KEYS[0]).encode(), trusted)
    # Not even by the owner of the old key, who could sign a way round the new one.
    around = (*make_statements(2), KeyStatement.make(SIGNING_KEYS[0], PUBLIC_KEYS[0]))
    assert not is_accepted(
        SignedManifest.make(manifest(), SIGNING_KEYS[0], around).encode(), trusted
    )


@pytest.mark.parametrize(
    "data", [SIGNED_BYTES, sign_by_rotated_key(1)], ids=["plain", "with a statement"]
)
def test_no_flipped_bit_is_accepted(data: bytes) -> None:
    """Flip every bit before the content, and one bit of each byte of the content."""
    key, text = VERIFICATION_KEY if data is SIGNED_BYTES else PUBLIC_KEYS[0], data.index(b'{"')
    assert is_accepted(data, key)
    for at in range(len(data)):
        for bit in range(8) if at <= text else (at % 8,):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            assert not is_accepted(bytes(flipped), key), (at, bit)


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"", b"short", bytes(33)])
def test_no_other_key_accepts(key: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(SIGNED_BYTES, key)


@pytest.mark.parametrize("body", [b"garbage", RAW_JSON, changed(RAW_JSON, epoch=0)])
def test_signature_is_verified_before_parsing(body: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(b"SVM2\x00" + bytes(64) + body, VERIFICATION_KEY)


def test_other_signature_is_no_key_statement() -> None:
    for content in (
        PUBLIC_KEYS[1],
        KEY_STATEMENT_LABEL + PUBLIC_KEYS[1],
        SignedManifest.label + PUBLIC_KEYS[0] + PUBLIC_KEYS[1],
    ):
        forged = KeyStatement(PUBLIC_KEYS[1], SIGNING_KEYS[0].sign(content))
        data = SignedManifest.make(manifest(), SIGNING_KEYS[1], (forged,)).encode()
        assert not is_accepted(data, PUBLIC_KEYS[0])


def test_server_cannot_sign_an_unusable_manifest() -> None:
    without_loud = manifest(parameters={"directions_seed": 7, "block": 4, "loud": 0})
    with pytest.raises(ProtocolError, match="loud"):
        SignedManifest.make(without_loud, signing_key())
    with pytest.raises(ValueError, match="JSON"):
        SignedManifest.make(manifest(alpha=float("nan")), signing_key())


def test_too_few_loud_directions_among_dummies_are_refused() -> None:
    """Check it also for many directions, of which a few are a small share."""

    def of_loud(loud: int) -> Manifest:
        parameters = {"directions_seed": 7, "block": 4, "loud": loud}
        return manifest(items=400, max_items=400, parameters=parameters, loud_fraction=100 / 1600)

    SignedManifest.make(of_loud(100), signing_key())
    with pytest.raises(ProtocolError):
        SignedManifest.make(of_loud(95), signing_key())
