"""The model file: V as float32 in the safetensors format, one tensor named `item_matrix`.

Written and read here, in a few lines, so that a device needs no library for one tensor:
eight bytes (little endian) of header length, a JSON header, the numbers row by row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import ProtocolError
from sottovoce.model.bounds import LEAST_ENTRY, MOST_ENTRY, within_bounds
from sottovoce.protocol import strict

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "item_matrix"
_LONGEST_HEADER = 4096
_ALIGNED = 8
"""The numbers begin at a multiple of this: the header is padded with spaces."""


def encode_items(V: NDArray[np.float32]) -> bytes:
    """The file of a matrix; the same matrix always gives the same bytes."""
    size = 4 * V.size
    tensor = {"dtype": "F32", "shape": list(V.shape), "data_offsets": [0, size]}
    header = json.dumps({NAME: tensor}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNED)
    return len(header).to_bytes(8, "little") + header + V.astype("<f4").tobytes()


def model_size(n_items: int, factors: int) -> int:
    """No file of such a matrix is longer: what a reader may stop at."""
    return 8 + _LONGEST_HEADER + 4 * n_items * factors


def decode_items(data: bytes, n_items: int, factors: int) -> NDArray[np.float32]:
    """The matrix, of this shape and within the public bounds, or a `ProtocolError`."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _LONGEST_HEADER or len(data) < 8 + length:
        raise ProtocolError("model file: its header is missing or too long")
    header = strict.read_object(data[8 : 8 + length], most=_LONGEST_HEADER, what="model file")
    header.pop("__metadata__", None)
    size = 4 * n_items * factors
    wanted = {NAME: {"dtype": "F32", "shape": [n_items, factors], "data_offsets": [0, size]}}
    body = data[8 + length :]
    if header != wanted or _written(header) != _written(wanted) or len(body) != size:
        raise ProtocolError(
            f"model file: not one float32 tensor {NAME!r} of {n_items} x {factors} in {size} bytes"
        )
    V = np.frombuffer(body, dtype="<f4").reshape(n_items, factors).astype(np.float32)
    if not within_bounds(V):
        raise ProtocolError(
            f"model file: an entry is neither 0 nor of a size in {LEAST_ENTRY:g}..{MOST_ENTRY:g}"
        )
    return V


def _written(header: object) -> str:
    """Tells 1, 1.0 and true apart, which are equal in Python."""
    return json.dumps(header, sort_keys=True)
