"""The kernel's loud directions, one after the other; `make kernels` compiles it for a cache.

There the kernel's parts are compiled already: by itself this takes a quarter of a minute.
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
def listed(a: Float32, x: Float32, count: int, offset: int) -> NDArray[np.int64]:
    """Louder ones by rank, then those that tie."""
    s = select.new_ranks(a.size, x.size)
    least = select.find_loud(a, x, count, s)
    tied = select.list_tied(a, x, least, offset, s)
    above = np.int64(s.ends[-1])
    found = np.empty(above + tied.size, np.int64)
    for rank in range(above):
        found[rank] = select.nth_loud(a, x, least, rank, s)
    found[above:] = tied
    return found[:count]


drop_stale(listed)
