from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import MAX_SIGNED_MANIFEST, KeyStatement, SignedManifest
from sottovoce.protocol.manifest import MOST_STATEMENTS, SIGNED_KEY, SIGNED_MANIFEST
from tests.protocol.examples import changed, damaged, manifest, signing_key

RAW = manifest().encode()
PLAIN = SignedManifest.make(manifest(), signing_key()).encode()
SIGNERS = [signing_key(bytes([number]) * 32) for number in range(MOST_STATEMENTS + 2)]
KEYS = [each.public_key().public_bytes_raw() for each in SIGNERS]
KEY = signing_key().public_key().public_bytes_raw()


def statements(count: int) -> tuple[KeyStatement, ...]:
    """From the first of `SIGNERS` to number `count`."""
    return tuple(KeyStatement.make(SIGNERS[i], KEYS[i + 1]) for i in range(count))


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
    opened = SignedManifest.open(made.encode(), KEYS[0])
    assert opened == made
    assert opened.manifest == manifest(epoch=epoch)
    assert opened.hash == hashlib.sha256(manifest(epoch=epoch).encode()).digest()


@pytest.mark.parametrize("count", [0, 1, 3, MOST_STATEMENTS])
def test_whoever_trusts_any_key_of_the_chain_ends_at_the_last(count: int) -> None:
    data = rotated(count)
    for key in KEYS[: count + 1]:
        assert SignedManifest.open(data, key).key == KEYS[count]
    assert not accepted(data, KEYS[count + 1])


def test_nobody_is_led_back_to_an_older_key() -> None:
    old, new = rotated(1), rotated(2)
    trusted = SignedManifest.open(new, KEYS[0]).key
    assert not accepted(old, trusted)
    assert not accepted(SignedManifest.make(manifest(), SIGNERS[0]).encode(), trusted)
    # Not even by the owner of the old key, who could sign a way round the new one.
    around = (*statements(2), KeyStatement.make(SIGNERS[0], KEYS[0]))
    assert not accepted(SignedManifest.make(manifest(), SIGNERS[0], around).encode(), trusted)


def test_a_chain_that_comes_back_to_a_key_goes_on_from_its_last_place() -> None:
    there = KeyStatement.make(SIGNERS[0], KEYS[1])
    back = KeyStatement.make(SIGNERS[1], KEYS[0])
    data = SignedManifest.make(manifest(), SIGNERS[0], (there, back)).encode()
    assert SignedManifest.open(data, KEYS[0]).key == KEYS[0]


def test_more_statements_than_there_may_be_are_refused() -> None:
    assert not accepted(rotated(MOST_STATEMENTS + 1), KEYS[0])


@pytest.mark.parametrize("data", [PLAIN, rotated(1)], ids=["plain", "with a statement"])
def test_no_flipped_bit_is_accepted(data: bytes) -> None:
    key = KEY if data is PLAIN else KEYS[0]
    assert accepted(data, key)
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            assert not accepted(bytes(flipped), key), (at, bit)


@given(damaged(PLAIN) | st.binary(max_size=2_000))
def test_no_other_bytes_are_accepted(data: bytes) -> None:
    assert accepted(data) == (data == PLAIN)


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"", b"short", bytes(33)])
def test_no_other_key_accepts(key: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(PLAIN, key)


@pytest.mark.parametrize("body", [b"garbage", RAW, changed(RAW, epoch=0)])
def test_nothing_is_parsed_before_the_signature_holds(body: bytes) -> None:
    with pytest.raises(UntrustedError):
        SignedManifest.open(b"SVM2\x00" + bytes(64) + body, KEY)


def signed(content: bytes, body: bytes) -> bytes:
    return b"SVM2\x00" + signing_key().sign(content) + body


def test_a_good_signature_does_not_make_a_good_manifest() -> None:
    with pytest.raises(ProtocolError) as caught:
        SignedManifest.open(signed(SIGNED_MANIFEST + b"garbage", b"garbage"), KEY)
    assert not isinstance(caught.value, UntrustedError)


def test_a_signature_of_anything_else_is_no_signature_of_a_manifest() -> None:
    old = b"sottovoce manifest 1\x00"
    for content in (RAW, old + RAW, SIGNED_MANIFEST.strip(b"\x00") + RAW, SIGNED_KEY + KEY + RAW):
        assert not accepted(signed(content, RAW))


def test_a_signature_of_anything_else_is_no_statement() -> None:
    for content in (KEYS[1], SIGNED_KEY + KEYS[1], SIGNED_MANIFEST + KEYS[0] + KEYS[1]):
        forged = KeyStatement(KEYS[1], SIGNERS[0].sign(content))
        data = SignedManifest.make(manifest(), SIGNERS[1], (forged,)).encode()
        assert not accepted(data, KEYS[0])


@pytest.mark.parametrize("data", [b"", b"SVM2", b"SVM2\x00", b"SVM2\x00" + bytes(64), bytes(200)])
def test_a_size_or_beginning_that_cannot_be_is_refused_first(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="signed manifest") as caught:
        SignedManifest.open(data, KEY)
    assert not isinstance(caught.value, UntrustedError)


def test_the_largest_size_is_read_and_no_larger_one() -> None:
    raw = RAW + b" " * (16_384 - len(RAW))
    last, chain = SIGNERS[MOST_STATEMENTS], statements(MOST_STATEMENTS)
    before = b"".join(each.key + each.signature for each in chain)
    data = b"SVM2" + bytes([MOST_STATEMENTS]) + before + last.sign(SIGNED_MANIFEST + raw) + raw
    assert len(data) == MAX_SIGNED_MANIFEST
    assert accepted(data, KEYS[0])
    assert not accepted(signed(SIGNED_MANIFEST + raw + b" ", raw + b" "))


def test_the_server_cannot_sign_what_no_device_could_work_with() -> None:
    without_loud = manifest(parameters={"directions_seed": 7, "block": 4, "loud": 0})
    with pytest.raises(ProtocolError, match="loud"):
        SignedManifest.make(without_loud, signing_key())
    with pytest.raises(ValueError, match="JSON"):
        SignedManifest.make(manifest(alpha=float("nan")), signing_key())
