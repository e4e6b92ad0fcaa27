from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.mechanism import MECHANISMS
from sottovoce.protocol import MAX_SIGNED_MANIFEST, Manifest, SignedManifest
from sottovoce.protocol.manifest import PARAMETERS, SIGNED
from sottovoce.protocol.strict import MOST
from sottovoce.training import Settings
from tests.protocol.examples import (
    changed,
    damaged,
    json_values,
    manifest,
    nested,
    parameters,
    refuses,
    signing_key,
)
from tests.protocol.malformed import MANIFEST_VALUES

RAW = manifest().encode()
SIGNED_BYTES = SignedManifest.make(manifest(), signing_key()).encode()
KEY = signing_key().public_key().public_bytes_raw()
KEYS = [*json.loads(RAW)]
hashes = st.binary(min_size=32, max_size=32)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    mechanism: str = draw(st.sampled_from(list(MECHANISMS)))
    items = draw(st.integers(1, 5_000))
    opens = draw(st.integers(0, MOST - 1))
    return manifest(
        epoch=draw(st.integers(1, 2**32 - 1)),
        items=items,
        factors=draw(st.integers(1, 64)),
        mechanism=mechanism,
        **draw(parameters(mechanism, items)),
        epsilon=draw(st.floats(1e-6, 40)),
        reports=draw(st.integers(1, 10_000)),
        alpha=draw(st.floats(0, allow_infinity=False)),
        regularization=draw(st.floats(0, allow_infinity=False)),
        model=draw(hashes),
        catalogue=draw(hashes),
        public_key=draw(st.none() | hashes),
        least_clients=draw(st.integers(1, MOST)),
        opens=opens,
        closes=draw(st.integers(opens + 1, MOST)),
        previous_reports=draw(st.integers(0, MOST)),
    )


@given(manifests())
def test_what_is_encoded_is_decoded(one: Manifest) -> None:
    assert Manifest.decode(one.encode()) == one


@given(manifests())
@settings(max_examples=25)
def test_what_is_signed_is_opened_and_named_by_the_hash_of_its_bytes(one: Manifest) -> None:
    made = SignedManifest.make(one, signing_key())
    opened = SignedManifest.open(made.encode(), KEY)
    assert opened == made
    assert opened.manifest == one
    assert opened.hash == hashlib.sha256(one.encode()).digest()


@given(manifests())
def test_what_decodes_builds_its_mechanism(one: Manifest) -> None:
    mechanism = one.build()
    assert mechanism.name == one.mechanism
    assert mechanism.epsilon == one.epsilon
    assert (mechanism.shape.n_items, mechanism.shape.factors) == (one.items, one.factors)
    assert mechanism.shape.alpha == one.alpha
    assert getattr(mechanism, "loud", 0) == one.loud
    assert getattr(mechanism, "directions_seed", 0) == one.directions_seed


@given(st.binary(max_size=300))
def test_any_bytes_are_a_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(damaged(RAW))
def test_a_damaged_manifest_is_another_manifest_or_refused(raw: bytes) -> None:
    refuses(Manifest.decode, raw)


@given(st.sampled_from(KEYS), json_values)
@settings(max_examples=400)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Manifest.decode, changed(RAW, **{name: value}))


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("depth", [10, 900, 950, 970, 980, 985, 990, 995, 1_000, 5_000])
def test_deep_nesting_in_any_field_is_refused(name: str, depth: int) -> None:
    deep = changed(RAW, **{name: "HERE"}).decode().replace('"HERE"', nested(depth))
    assert refuses(Manifest.decode, deep.encode())


@pytest.mark.parametrize("name", KEYS)
def test_every_field_is_needed_once_and_with_a_value_of_its_kind(name: str) -> None:
    value = json.dumps(json.loads(RAW)[name])
    assert refuses(Manifest.decode, changed(RAW, **{name: ...}))
    assert refuses(Manifest.decode, RAW[:-1] + f',"{name}":{value}}}'.encode())
    for wrong in [True, {}, [], [1], "x", -1] + [None] * (name != "public_key"):
        assert refuses(Manifest.decode, changed(RAW, **{name: wrong})), wrong


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"unknown \['rotate'\]"):
        Manifest.decode(changed(RAW, rotate=True))


def test_the_json_has_the_fields_of_the_class_in_their_order() -> None:
    assert ["version", "suite", *(field.name for field in fields(Manifest))] == KEYS


