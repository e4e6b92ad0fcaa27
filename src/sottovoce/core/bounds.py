"""Public bounds within which nothing that a device computes from a history can fail.

A device that stopped at a value that is not finite would reveal something by its silence: a server
that chooses V, alpha and lambda could silence exactly the devices of people who touched a certain
item. So every computation that depends on a history must have a result. Two rules are enough:

1. A device checks the values that a server chooses against the bounds below, before it reads any
   history. Only public bytes decide whether the check fails.
2. A user vector with an entry that is not finite, or beyond `MAX_USER_ENTRY`, becomes zero. Then
   the gradient is zero, and reports are those of somebody without a history.
   `solve_user_vectors` does this.

After these two rules, every value is finite in float32, which ends at 2^128. Let v be an entry of
V, x an entry of a user vector, F the number of factors and M the number of items. With |v| <= 2^20,
|x| <= 2^40, alpha <= 2^10, F <= 2^8 and M <= 2^24, a prediction is below 2^68, a residual below
2^79, a gradient entry below 2^120, and an entry of `a` (`sottovoce.core.blocks`) below 2^89.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

MAX_ITEMS = 2**24
MAX_FACTORS = 2**8
# Items in one history. A longer history loses its earliest items. The time that a device allows for
# making a batch (`sottovoce.client.timing.compute_lead`) must not depend on the history. It is long
# enough for a history of this many items.
MAX_HISTORY_ITEMS = 100_000
# Reports of one device in one epoch.
MAX_REPORTS = 10_000
# Dummies of a proxy in one epoch. The proxy draws, seals and stores each of them.
MAX_DUMMIES = 10_000_000
# Entries of V: items x factors. A model file of this size has 128 MiB.
MAX_MODEL_ENTRIES = 2**26
# Multiplications for the normal equations: items x factors^2. They take some seconds, and
# memory for items x factors numbers.
MAX_FACTOR_PRODUCTS = 2**32
# Alpha of the confidence `1 + alpha p`.
MAX_ALPHA = 2.0**10
# Lambda of the users' equations.
MIN_RIDGE = 1e-12
MAX_RIDGE = 1e6
# |entry| of V, unless it is 0. The minimum is such that neither an entry nor a product of two
# entries is subnormal in float32.
MIN_ITEM_ENTRY = 2.0**-60
MAX_ITEM_ENTRY = 2.0**20
# |entry| of a user vector.
MAX_USER_ENTRY = 2.0**40


def check_shape(n_items: int, factors: int) -> None:
    """Raise SettingsError if a device would need too much memory or time for this model."""
    if not (1 <= n_items <= MAX_ITEMS and 1 <= factors <= MAX_FACTORS):
        raise SettingsError(
            f"a model must have 1..{MAX_ITEMS} items and 1..{MAX_FACTORS} factors, "
            f"not {n_items} x {factors}"
        )
    if n_items * factors > MAX_MODEL_ENTRIES or n_items * factors**2 > MAX_FACTOR_PRODUCTS:
        raise SettingsError(
            f"{n_items} items with {factors} factors are too many for a device: at most "
            f"{MAX_MODEL_ENTRIES} entries (items x factors) and {MAX_FACTOR_PRODUCTS} products "
            "(items x factors^2) are possible"
        )


def is_within_bounds(V: NDArray[np.float32]) -> bool:
    """Return whether every entry of V is 0 or has a size that devices accept."""
    size = np.abs(V)
    return bool(((size == 0) | ((size >= MIN_ITEM_ENTRY) & (size <= MAX_ITEM_ENTRY))).all())


def round_items(V: NDArray[np.floating]) -> NDArray[np.float32]:
    """Round V to bfloat16, ties to even, as a server does before it publishes V.

    Entries below `MIN_ITEM_ENTRY` become 0. A bfloat16 is the upper half of a float32.
    """
    bits = np.where(np.abs(V) < MIN_ITEM_ENTRY, 0, V).astype(np.float32).view(np.uint32)
    is_odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + is_odd) & np.uint32(0xFFFF0000)
    return np.asarray(rounded.view(np.float32))


def zero_unusable_vectors(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Replace user vectors that are not finite or too large by zero vectors."""
    # A NaN compares as False.
    is_usable = (np.abs(X) <= MAX_USER_ENTRY).all(axis=1, keepdims=True)
    return np.where(is_usable, X, np.float32(0))
