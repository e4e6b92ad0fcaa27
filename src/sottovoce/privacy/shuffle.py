"""The central view: an honest proxy shuffles everybody's reports, and nobody can link two.

`docs/privacy.md` has the proof. Of n people's j-th reports in an epoch, those of the others that
are uniform (a share gamma) are the blanket. Give the rest away. What is left is m = B + 1 reports,
B ~ Bin(n - 1, gamma), one of them the victim's; a of them fall on the loud directions A of one
history, b on those of another. With `E = e^eps` the two histories make this outcome likely as

    Mult(a, b; m, rho, rho) * (m + (E - 1) a)     against     Mult(...) * (m + (E - 1) b)

so the loss is `log((m + (E - 1) a) / (m + (E - 1) b))`. Disjoint loud sets are the worst case, and
a smaller m is worse than a larger one. The pair is composed k T times by privacy loss
distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import expm1, log, log1p, sqrt
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import MissingExtraError, SettingsError
from sottovoce.privacy.events import SIGN, Reporting, checked_delta

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Float64 = NDArray[np.float64]

TAIL = 1e-16
"""The ends of a distribution that are not looked at are no likelier than this."""
UNSEEN = 5 * TAIL
"""Ends of the blanket's size and of the two counts: each counts as a total loss of privacy."""
COARSENESS = 0.004
"""Sizes of the blanket that differ by less than this share are taken together."""
MAX_STEPS = 1 << 22
STEPS_PER_SIGMA = 24
"""How finely one report's loss is discretised; always to the side of caution."""


@dataclass(frozen=True)
class Crowd:
    """Among whom a person hides in each epoch."""

    clients: int
    """n: everybody who reports, the person included."""
    colluding: int = 0
    """Of these, how many are the server's own or show it their reports."""
    seeded_directions: int = 0
    """If the server chose each person's directions: among how many. 0: the client draws them."""
    bundled: bool = False
    """Whether a person's reports arrive together: then nothing hides them."""

    def __post_init__(self) -> None:
        if self.clients < 2:
            raise SettingsError(f"clients must be a whole number of at least 2, got {self.clients}")
        if not 0 <= self.colluding < self.clients:
            raise SettingsError(
                f"colluding must be from 0 to {self.clients - 1}, got {self.colluding}"
            )
        if self.seeded_directions < 0:
            raise SettingsError(
                f"seeded_directions must not be negative, got {self.seeded_directions}"
            )

    @classmethod
    def of(cls, clients: int | None) -> Crowd | None:
        """So many people, or None where there is nobody to hide among."""
        return cls(clients) if clients is not None and clients > 1 else None

    @property
    def honest(self) -> int:
        """The people whose reports hide the victim's, the victim included."""
        others = (self.clients - self.colluding - 1) / max(self.seeded_directions, 1)
        return 1 if self.bundled else 1 + int(others)


def gaussian_mu(event: Reporting, clients: int) -> float:
    """The mu of the Gaussian that this tends to: the whole training in one number.

    `mu^2 = k T (E - 1)^2 * 2 rho gamma / n`, for a sign `2 k T (E - 1)^2 / ((E + 1) n)`.
    """
    shift = expm1(event.epsilon)
    return sqrt(event.total * 2 * event.loud_fraction * event.blanket / clients) * shift


def central_epsilon(event: Reporting, crowd: Crowd, delta: float) -> float:
    """The least epsilon that holds with this delta after the shuffle; never more than local."""
    checked_delta(delta)
    if crowd.honest < 2:
        return event.pure
    one = _one_report(event.epsilon, event.loud_fraction, crowd.honest)
    composed = one if event.total == 1 else one.self_compose(event.total)
    found = float(composed.get_epsilon_for_delta(delta))
    return min(found, event.pure)