@pytest.mark.parametrize("change", MANIFEST_VALUES.values(), ids=MANIFEST_VALUES)
def test_the_field_at_fault_is_named(change: dict[str, Any]) -> None:
    together = ("hadamard has no loud", "coordinate has no directions_seed", "its model may be")
    with pytest.raises(ProtocolError, match="|".join([*change, *together])):
        Manifest.decode(changed(RAW, **change))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1.0}, "this program speaks version 1"),
        ({"version": True}, "this program speaks version 1"),
        ({"epoch": 1.0}, "epoch"),
        ({"factors": 0}, "factors"),
        ({"mechanism": "\ud800"}, "no mechanism"),
        ({"epsilon": 1e-20}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
        ({"loud": 9}, "loud must lie in 1..8"),
        ({"items": 2**24, "factors": 8}, "its model may be"),
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
    for mechanism in MECHANISMS:
        one = manifest(
            mechanism=mechanism,
            epsilon=epsilon,
            **dict.fromkeys(PARAMETERS, 0) | dict.fromkeys(MECHANISMS[mechanism].public_names(), 3),
        )
        built: Any = Manifest.decode(one.encode()).build()
        assert 0 < built.constants(np.ones((one.items, one.factors), np.float32)).threshold < 2**64


def test_reports_are_asked_for_from_opens_until_just_before_closes() -> None:
    one = manifest(opens=10, closes=20)
    asked = {now: one.asks_for_reports(now) for now in (9.999, 10, 19.999, 20, float("nan"))}
    assert [*asked.values()] == [False, True, True, False, False]
    assert not manifest(opens=10, closes=20, public_key=None).asks_for_reports(15)


def accepted(data: bytes, key: bytes = KEY) -> bool:
    try:
        SignedManifest.open(data, key)
    except ProtocolError:
        return False
    return True


def test_no_flipped_bit_of_a_signed_manifest_is_accepted() -> None:
    assert accepted(SIGNED_BYTES)
    for at in range(len(SIGNED_BYTES)):
        for bit in range(8):
            flipped = bytearray(SIGNED_BYTES)
            flipped[at] ^= 1 << bit
            assert not accepted(bytes(flipped)), (at, bit)


@given(damaged(SIGNED_BYTES) | st.binary(max_size=2_000))
def test_no_other_bytes_are_accepted(data: bytes) -> None:
    assert accepted(data) == (data == SIGNED_BYTES)


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"", b"short", bytes(33)])
def test_no_other_key_accepts(key: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(SIGNED_BYTES, key)


def test_another_servers_manifest_is_untrusted() -> None:
    other = SignedManifest.make(manifest(), signing_key(bytes(32))).encode()
    with pytest.raises(UntrustedError, match="not signed with the pinned verification key"):
        SignedManifest.open(other, KEY)


@pytest.mark.parametrize("body", [b"garbage", RAW, changed(RAW, epoch=0)])
def test_nothing_is_parsed_before_the_signature_holds(body: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(bytes(64) + body, KEY)


def test_a_good_signature_does_not_make_a_good_manifest() -> None:
    with pytest.raises(ProtocolError) as caught:
        SignedManifest.open(signing_key().sign(SIGNED + b"garbage") + b"garbage", KEY)
    assert not isinstance(caught.value, UntrustedError)


def test_a_signature_of_anything_else_is_no_signature_of_a_manifest() -> None:
    for signed in (RAW, b"sottovoce manifest 2\x00" + RAW, SIGNED.strip(b"\x00") + RAW):
        assert not accepted(signing_key().sign(signed) + RAW)


@pytest.mark.parametrize("size", [0, 63, 64, MAX_SIGNED_MANIFEST + 1])
def test_a_size_that_cannot_be_is_refused_before_anything_else(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"{size} bytes cannot be one") as caught:
        SignedManifest.open(bytes(size), KEY)
    assert not isinstance(caught.value, UntrustedError)


def test_the_largest_size_is_read() -> None:
    raw = RAW + b" " * (MAX_SIGNED_MANIFEST - 64 - len(RAW))
    assert accepted(signing_key().sign(SIGNED + raw) + raw)


def test_the_server_cannot_sign_what_no_device_could_work_with() -> None:
    with pytest.raises(ProtocolError, match="loud"):
        SignedManifest.make(manifest(loud=0), signing_key())
    with pytest.raises(ValueError, match="JSON"):
        SignedManifest.make(manifest(alpha=float("nan")), signing_key())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanisms_parameters_have_room_in_the_manifest(mechanism: str) -> None:
    assert set(MECHANISMS[mechanism].public_names()) <= set(PARAMETERS)


@given(manifests(), st.integers(0, MOST))
def test_the_settings_behind_a_manifest_make_the_same_mechanism(one: Manifest, seed: int) -> None:
    settings = one.training(Settings(seed=seed))
    assert settings.build(one.items) == one.build()
    again = {name: getattr(one, name) for name in KEYS if name not in ("version", "suite")}
    rest = {name: again[name] for name in again if name not in settings.as_dict()}
    rest = {name: value for name, value in rest.items() if name not in ("items", *PARAMETERS)}
    assert Manifest.for_training(settings, one.items, **rest) == one
