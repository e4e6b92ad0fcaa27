"""Seeded random streams, one for each purpose.

Every stream is numpy's Philox generator with a 128-bit key: the low 64 bits are the seed, the high
64 bits are the purpose in ASCII ("sv/split", "sv/users", ...). So the streams of two purposes
differ for every seed, and also differ from all other generators of the project.
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
        counter: Number of the part to return. A stream consists of independent parts.

    >>> a, b = stream(7, "split"), stream(7, "split")
    >>> bool(a.random() == b.random())
    True
    """
    if not 0 <= seed < _SEED_LIMIT:
        raise SettingsError(f"the seed must be from 0 to 2^64 - 1, not {seed}")
    word = int.from_bytes(f"sv/{purpose:<5}".encode("ascii"), "big")
    # The highest word of Philox's counter separates the parts, so each has 2^192 blocks to draw.
    philox = np.random.Philox(key=seed | word << 64, counter=counter << 192)
    return np.random.Generator(philox)
