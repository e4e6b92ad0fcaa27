"""Batches and chunks: malformed bytes are refused, and the size of a batch reveals nothing."""

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
    derive_public_key,
    seal_reports,
)
from tests.protocol.examples import EPOCH_KEY, refuses

HASH_32 = bytes(range(32))
ID_16 = bytes(range(16))
REPORTS_PER_BATCH = 2
sealed = st.binary(min_size=52 * REPORTS_PER_BATCH, max_size=52 * REPORTS_PER_BATCH)


@given(
    st.integers(0, 2**32 - 1),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16),
    sealed,
)
def test_batch_round_trip(epoch: int, digest: bytes, name: bytes, rest: bytes) -> None:
    batch = Batch(epoch, digest, name, rest)
    assert Batch.decode(batch.encode(), REPORTS_PER_BATCH) == batch
    assert Batch.decode(batch.encode(), REPORTS_PER_BATCH).encode() == batch.encode()


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), min_size=2))
def test_batch_size_depends_on_k_only(contents: list[list[int]]) -> None:
    """Check that the size does not depend on what a person touched."""
    public = derive_public_key(EPOCH_KEY)
    sizes = {
        len(
            Batch(
                1,
                HASH_32,
                ID_16,
                seal_reports(np.array(c, np.uint32), public, HASH_32),
            ).encode()
        )
        for c in contents
    }
    assert sizes == {batch_size(3)} == {56 + 52 * 3}


def make_header(count: int) -> bytes:
    return b"SVC2" + bytes([3, 0, 0, 0]) + HASH_32 + count.to_bytes(4, "little")


@given(st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32), st.integers(1, 9), st.data())
def test_chunk_round_trip(epoch: int, digest: bytes, n: int, data: st.DataObject) -> None:
    chunk = Chunk(epoch, digest, data.draw(st.binary(min_size=52 * n, max_size=52 * n)))
    read = Chunk.decode(chunk.encode())
    assert read == chunk
    assert read.reports == n
    assert read.name == hashlib.sha256(chunk.encode()).hexdigest() == chunk.name


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, 0), (1, 53), (MAX_CHUNK_REPORTS + 1, 52 * (MAX_CHUNK_REPORTS + 1))],
)
def test_chunk_with_wrong_count_is_refused(count: int, size: int) -> None:
    assert refuses(Chunk.decode, make_header(count) + bytes(size))
    largest = Chunk.decode(make_header(MAX_CHUNK_REPORTS) + bytes(52 * MAX_CHUNK_REPORTS))
    assert largest.reports == MAX_CHUNK_REPORTS
