"""The model file: V as float32 in the safetensors format, one tensor named `item_matrix`.

Implemented here so that a device needs no library for one tensor. The file consists of eight bytes
(little endian) with the length of the header, a JSON header, and the numbers row by row.
"""

import json

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, is_within_bounds
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The only tensor of a model file.
TENSOR_NAME = "item_matrix"
_MAX_HEADER_BYTES = 4096
# The numbers begin at a multiple of this: the header is padded with spaces.
_ALIGNMENT_BYTES = 8


def encode_items(V: NDArray[np.float32]) -> bytes:
    """Encode a matrix; the same matrix always gives the same bytes."""
    size = 4 * V.size
    tensor = {"dtype": "F32", "shape": list(V.shape), "data_offsets": [0, size]}
    header = json.dumps({TENSOR_NAME: tensor}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT_BYTES)
    return len(header).to_bytes(8, "little") + header + V.astype("<f4").tobytes()


def model_size(n_items: int, factors: int) -> int:
    """Return the largest size of a file with a matrix of this shape."""
    return 8 + _MAX_HEADER_BYTES + 4 * n_items * factors


def decode_items(data: bytes, n_items: int, factors: int) -> NDArray[np.float32]:
    """Decode a matrix.

    Raises:
        ProtocolError: The file is malformed, or the matrix has another shape or exceeds the public
            bounds.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _MAX_HEADER_BYTES or len(data) < 8 + length:
        raise ProtocolError("model file: its header is missing or too long")
    header = strict.parse_object(
        data[8 : 8 + length], max_bytes=_MAX_HEADER_BYTES, what="model file"
    )
    header.pop("__metadata__", None)
    size = 4 * n_items * factors
    expected = {
        TENSOR_NAME: {"dtype": "F32", "shape": [n_items, factors], "data_offsets": [0, size]}
    }
    body = data[8 + length :]
    if header != expected or _to_text(header) != _to_text(expected) or len(body) != size:
        raise ProtocolError(
            f"model file: not one float32 tensor {TENSOR_NAME!r} of {n_items} x {factors} in "
            f"{size} bytes"
        )
    V = np.frombuffer(body, dtype="<f4").reshape(n_items, factors).astype(np.float32)
    if not is_within_bounds(V):
        raise ProtocolError(
            "model file: an entry is neither 0 nor of a size in "
            f"{MIN_ITEM_ENTRY:g}..{MAX_ITEM_ENTRY:g}"
        )
    return V


def _to_text(header: object) -> str:
    # As text 1, 1.0 and true differ, which are equal in Python.
    return json.dumps(header, sort_keys=True)
