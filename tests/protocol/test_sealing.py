"""Sealed reports: RFC 9180's suite, one size, and nothing that was not sealed opens."""

import numpy as np
import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import (
    SEALED_BYTES,
    OpenedReports,
    derive_public_key,
    generate_epoch_key,
    open_reports,
    seal_reports,
)
from sottovoce.protocol.sealing import ENCAPSULATED_KEY_BYTES, HPKE_SUITE
from tests.protocol.examples import EPOCH_KEY, base_mode_vectors

HASH_32 = bytes(range(100, 132))
PUBLIC_KEY = derive_public_key(EPOCH_KEY)
N_DIRECTIONS = 1 << 20
reports_lists = st.lists(st.integers(0, 2 * N_DIRECTIONS - 1), max_size=5)


def seal(*reports: int, manifest_hash: bytes = HASH_32) -> bytes:
    return seal_reports(np.array(reports, np.uint32), PUBLIC_KEY, manifest_hash)


def open_sealed(
    sealed: bytes, *, key: bytes = EPOCH_KEY, manifest_hash: bytes = HASH_32
) -> OpenedReports:
    return open_reports(sealed, key, manifest_hash, N_DIRECTIONS)


def test_the_suite_is_the_one_of_rfc_9180() -> None:
    """Check the first messages only: later ones of a context have a sequence number."""
    for vector in base_mode_vectors():
        private = X25519PrivateKey.from_private_bytes(vector["skRm"])
        aad, plain = vector["aad"], vector["pt"]
        sealed = vector["enc"] + vector["ct"]
        decrypt = openssl.hpke._decrypt_with_aad
        assert decrypt(HPKE_SUITE, sealed, private, info=vector["info"], aad=aad) == plain


@given(reports_lists)
@settings(max_examples=30)
def test_sealed_reports_open_in_order(reports: list[int]) -> None:
    sealed = seal(*reports)
    result = open_sealed(sealed)
    assert len(sealed) == SEALED_BYTES * len(reports)
    assert result.reports.tolist() == reports
    assert result.reports.dtype == np.uint32
    assert result.undecodable == 0
    assert result.keys.tolist() == [
        int.from_bytes(sealed[at : at + 8], "little") for at in range(0, len(sealed), SEALED_BYTES)
    ]


def test_sealed_reports_differ_and_have_one_size() -> None:
    """Check that neither length nor repeated bytes reveal the content."""
    sealed = [seal(report) for report in [6] * 50 + [0, 2**32 - 1]]
    assert len(set(sealed)) == len(sealed)
    assert len({one[:ENCAPSULATED_KEY_BYTES] for one in sealed}) == len(sealed)
    assert {len(one) for one in sealed} == {SEALED_BYTES}


def test_report_opens_only_with_its_manifest_and_key() -> None:
    sealed = seal(6, 7)
    other_hash = HASH_32[:-1] + b"\0"
    for wrong in (
        open_sealed(sealed, manifest_hash=other_hash),
        open_sealed(sealed, manifest_hash=b""),
        open_sealed(sealed, key=generate_epoch_key()),
    ):
        assert wrong.reports.size == wrong.keys.size == 0
        assert wrong.undecodable == 2


def test_no_flipped_bit_opens() -> None:
    sealed = seal(6)
    flipped = b"".join(
        (int.from_bytes(sealed, "big") ^ 1 << bit).to_bytes(SEALED_BYTES, "big")
        for bit in range(8 * SEALED_BYTES)
    )
    result = open_sealed(flipped)
    assert result.reports.size == 0
    assert result.undecodable == 8 * SEALED_BYTES


@pytest.mark.parametrize("directions", [1, 5, 2**31])
def test_unknown_direction_is_counted_as_undecodable(directions: int) -> None:
    last = 2 * directions - 1
    sealed = seal(last) + (seal(last + 1) if last + 1 < 2**32 else bytes(SEALED_BYTES))
    result = open_reports(sealed, EPOCH_KEY, HASH_32, directions)
    assert result.reports.tolist() == [last]
    assert result.keys.size == 1
    assert result.undecodable == 1


@pytest.mark.parametrize("cut", [1, 51, 53, 103])
def test_partial_sealed_report_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError, match=rf"\b{cut}\b"):
        open_sealed(seal(1, 2)[:cut])
