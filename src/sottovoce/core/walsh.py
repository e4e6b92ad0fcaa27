"""The Walsh-Hadamard transform and the public signs that randomise it.

`H[r, i] = (-1)^popcount(r & i)`, unnormalised: `H H = n I`.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def transform(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """`H values` along one axis whose length is a power of two; the lowest bit is done first.

    Butterfly by butterfly and element by element, so the rounding is the same wherever it runs.
    """
    out = np.moveaxis(values, axis, -1).copy()
    n, half = out.shape[-1], 1
    while half < n:
        pairs = out.reshape(*out.shape[:-1], n // (2 * half), 2, half)
        low, high = pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]
        out = np.stack([low, high], axis=-2).reshape(out.shape)
        half *= 2
    return np.moveaxis(out, -1, axis)


def hadamard_signs(rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.float32]:
    """`H[rows, columns]`, broadcast, without building H."""
    odd = np.bitwise_count(np.bitwise_and(rows, columns)) & 1
    return np.where(odd == 1, np.float32(-1), np.float32(1))


def public_signs(seed: int, n: int) -> NDArray[np.float32]:
    """`n` signs that everybody can compute from the seed in the manifest; a set bit is -1."""
    stream = np.frombuffer(public_stream(seed, "signs", -(-n // 8)), np.uint8)
    bits = np.unpackbits(stream, bitorder="little")[:n]
    return np.where(bits == 1, np.float32(-1), np.float32(1))


def public_stream(seed: int, use: str, n_bytes: int) -> bytes:
    """Bytes that everybody can compute: SHA-256(label, use, seed, number), one after the other.

    SHA-256 because every client, a browser included, has it.
    """
    prefix = b"sottovoce directions v2\0" + use.encode() + b"\0" + seed.to_bytes(8, "little")
    numbers = range(-(-n_bytes // 32))
    digests = (hashlib.sha256(prefix + i.to_bytes(4, "little")).digest() for i in numbers)
    return b"".join(digests)[:n_bytes]
