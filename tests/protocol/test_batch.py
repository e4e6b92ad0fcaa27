from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import Batch, batch_size, public_key_of, seal_reports
from tests.protocol.examples import EPOCH_KEY, damaged, refuses

HASH, ID = bytes(range(32)), bytes(range(16))
REPORTS = 2
ENCODED = Batch(3, HASH, ID, bytes(range(104))).encode()
sealed = st.binary(min_size=52 * REPORTS, max_size=52 * REPORTS)


@given(
    st.integers(0, 2**32 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16),
    sealed,
)
def test_what_is_encoded_is_decoded(epoch: int, digest: bytes, name: bytes, rest: bytes) -> None:
    batch = Batch(epoch, digest, name, rest)
    assert Batch.decode(batch.encode(), REPORTS) == batch
    assert Batch.decode(batch.encode(), REPORTS).encode() == batch.encode()


def test_layout() -> None:
    assert ENCODED[:4] == b"SVB2"
    assert ENCODED[4:8] == bytes([3, 0, 0, 0])
    assert ENCODED[8:40] == HASH
    assert ENCODED[40:56] == ID
    assert ENCODED[56:] == bytes(range(104))


@given(st.binary(max_size=200) | damaged(ENCODED))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    fits = len(data) == len(ENCODED) and data[:4] == b"SVB2"
    assert refuses(lambda raw: Batch.decode(raw, REPORTS), data) == (not fits)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_only_the_size_of_k_reports_is_taken(asked: int, sent: int) -> None:
    data = b"SVB2" + bytes(52 + 52 * sent)
    assert refuses(lambda raw: Batch.decode(raw, asked), data) == (asked != sent)


def test_the_message_says_both_sizes() -> None:
    with pytest.raises(ProtocolError, match="159 bytes; 2 reports are 160"):
        Batch.decode(ENCODED[:-1], REPORTS)


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), min_size=2))
def test_the_size_of_a_batch_depends_on_k_alone(contents: list[list[int]]) -> None:
    """Whatever somebody touched, and however much: an onlooker sees the same number of bytes."""
    public = public_key_of(EPOCH_KEY)
    sizes = {
        len(Batch(1, HASH, ID, seal_reports(np.array(c, np.uint32), public, HASH)).encode())
        for c in contents
    }
    assert sizes == {batch_size(3)} == {56 + 52 * 3}
