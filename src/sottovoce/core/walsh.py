"""The Walsh-Hadamard transform, and the public signs that randomise it.

`H[r, i] = (-1)^popcount(r & i)`, not normalised: for n rows, `H H = n I`.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def transform(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return `H values` along one axis, whose length is a power of two.

    Butterflies are added step by step, beginning with those of the lowest bit, so that rounding is
    the same on every machine.
    """
    out = np.moveaxis(values, axis, -1).copy()
    n, half = out.shape[-1], 1
    while half < n:
        pairs = out.reshape(*out.shape[:-1], n // (2 * half), 2, half)
        low, high = pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]
        out = np.stack([low, high], axis=-2).reshape(out.shape)
        half *= 2
    return np.moveaxis(out, -1, axis)


def compute_hadamard_signs(
    rows: NDArray[np.integer], columns: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return the entries `H[rows, columns]` without building H; the indices are broadcast."""
    odd = np.bitwise_count(np.bitwise_and(rows, columns)) & 1
    return np.where(odd == 1, np.float32(-1), np.float32(1))


def compute_public_signs(seed: int, n: int) -> NDArray[np.float32]:
    """Derive `n` signs from the public seed in the manifest."""
    stream = np.frombuffer(compute_public_stream(seed, "signs", -(-n // 8)), np.uint8)
    bits = np.unpackbits(stream, bitorder="little")[:n]
    return np.where(bits == 1, np.float32(-1), np.float32(1))


def compute_public_stream(seed: int, use: str, n_bytes: int) -> bytes:
    """Derive public bytes from a seed: SHA-256(label, use, seed, counter), concatenated."""
    # SHA-256 is used because every client has it, browsers included.
    prefix = b"sottovoce directions v2\0" + use.encode() + b"\0" + seed.to_bytes(8, "little")
    counters = range(-(-n_bytes // 32))
    digests = (hashlib.sha256(prefix + i.to_bytes(4, "little")).digest() for i in counters)
    return b"".join(digests)[:n_bytes]
