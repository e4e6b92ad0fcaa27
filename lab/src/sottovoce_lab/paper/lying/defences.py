"""What a server can do against liars whom it cannot tell from honest people.

`caps` is what the live server does (`sottovoce.training.counts`). The other two are measured here
and are no part of it.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.streams import stream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

Defence = Literal["none", "caps", "rows", "medians"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
TIMES = 1.0
"""A row moves at most so many times as far as the median row.

The least of 1, 1.5 and 3, none of which cost our methods any HR@10 on seed 1000.
"""
GROUPS = 5
"""Sub-crowds whose median estimate counts."""


def limited(estimate: Float64, times: float = TIMES) -> Float64:
    """No row longer than so many times the median row; a longer one keeps its direction.

    >>> limited(np.array([[1.0], [2.0], [-9.0]]), times=2.0).ravel().tolist()
    [1.0, 2.0, -4.0]
    """
    return shortened(estimate, times * float(np.median(np.linalg.norm(estimate, axis=1))))


def shortened(rows: Float64, most: float) -> Float64:
    """No row longer than this; a longer one keeps its direction."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, most / np.maximum(lengths, 1e-300)))


def groups(people: int, seed: int, epoch: int, n_groups: int = GROUPS) -> Int64:
    """The sub-crowd of each person in an epoch: of equal sizes, drawn anew.

    A proxy would have to draw it: a server does not know which reports are one person's.
    """
    return stream(seed, "group", epoch).permutation(np.arange(people) % n_groups)
