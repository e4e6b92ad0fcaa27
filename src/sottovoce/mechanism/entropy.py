"""Where a live client's random words come from: the operating system, and nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism.base import WORDS_PER_DRAW

if TYPE_CHECKING:
    from numpy.typing import NDArray


def os_words(n_users: int, reports: int) -> NDArray[np.uint64]:
    """What `Mechanism.reports` takes: N x (k + 1) x 4 words, asked for anew every time.

    Nothing is buffered or seeded, so a forked process never repeats its parent's words.
    """
    shape = (n_users, reports + 1, WORDS_PER_DRAW)
    size = n_users * (reports + 1) * WORDS_PER_DRAW
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64).reshape(shape)
