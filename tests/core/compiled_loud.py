"""The loud directions of the compiled kernel; `make kernels` compiles this module, too.

It takes 15 seconds to compile by itself, and less where the kernel's parts are compiled already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.kernels import select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]


@njit(cache=True, error_model="numpy")
def list_loud(a: Float32, x: Float32, count: int, offset: int) -> NDArray[np.int64]:
    """Return the directions above the threshold by rank, then those at it."""
    s = select.make_selection(a.size, x.size)
    threshold = select.find_loud(a, x, count, s)
    tied = select.list_tied(a, x, threshold, offset, s)
    n_above = np.int64(s.group_ends[-1])
    directions = np.empty(n_above + tied.size, np.int64)
    for rank in range(n_above):
        directions[rank] = select.get_nth_loud(a, x, threshold, rank, s)
    directions[n_above:] = tied
    return directions[:count]


drop_stale(list_loud)
