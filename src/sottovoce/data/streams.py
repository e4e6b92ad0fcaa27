"""Seeded random streams of the data layer, one for each purpose.

Every stream is numpy's Philox with a 128-bit key: the low word is the user's seed, the high word
spells the purpose in ASCII ("sv/split", "sv/users", ...). Two purposes never share a number,
whatever the seed, and nothing else in the project uses keys that spell these words.
"""

import numpy as np

from sottovoce.errors import SettingsError

_WORD = 1 << 64


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """The generator of one purpose (at most 5 letters); `counter` picks an independent part.

    >>> a, b = stream(7, "split"), stream(7, "split")
    >>> bool(a.random() == b.random())
    True
    """
    if not 0 <= seed < _WORD:
        raise SettingsError(f"the seed must be from 0 to 2^64 - 1, got {seed}")
    word = int.from_bytes(f"sv/{purpose:<5}".encode("ascii"), "big")
    # The counter's top word separates the parts: each part could draw 2^192 blocks.
    philox = np.random.Philox(key=seed | word << 64, counter=counter << 192)
    return np.random.Generator(philox)
