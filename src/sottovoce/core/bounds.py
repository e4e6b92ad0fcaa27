"""Public bounds within which nothing that a device computes from a history can fail.

A device that stopped on a value that is not finite would answer by its silence: a server that
chooses V, alpha and lambda could make exactly those fall silent who touched one item. So whatever
depends on a history must have a result. Two rules are enough:

1. What a server chooses is compared with the bounds below, from public bytes alone, before any
   history is read.
2. A user vector with an entry that is not finite or beyond `MOST_USER_ENTRY` becomes zero: then the
   gradient is zero and its reports are those of somebody without a history. `user_vectors` does it.

From there every value is finite, in float32: with |v| <= 2^20, |x| <= 2^40, alpha <= 2^10, F <= 2^8
and M <= 2^24 a prediction is below 2^68, a residual below 2^79, a gradient entry below 2^120, a
row of a block below 2^89. Float32 ends at 2^128.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

MOST_ITEMS = 2**24
MOST_FACTORS = 2**8
MOST_TOUCHED = 100_000
"""Items of one history, the latest: reading them has its part in the time that a device leaves for
making a batch (`sottovoce.client.timing.lead`), which must not depend on the history."""
MOST_REPORTS = 10_000
"""Of one device in one epoch."""
MOST_DUMMIES = 10_000_000
"""Of a proxy in one epoch: it draws, seals and keeps each of them."""
MOST_ENTRIES = 2**26
"""M F: a model file of 256 MiB."""
MOST_PRODUCTS = 2**32
"""M F^2: multiplications for the normal equations, some seconds; the memory needed is M F."""
MOST_ALPHA = 2.0**10
LEAST_RIDGE, MOST_RIDGE = 1e-12, 1e6
LEAST_ENTRY, MOST_ENTRY = 2.0**-60, 2.0**20
"""Of |V|, where it is not 0: neither an entry nor a product of two is subnormal in float32."""
MOST_USER_ENTRY = 2.0**40


def check_shape(n_items: int, factors: int) -> None:
    """Refuse a model for which a device would need too much memory or time."""
    if not (1 <= n_items <= MOST_ITEMS and 1 <= factors <= MOST_FACTORS):
        raise SettingsError(
            f"a model must have 1..{MOST_ITEMS} items and 1..{MOST_FACTORS} factors, "
            f"not {n_items} x {factors}"
        )
    if n_items * factors > MOST_ENTRIES or n_items * factors**2 > MOST_PRODUCTS:
        raise SettingsError(
            f"{n_items} items with {factors} factors are too many for a device: at most "
            f"{MOST_ENTRIES} entries, and {MOST_PRODUCTS} products of two factors of an item"
        )


def within_bounds(V: NDArray[np.float32]) -> bool:
    """Whether every entry is 0 or of a size that devices can work with."""
    size = np.abs(V)
    return bool(((size == 0) | ((size >= LEAST_ENTRY) & (size <= MOST_ENTRY))).all())


def flushed(V: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same without entries that are all but zero, as a server publishes it."""
    return np.where(np.abs(V) < LEAST_ENTRY, np.float32(0), V)


def usable(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """User vectors, zero where a vector is not finite or too long."""
    fine = (np.abs(X) <= MOST_USER_ENTRY).all(axis=1, keepdims=True)  # a NaN is not
    return np.where(fine, X, np.float32(0))
