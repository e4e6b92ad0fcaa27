from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import MAX_CHUNK_REPORTS, Chunk
from tests.protocol.examples import damaged, refuses

HASH = bytes(range(32))
ENCODED = Chunk(3, HASH, bytes(range(104))).encode()


def header(count: int) -> bytes:
    return b"SVC2" + bytes([3, 0, 0, 0]) + HASH + count.to_bytes(4, "little")


@given(st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32), st.integers(1, 9), st.data())
def test_what_is_encoded_is_decoded(epoch: int, digest: bytes, n: int, data: st.DataObject) -> None:
    chunk = Chunk(epoch, digest, data.draw(st.binary(min_size=52 * n, max_size=52 * n)))
    read = Chunk.decode(chunk.encode())
    assert read == chunk
    assert read.reports == n
    assert read.name == hashlib.sha256(chunk.encode()).hexdigest() == chunk.name


def test_layout() -> None:
    assert header(2) + bytes(range(104)) == ENCODED


@given(st.binary(max_size=200) | damaged(ENCODED))
def test_any_bytes_are_a_chunk_or_refused(data: bytes) -> None:
    if not refuses(Chunk.decode, data):
        assert Chunk.decode(data).encode() == data


@pytest.mark.parametrize(
    ("count", "size"),
    [
        (0, 0),
        (1, 53),
        (MAX_CHUNK_REPORTS + 1, 52 * (MAX_CHUNK_REPORTS + 1)),
    ],
)
def test_a_count_that_is_not_the_content_is_refused(count: int, size: int) -> None:
    with pytest.raises(ProtocolError, match="cannot be"):
        Chunk.decode(header(count) + bytes(size))


def test_the_largest_chunk_is_read() -> None:
    chunk = Chunk.decode(header(MAX_CHUNK_REPORTS) + bytes(52 * MAX_CHUNK_REPORTS))
    assert chunk.reports == MAX_CHUNK_REPORTS


@pytest.mark.parametrize("data", [b"", b"SVC2", header(1)[:43], b"SVB1" + ENCODED[4:]])
def test_what_does_not_begin_as_one_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="expected SVC2"):
        Chunk.decode(data)


def test_other_content_or_order_is_another_name() -> None:
    one, two = bytes(52), bytes([1]) * 52
    chunks = [
        Chunk(1, HASH, one + two),
        Chunk(1, HASH, two + one),
        Chunk(2, HASH, one + two),
        Chunk(1, bytes(32), one + two),
    ]
    assert len({chunk.name for chunk in chunks}) == len(chunks)