@lru_cache(maxsize=64)
def _one_report(epsilon: float, rho: float, honest: int) -> Any:
    """The privacy loss distribution of one report."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as error:
        raise MissingExtraError(
            "central accounting needs dp-accounting: pip install 'sottovoce[sim]'"
        ) from error
    event = Reporting(epsilon, 1, 1, rho)
    step = max(gaussian_mu(event, honest) / STEPS_PER_SIGMA, 2 * epsilon / MAX_STEPS)
    step = min(step, epsilon / 8)
    edges, deltas = hockey_stick(event, honest, step)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, edges, deltas)
    # Swapping the two histories swaps the two sets: one direction is as bad as the other.
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def hockey_stick(event: Reporting, honest: int, step: float) -> tuple[NDArray[np.int64], Float64]:
    """One report's delta at every multiple of `step` that its loss can reach."""
    reach = int(np.ceil(event.epsilon / step)) + 1
    true, other = np.zeros(2 * reach), np.zeros(2 * reach)
    for m, weight in blanket_sizes(event, honest):
        loss, chance = outcomes(event, m)
        bins = np.floor(loss / step).astype(np.int64) + reach
        true += np.bincount(bins, weight * chance, minlength=2 * reach)
        other += np.bincount(bins, weight * chance * np.exp(-loss), minlength=2 * reach)
    edges = np.arange(-reach, reach)
    above, above_other = (np.cumsum(values[::-1])[::-1] for values in (true, other))
    # delta(eps) = sum of P - e^eps Q over larger losses; what was not looked at is all lost.
    deltas = np.maximum(above - np.exp(edges * step) * above_other, 0.0) + UNSEEN
    # Rounding may break the order that these must have.
    return edges, np.minimum(np.maximum.accumulate(deltas[::-1])[::-1], 1.0)


def blanket_sizes(event: Reporting, honest: int) -> list[tuple[int, float]]:
    """How many reports may be left, the victim's among them, and how likely each is.

    Neighbouring sizes are taken together at the smallest of them: whoever sees fewer uniform
    reports could add some themselves.
    """
    blanket = _binomial(honest - 1, event.blanket)
    start, highest = _ends(honest - 1, event.blanket)
    sizes = []
    while start <= highest:
        stop = start + int(COARSENESS * start)
        chance = float(blanket.cdf(stop) - blanket.cdf(start - 1))
        sizes.append((start + 1, chance if stop < highest else float(blanket.sf(start - 1))))
        start = stop + 1
    return sizes


def outcomes(event: Reporting, m: int) -> tuple[Float64, Float64]:
    """Losses when m reports are left, and their chances under the true history."""
    rho, odds = event.loud_fraction, expm1(event.epsilon)
    a = _likely(m, rho)
    if rho == SIGN:
        b, rest = m - a, np.zeros(1, np.int64)
    else:
        a, b = a[:, None], a[None, :]
        rest = np.maximum(m - a - b, 0)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, m + 1)))])
    ways = log_factorial[m] - log_factorial[a] - log_factorial[b] - log_factorial[rest]
    base = ways + (a + b) * log(rho) + (rest * log1p(-2 * rho) if rho < SIGN else 0.0)
    chance = np.where(a + b <= m, np.exp(base) * (m + odds * a), 0.0)
    loss = np.broadcast_to(np.log(m + odds * a) - np.log(m + odds * b), chance.shape)
    # Normalised: the logarithms of large factorials are only good to eleven digits, all alike.
    return loss.ravel(), chance.ravel() / chance.sum()


def _likely(m: int, rho: float) -> NDArray[np.int64]:
    """Counts that m reports may have on a set of share rho; one more for the victim's."""
    lowest, highest = _ends(m, rho)
    return np.arange(lowest, min(m, highest + 1) + 1)


def _ends(n: int, p: float) -> tuple[int, int]:
    """The counts beyond which there is less than `TAIL` on either side."""
    counts = _binomial(n, p)
    if n * p >= 1:
        return int(counts.ppf(TAIL)), int(counts.isf(TAIL))
    # Where hardly anything is expected, scipy's quantile does not converge (epsilon 30 and more).
    return 0, next(count for count in range(n + 1) if counts.sf(count) <= TAIL)


def _binomial(n: int, p: float) -> Any:
    from scipy import stats  # half a second to import: only whoever accounts should wait for it

    return stats.binom(n, p)
