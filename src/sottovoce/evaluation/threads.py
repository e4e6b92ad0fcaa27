"""On how many threads compiled loops run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numba

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator


def checked_threads(n: int | None) -> int:
    """As many as were asked for; None: all that numba has."""
    most = int(numba.config.NUMBA_NUM_THREADS)
    if n is not None and not 1 <= n <= most:
        raise SettingsError(f"threads must be from 1 to {most} on this machine, got {n}")
    return n or most


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(n)
    try:
        yield
    finally:
        numba.set_num_threads(before)
