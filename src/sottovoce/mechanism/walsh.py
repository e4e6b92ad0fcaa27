"""The Walsh-Hadamard transform and the public signs that randomise it.

`H[r, i] = (-1)^popcount(r & i)`, unnormalised: `H H = n I`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


def next_power_of_two(n: int) -> int:
    """The least power of two that is at least `n`.

    >>> [next_power_of_two(n) for n in (1, 2, 3, 9781)]
    [1, 2, 4, 16384]
    """
    return 1 << (n - 1).bit_length()


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


def padded(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """`values` with zeros appended along one axis, up to a power of two."""
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, next_power_of_two(values.shape[axis]) - values.shape[axis])
    return np.pad(values, widths)


def hadamard_signs(rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.float32]:
    """`H[rows, columns]`, broadcast, without building H."""
    odd = np.bitwise_count(np.bitwise_and(rows, columns)) & 1
    return np.where(odd == 1, np.float32(-1), np.float32(1))


def public_signs(seed: int, axis: str, n: int) -> NDArray[np.float32]:
    """`n` signs that everybody can compute from the seed in the manifest.

    Bits of SHA-256(label, axis, seed, block), least significant first; a set bit is -1. SHA-256
    because every client, a browser included, has it.
    """
    prefix = b"sottovoce directions v1\0" + axis.encode() + b"\0" + seed.to_bytes(8, "little")
    blocks = range((n + 255) // 256)
    stream = b"".join(hashlib.sha256(prefix + b.to_bytes(4, "little")).digest() for b in blocks)
    bits = np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little")[:n]
    return np.where(bits == 1, np.float32(-1), np.float32(1))
