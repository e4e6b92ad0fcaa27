"""`coordinate`: the paper's Algorithm 1, one clipped gradient entry rounded to one bit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import tanh
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import coin
from sottovoce.mechanism.base import (
    CHOICE,
    COIN,
    DIRECTION,
    Shape,
    check_directions,
    check_finite,
    pack,
)
from sottovoce.model import predictions
from sottovoce.privacy import SIGN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories


@dataclass(frozen=True)
class Coordinate:
    """A uniformly drawn entry (i, f) of the gradient, index `i * F + f`.

    The value `v`, clipped to [-1, 1], is rounded to a sign with P[+] = (1 + v) / 2, and the sign is
    kept with probability e^eps / (1 + e^eps). Together that is Algorithm 1's Bernoulli, but only
    the last coin carries epsilon, so it can be exact and blind to the data.
    """

    shape: Shape
    epsilon: float
    name: str = "coordinate"

    def __post_init__(self) -> None:
        coin.checked_epsilon(self.epsilon)
        check_directions(self.n_directions)

    @property
    def n_directions(self) -> int:
        """M * F."""
        return self.shape.n_items * self.shape.factors

    @property
    def loud_fraction(self) -> float:
        """One of the two signs at each index."""
        return SIGN

    @cached_property
    def flip_below(self) -> int:
        """Words below this flip the sign."""
        return coin.flip_threshold(self.epsilon)

    @property
    def bound(self) -> float:
        """The paper's B: what one report stands for, so that the mean is unbiased."""
        return self.n_directions / tanh(self.epsilon / 2)

    def reports(
        self,
        V: NDArray[np.float32],
        X: NDArray[np.float32],
        histories: Histories,
        words: NDArray[np.uint64],
    ) -> NDArray[np.uint32]:
        """See `Mechanism.reports`."""
        draws = words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION], self.n_directions)
        value = self._values(V, X, histories, index)
        plus = coin.unit(draws[..., CHOICE]) < (1.0 + value) / 2.0
        flip = draws[..., COIN] < np.uint64(self.flip_below)
        return pack(index, plus ^ flip)

    def _values(
        self,
        V: NDArray[np.float32],
        X: NDArray[np.float32],
        histories: Histories,
        index: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """`clip(-2 c_i (p_i - x.v_i) x_f)` at the drawn entries alone, N x k."""
        item, factor = np.divmod(index, self.shape.factors)
        users = np.arange(len(X))[:, None]
        p = _touched(histories, users, item).astype(np.float32)
        c = np.float32(1) + np.float32(self.shape.alpha) * p
        e = c * (p - predictions(X[:, None, :], V[item]))
        g = (np.float32(-2) * e) * X[users, factor]
        check_finite(g, "a gradient entry")
        return np.asarray(np.clip(g, -1, 1), dtype=np.float64)

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """Unbiased for the mean clipped gradient: over *reports*, where the paper has users."""
        mean = sums.astype(np.float64) * (self.bound / max(n_reports, 1))
        return mean.reshape(self.shape.n_items, self.shape.factors)


def _touched(
    histories: Histories, users: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each user touched each item."""
    known = histories.users_of_entries() * histories.n_items + histories.indices
    wanted = users * histories.n_items + items
    if not len(known):
        return np.zeros(wanted.shape, np.bool_)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[place] == wanted)
