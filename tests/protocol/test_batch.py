"""Batches and chunks: any bytes are one or refused, and a batch's size tells nothing."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.protocol import (
    MAX_CHUNK_REPORTS,
    Batch,
    Chunk,
    batch_size,
    public_key_of,
    seal_reports,
)
from tests.protocol.examples import EPOCH_KEY, refuses

HASH, ID = bytes(range(32)), bytes(range(16))
REPORTS = 2
sealed = st.binary(min_size=52 * REPORTS, max_size=52 * REPORTS)


@given(
    st.integers(0, 2**32 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16),
    sealed,
)
def test_a_batch_is_read_as_it_was_written(
    epoch: int, digest: bytes, name: bytes, rest: bytes
) -> None:
    batch = Batch(epoch, digest, name, rest)
    assert Batch.decode(batch.encode(), REPORTS) == batch
    assert Batch.decode(batch.encode(), REPORTS).encode() == batch.encode()


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), min_size=2))
def test_the_size_of_a_batch_depends_on_k_alone(contents: list[list[int]]) -> None:
    """Whatever somebody touched, and however much: an onlooker sees the same number of bytes."""
    public = public_key_of(EPOCH_KEY)
    sizes = {
        len(Batch(1, HASH, ID, seal_reports(np.array(c, np.uint32), public, HASH)).encode())
        for c in contents
    }
    assert sizes == {batch_size(3)} == {56 + 52 * 3}


def header(count: int) -> bytes:
    return b"SVC2" + bytes([3, 0, 0, 0]) + HASH + count.to_bytes(4, "little")


@given(st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32), st.integers(1, 9), st.data())
def test_a_chunk_is_read_as_it_was_written(
    epoch: int, digest: bytes, n: int, data: st.DataObject
) -> None:
    chunk = Chunk(epoch, digest, data.draw(st.binary(min_size=52 * n, max_size=52 * n)))
    read = Chunk.decode(chunk.encode())
    assert read == chunk
    assert read.reports == n
    assert read.name == hashlib.sha256(chunk.encode()).hexdigest() == chunk.name


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, 0), (1, 53), (MAX_CHUNK_REPORTS + 1, 52 * (MAX_CHUNK_REPORTS + 1))],
)
def test_a_count_that_is_not_the_content_is_refused(count: int, size: int) -> None:
    assert refuses(Chunk.decode, header(count) + bytes(size))
    largest = Chunk.decode(header(MAX_CHUNK_REPORTS) + bytes(52 * MAX_CHUNK_REPORTS))
    assert largest.reports == MAX_CHUNK_REPORTS
