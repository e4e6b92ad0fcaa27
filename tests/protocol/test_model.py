from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from sottovoce.core.bounds import LEAST_ENTRY, MOST_ENTRY
from sottovoce.protocol import decode_items, encode_items, model_size
from tests.protocol.examples import damaged, json_values, nested, refuses

V = np.array([[0.5, -1.25], [3.0, 1e-18], [0.0, -0.0]], np.float32)
FILE = encode_items(V)
HEADER = {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}
matrices = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.just(0.0)
    | st.floats(LEAST_ENTRY, MOST_ENTRY, width=32)
    | st.floats(-MOST_ENTRY, -LEAST_ENTRY, width=32),
)


def decode(data: bytes) -> np.ndarray:
    return decode_items(data, 3, 2)


def file_with(header: bytes, body: bytes = V.tobytes()) -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def described(**tensors: Any) -> bytes:
    return file_with(json.dumps(tensors).encode())


@given(matrices)
def test_what_is_written_is_read_bit_for_bit(matrix: np.ndarray) -> None:
    data = encode_items(matrix)
    assert len(data) <= model_size(*matrix.shape)
    read = decode_items(data, *matrix.shape)
    assert read.dtype == np.float32
    assert read.tobytes() == matrix.tobytes()
    assert read.flags.writeable  # a copy of its own, not a view into the file


@given(matrices)
def test_safetensors_reads_ours_and_we_read_theirs(matrix: np.ndarray) -> None:
    theirs = load(encode_items(matrix))
    assert [*theirs] == ["item_matrix"]
    assert theirs["item_matrix"].tobytes() == matrix.tobytes()
    for metadata in (None, {"made": "elsewhere"}):
        data = save({"item_matrix": matrix}, metadata)
        assert decode_items(data, *matrix.shape).tobytes() == matrix.tobytes()


def test_memory_layout_does_not_matter_and_numbers_are_aligned() -> None:
    assert encode_items(np.asfortranarray(V)) == FILE
    assert encode_items(np.repeat(V, 2, axis=0)[::2]) == FILE
    assert (8 + int.from_bytes(FILE[:8], "little")) % 8 == 0


@given(st.binary(max_size=200) | damaged(FILE))
def test_any_bytes_are_the_matrix_or_refused(data: bytes) -> None:
    refuses(decode, data)


@given(st.sampled_from([*HEADER]), json_values)
def test_no_other_header_is_taken(name: str, value: Any) -> None:
    data = described(item_matrix=HEADER | {name: value})
    assert refuses(decode, data) or json.dumps(value) == json.dumps(HEADER[name])


@given(json_values)
def test_metadata_is_passed_over_whatever_it_is(value: Any) -> None:
    data = described(item_matrix=HEADER, __metadata__=value)
    readable = "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)
    assume(readable and len(data) < 4_096)
    assert np.array_equal(decode(data), V)


@pytest.mark.parametrize(
    "data",
    [
        FILE[:7],
        FILE[:8],
        file_with(b""),
        file_with(b'{"item_matrix":' + nested(1_900).encode() + b"}"),
        described(item_matrix=HEADER | {"dtype": "f32"}),
        described(item_matrix=HEADER | {"shape": [3.0, 2]}),
        described(item_matrix=HEADER | {"data_offsets": [False, 24]}),
        described(item_matrix=HEADER | {"data_offsets": [24, 48]}),
        save({"item_matrix": V.astype(np.float64)}),
        save({"item_matrix": V, "other": V}),
        encode_items(V.T),
        encode_items(V[:2]),
    ],
    ids=range(12),
)
def test_anything_else_is_refused(data: bytes) -> None:
    """More of it, for all implementations: `malformed.py`."""
    assert not refuses(decode, FILE)
    assert refuses(decode, data)
