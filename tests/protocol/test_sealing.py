"""Sealed reports: RFC 9180's suite, one size, and nothing that was not sealed opens."""

import numpy as np
import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import (
    SEALED,
    Opened,
    new_epoch_key,
    open_reports,
    public_key_of,
    seal_reports,
)
from sottovoce.protocol.sealing import ENC, SUITE
from tests.protocol.examples import EPOCH_KEY, base_mode_vectors

HASH = bytes(range(100, 132))
PUBLIC = public_key_of(EPOCH_KEY)
DIRECTIONS = 1 << 20
reports_lists = st.lists(st.integers(0, 2 * DIRECTIONS - 1), max_size=5)


def seal(*reports: int, manifest_hash: bytes = HASH) -> bytes:
    return seal_reports(np.array(reports, np.uint32), PUBLIC, manifest_hash)


def opened(sealed: bytes, *, key: bytes = EPOCH_KEY, manifest_hash: bytes = HASH) -> Opened:
    return open_reports(sealed, key, manifest_hash, DIRECTIONS)


def test_the_suite_is_the_one_of_rfc_9180() -> None:
    """Only the first message of a context is a single shot; the others have a sequence number."""
    for vector in base_mode_vectors():
        private = X25519PrivateKey.from_private_bytes(vector["skRm"])
        aad, plain = vector["aad"], vector["pt"]
        sealed = vector["enc"] + vector["ct"]
        decrypt = openssl.hpke._decrypt_with_aad
        assert decrypt(SUITE, sealed, private, info=vector["info"], aad=aad) == plain


@given(reports_lists)
@settings(max_examples=30)
def test_what_is_sealed_opens_in_its_order(reports: list[int]) -> None:
    sealed = seal(*reports)
    found = opened(sealed)
    assert len(sealed) == SEALED * len(reports)
    assert found.reports.tolist() == reports
    assert found.reports.dtype == np.uint32
    assert found.undecodable == 0
    assert found.keys.tolist() == [
        int.from_bytes(sealed[at : at + 8], "little") for at in range(0, len(sealed), SEALED)
    ]


def test_the_same_report_looks_different_every_time_and_any_two_are_the_same_size() -> None:
    """Nothing outside shows what is inside: no length, no repeated byte string."""
    sealed = [seal(report) for report in [6] * 50 + [0, 2**32 - 1]]
    assert len(set(sealed)) == len(sealed)
    assert len({one[:ENC] for one in sealed}) == len(sealed)
    assert {len(one) for one in sealed} == {SEALED}


def test_a_report_opens_under_its_own_manifest_and_key_or_not_at_all() -> None:
    sealed = seal(6, 7)
    other_hash = HASH[:-1] + b"\0"
    for wrong in (
        opened(sealed, manifest_hash=other_hash),
        opened(sealed, manifest_hash=b""),
        opened(sealed, key=new_epoch_key()),
    ):
        assert wrong.reports.size == wrong.keys.size == 0
        assert wrong.undecodable == 2


def test_no_flipped_bit_opens() -> None:
    sealed = seal(6)
    flipped = b"".join(
        (int.from_bytes(sealed, "big") ^ 1 << bit).to_bytes(SEALED, "big")
        for bit in range(8 * SEALED)
    )
    found = opened(flipped)
    assert found.reports.size == 0
    assert found.undecodable == 8 * SEALED


@pytest.mark.parametrize("directions", [1, 5, 2**31])
def test_a_direction_that_is_not_there_is_counted_as_undecodable(directions: int) -> None:
    last = 2 * directions - 1
    sealed = seal(last) + (seal(last + 1) if last + 1 < 2**32 else bytes(SEALED))
    found = open_reports(sealed, EPOCH_KEY, HASH, directions)
    assert found.reports.tolist() == [last]
    assert found.keys.size == 1
    assert found.undecodable == 1


@pytest.mark.parametrize("cut", [1, 51, 53, 103])
def test_what_is_no_number_of_sealed_reports_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError, match=rf"\b{cut}\b"):
        opened(seal(1, 2)[:cut])
