"""The model file, which has the item matrix V in the safetensors format.

The file has one tensor of bfloat16 numbers, named `item_matrix`. It consists of the length of the
header (eight bytes, little endian), the header as JSON, and the numbers, factor by factor. The
format is implemented here, so that a device needs no library to read one tensor.

A training of names changes only the first factor, so most of its next file is in the one before:
the numbers of a factor are neighbours, which makes patches small (`sottovoce.protocol.patch`).
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, is_within_bounds, round_items
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The name of the only tensor in a model file.
TENSOR_NAME = "item_matrix"
_MAX_HEADER_BYTES = 4096
# Bytes of a bfloat16 number.
_BYTES_PER_ENTRY = 2
# The header is padded with spaces, so that the offset of the numbers is a multiple of this.
_ALIGNMENT_BYTES = 8


def encode_items(V: NDArray[np.float32]) -> bytes:
    """Encode an item matrix as a model file. The same matrix always gives the same bytes.

    Raises:
        ProtocolError: An entry was not rounded before (`core.bounds.round_items`).
    """
    # A server must compute with what devices read, so nothing is rounded silently here.
    if not np.array_equal(round_items(V), V):
        raise ProtocolError("model file: each entry must be rounded before")
    header = json.dumps(_describe(*V.shape), separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT_BYTES)
    halves = (V.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype("<u2")
    return len(header).to_bytes(8, "little") + header + halves.tobytes(order="F")


def model_size(n_items: int, factors: int) -> int:
    """Return the largest size, in bytes, of a model file with `n_items` x `factors` numbers."""
    return 8 + _MAX_HEADER_BYTES + _BYTES_PER_ENTRY * n_items * factors


def decode_items(data: bytes, n_items: int, factors: int) -> NDArray[np.float32]:
    """Decode a model file.

    Args:
        data: The bytes of the file.
        n_items: The number of rows that the matrix must have.
        factors: The number of columns that the matrix must have.

    Raises:
        ProtocolError: The file is malformed, the matrix has another shape, or an entry is too large
            or too small (`sottovoce.core.bounds`).
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _MAX_HEADER_BYTES or len(data) < 8 + length:
        raise ProtocolError("model file: its header is missing or too long")
    header = strict.parse_object(
        data[8 : 8 + length], max_bytes=_MAX_HEADER_BYTES, what="model file"
    )
    header.pop("__metadata__", None)
    expected = _describe(n_items, factors)
    size = _BYTES_PER_ENTRY * n_items * factors
    body = data[8 + length :]
    if header != expected or _to_text(header) != _to_text(expected) or len(body) != size:
        raise ProtocolError(
            f"model file: it must have exactly one tensor {TENSOR_NAME!r} of "
            f"{factors} x {n_items} bfloat16 numbers in {size} bytes"
        )
    # The bits of a bfloat16 are the upper ones of the same number in float32.
    halves = np.frombuffer(body, dtype="<u2").reshape(factors, n_items)
    V = (np.ascontiguousarray(halves.T, np.uint32) << np.uint32(16)).view(np.float32)
    if not is_within_bounds(V):
        raise ProtocolError(
            "model file: the absolute value of each entry must be 0 or in "
            f"{MIN_ITEM_ENTRY:g}..{MAX_ITEM_ENTRY:g}"
        )
    return V


def _describe(n_items: int, factors: int) -> dict[str, Any]:
    """Return the header of a model file."""
    size = _BYTES_PER_ENTRY * n_items * factors
    return {TENSOR_NAME: {"dtype": "BF16", "shape": [factors, n_items], "data_offsets": [0, size]}}


def _to_text(header: object) -> str:
    # 1, 1.0 and true are equal in Python, but differ as text.
    return json.dumps(header, sort_keys=True)
