"""`coordinate`: the paper's Algorithm 1, which rounds one clipped gradient entry to one bit."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import tanh
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import coin
from sottovoce.core.histories import Histories
from sottovoce.core.mechanism import (
    COIN_WORD,
    DIRECTION_WORD,
    ROUNDING_WORD,
    SignMechanism,
    compute_sign_densities,
    pack_reports,
)
from sottovoce.core.model import compute_gradients, compute_residuals, predict

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


class CoordinateConstants(NamedTuple):
    """The input of `coordinate` kernels."""

    threshold: np.uint64
    """Words below this flip the sign."""


@dataclass(frozen=True)
class Coordinate(SignMechanism):
    """The mechanism that reports a uniformly drawn entry (i, f) of the gradient, index `i * F + f`.

    The value `v`, clipped to [-1, 1], is rounded to a sign with P[+] = (1 + v) / 2. The sign is
    kept with probability e^eps / (1 + e^eps). The two draws together have the distribution of
    Algorithm 1's Bernoulli draw. But only the second draw carries epsilon, so its probability can
    be exact and does not depend on the data.
    """

    name: ClassVar[str] = "coordinate"
    is_planned: ClassVar[bool] = False
    # The settings of the paper: learning rate 1e-3, 20 steps in each epoch with the same reports,
    # lambda 1e-6, F = 5. The paper does not state the scale of the first V. Results with 0.3 come
    # nearest to its Table 4, with a mean difference of 0.010
    # (lab/docs/report.md#the-scale-at-which-the-paper-begins).
    preset_settings: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 1e-3,
        "steps": 20,
        "rate_grows_with_reports": True,
        "initial_scale": 0.3,
        "head_start": 0.0,
        "rotate": False,
    }

    @property
    def n_directions(self) -> int:
        return self.shape.n_items * self.shape.factors

    @property
    def bound(self) -> float:
        """The paper's B: each report counts as +B or -B, so that the estimated mean is unbiased."""
        return self.n_directions / tanh(self.epsilon / 2)

    def reports(
        self, V: Float32, X: Float32, histories: Histories, random_words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = random_words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION_WORD], self.n_directions)
        value = self._values(V, X, histories, index)
        plus = coin.to_unit_floats(draws[..., ROUNDING_WORD]) < (1.0 + value) / 2.0
        flip = draws[..., COIN_WORD] < np.uint64(self.flip_below)
        return pack_reports(index, plus ^ flip)

    def _values(
        self, V: Float32, X: Float32, histories: Histories, index: Int64
    ) -> NDArray[np.float64]:
        """Return `clip(-2 c_i (p_i - x.v_i) x_f)` at the drawn entries, N x k."""
        item, factor = np.divmod(index, self.shape.factors)
        users = np.arange(len(X))[:, None]
        p = _is_touched(histories, users, item).astype(np.float32)
        c = np.float32(1) + np.float32(self.shape.alpha) * p
        e = c * (p - predict(X[:, None, :], V[item]))
        g = (np.float32(-2) * e) * X[users, factor]
        return np.asarray(np.clip(g, -1, 1), dtype=np.float64)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        e = compute_residuals(V, X, histories, alpha=self.shape.alpha)
        values = np.clip(compute_gradients(e, X), -1, 1).reshape(histories.n_users, -1)
        return compute_sign_densities(np.float32(tanh(self.epsilon / 2)) * values)

    def constants(self, V: Float32) -> CoordinateConstants:  # noqa: ARG002
        return CoordinateConstants(np.uint64(self.flip_below))

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """Estimate the mean clipped gradient without bias."""
        # This is a mean over reports; the paper divides by the number of users.
        mean = sums.astype(np.float64) * (self.bound / max(n_reports, 1))
        return mean.reshape(self.shape.n_items, self.shape.factors)


def _is_touched(histories: Histories, users: Int64, items: Int64) -> NDArray[np.bool_]:
    # Entries are sorted by user and item, so these keys ascend.
    keys = histories.users_of_entries() * histories.n_items + histories.indices
    queries = users * histories.n_items + items
    if not len(keys):
        return np.zeros(queries.shape, np.bool_)
    positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.asarray(keys[positions] == queries)
