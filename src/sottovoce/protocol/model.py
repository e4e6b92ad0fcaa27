"""The model file, which has the item matrix V in the safetensors format.

The file has one float32 tensor, named `item_matrix`. It consists of the length of the header (eight
bytes, little endian), the header as JSON, and the numbers row by row. The format is implemented
here, so that a device needs no library to read one tensor.
"""

import json

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, is_within_bounds
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The name of the only tensor in a model file.
TENSOR_NAME = "item_matrix"
_MAX_HEADER_BYTES = 4096
# The header is padded with spaces, so that the offset of the numbers is a multiple of this.
_ALIGNMENT_BYTES = 8


def encode_items(V: NDArray[np.float32]) -> bytes:
    """Encode an item matrix as a model file. The same matrix always gives the same bytes."""
    size = 4 * V.size
    tensor = {"dtype": "F32", "shape": list(V.shape), "data_offsets": [0, size]}
    header = json.dumps({TENSOR_NAME: tensor}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT_BYTES)
    return len(header).to_bytes(8, "little") + header + V.astype("<f4").tobytes()


def model_size(n_items: int, factors: int) -> int:
    """Return the largest size, in bytes, of a model file with `n_items` x `factors` numbers."""
    return 8 + _MAX_HEADER_BYTES + 4 * n_items * factors


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
    size = 4 * n_items * factors
    expected = {
        TENSOR_NAME: {"dtype": "F32", "shape": [n_items, factors], "data_offsets": [0, size]}
    }
    body = data[8 + length :]
    if header != expected or _to_text(header) != _to_text(expected) or len(body) != size:
        raise ProtocolError(
            f"model file: it must have exactly one float32 tensor {TENSOR_NAME!r} of "
            f"{n_items} x {factors} numbers in {size} bytes"
        )
    V = np.frombuffer(body, dtype="<f4").reshape(n_items, factors).astype(np.float32)
    if not is_within_bounds(V):
        raise ProtocolError(
            "model file: the absolute value of each entry must be 0 or in "
            f"{MIN_ITEM_ENTRY:g}..{MAX_ITEM_ENTRY:g}"
        )
    return V


def _to_text(header: object) -> str:
    # 1, 1.0 and true are equal in Python, but differ as text.
    return json.dumps(header, sort_keys=True)
