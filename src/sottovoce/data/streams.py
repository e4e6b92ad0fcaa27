"""Seeded random streams, one for each purpose.

Every stream is numpy's Philox with a 128-bit key: the low word is the seed, the high word spells
the purpose in ASCII ("sv/split", "sv/users", ...). So two purposes have different streams for
every seed, and no other key in the project spells these words.
"""

import numpy as np

from sottovoce.errors import SettingsError

# Seeds are below this number.
_SEED_LIMIT = 1 << 64


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return the random generator for one purpose.

    Args:
        seed: The seed that the user chose.
        purpose: A word of at most 5 letters.
        counter: Number of an independent part of the stream.

    >>> a, b = stream(7, "split"), stream(7, "split")
    >>> bool(a.random() == b.random())
    True
    """
    if not 0 <= seed < _SEED_LIMIT:
        raise SettingsError(f"the seed must be from 0 to 2^64 - 1, not {seed}")
    word = int.from_bytes(f"sv/{purpose:<5}".encode("ascii"), "big")
    # The counter's top word separates the parts: each part could draw 2^192 blocks.
    philox = np.random.Philox(key=seed | word << 64, counter=counter << 192)
    return np.random.Generator(philox)
