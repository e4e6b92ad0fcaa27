"""The one interface behind which engines are swapped, never the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Collected:
    """All that the server learns of one epoch."""

    sums: NDArray[np.int64]
    """Sum of signs by direction."""
    n_reports: int


class Engine(Protocol):
    """Everybody's devices at once. The same settings give the same bits on every engine."""

    def collect(self, V: NDArray[np.float32], epoch: int) -> Collected:
        """Every user's reports of one epoch (counted from 0), added up."""

    def reports(self, V: NDArray[np.float32], epoch: int) -> NDArray[np.uint32]:
        """The same reports one by one, N x k: for inspection and tests."""

    def user_vectors(self, V: NDArray[np.float32]) -> NDArray[np.float32]:
        """Every user's vector, N x F."""
