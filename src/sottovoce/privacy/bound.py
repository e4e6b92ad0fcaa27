"""A light upper bound of the central epsilon, for promises: of a device, a page, any language.

`shuffle.py` finds the central epsilon by composing loss distributions. This bound needs nothing but
elementary functions, gives the same digits everywhere (`tests/vectors/promises.json`) and lies at
most about a tenth above. The pair of laws is that of `shuffle.py`; `docs/privacy.md` proves that it
is the worst. With E = e^eps, c = E - 1 and gamma = 1 / (1 + rho c), one round is:

1.  Blanket. B ~ Bin(n - 1, gamma) reports of others are uniform, and so are D dummies of the proxy;
    m = B + D + 1. A smaller m is worse, so neighbouring B are taken together at the smallest.
2.  Count. Of these B + D, g ~ Bin(B + D, 2 rho) fall on the loud directions A of one history or A'
    of the other, and the victim's report does with chance 1 - gamma (1 - 2 rho), whichever is true.
    In all s = g + (0 or 1).
3.  Difference. Averaged over the two histories, v = (number in A) - (number in A') is the sum of s
    fair signs. The two histories make it 1 + t and 1 - t times as likely as that average,

        t = (c v / 2) / (m + c s / 2) = tanh(loss / 2),    loss = log1p(c v / (m + c (s - v) / 2)).

    Neighbouring s, s1 to s2, are taken together: s1 in these formulas, s2 signs in v. Both make it
    worse: a larger t, and a sum of more signs, which a convex even function of t does not like.
4.  Grid. Losses are put onto the points 0 and eps * q^-j. A loss between two points is split so
    that the mean of t stays: x to the upper one, 1 - x to the lower,

        x = sinh((loss - low) / 2) cosh(high / 2) / (sinh((high - low) / 2) cosh(loss / 2)).

    A spread with the same mean is worse for every convex function of t.
5.  Moment. For an order alpha > 1 the weights w of the grid give

        M = sum of w (2 sinh^2((alpha - 1) loss / 2) + tanh(loss / 2) sinh((alpha - 1) loss)),

    and log(1 + M) / (alpha - 1) is the Renyi divergence of one round. Divergences of rounds add up,
    whatever their kinds and their order: R = sum of rounds * log1p(M) over all groups of one kind.
6.  Conversion (Canonne, Kamath and Steinke 2020, proposition 12): for every alpha

        eps(alpha) = R / (alpha - 1) + log(1 - 1/alpha) - log(delta' alpha) / (alpha - 1).

    The least of them over a fixed list of orders is a bound; so is the sum of all epsilons.

delta' is delta less what was not looked at. Binomials are cut where Bernstein's inequality leaves a
chance of at most `tail = 2 e^-spread`, three of them in each round, together `UNSEEN` of delta. And
a share of delta may be spent on the largest losses as if these revealed everything: small blankets
are rare but reveal much. Each of `SPENT` is tried, in equal parts for all groups, and the best one
counts.

A group with nobody to hide among, and all beyond the `MOST_GROUPS` that cost most, count at their
pure epsilon: their losses never exceed it, so it is added to the epsilon of the others at the same
delta.
"""

from collections.abc import Sequence
from math import ceil, expm1, floor, log, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.events import Reporting, checked_delta

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

UNSEEN = 1e-3
"""The share of delta that the ends of the binomials are cut for."""
SPENT = (0.0, 0.01, 0.05, 0.1, 0.4, 0.7)
"""Shares of delta that may be spent on the largest losses."""
COARSENESS = 0.005
"""Sizes that differ by less than this share are taken together."""
RATIO, POINTS = 1.025, 800
"""Of the grid of losses: q, and how many points besides 0 and eps."""
ORDERS = 1 + 0.01 * 1.1 ** np.arange(270.0)
MOST_GROUPS = 8
"""So many are composed: a server that changes its terms in every epoch keeps no device busy."""


class Group(NamedTuple):
    """Reports of one kind, each mixed with those of others."""

    event: Reporting
    clients: int
    """Honest ones, the device itself included."""

    @property
    def is_hidden(self) -> bool:
        """Whether there is anything to hide among."""
        return self.clients > 1 or self.event.cover > 0


def central_bound(groups: Sequence[Group], delta: float) -> float:
    """An epsilon that holds with this delta for all groups together, if all reports are shuffled.

    >>> strong = Group(Reporting(5.0, 1, 2, 0.0318), clients=50_000)
    >>> round(central_bound([strong], 1e-6), 3)
    0.427
    """
    checked_delta(delta)
    dearest = sorted(groups, key=lambda each: (each.is_hidden, each.event.pure), reverse=True)
    hidden = [each for each in dearest[:MOST_GROUPS] if each.is_hidden]
    pure, rest = _pure(dearest), _pure(dearest[len(hidden) :])
    return min(pure, rest + _composed(hidden, delta)) if hidden else pure


def _pure(groups: Sequence[Group]) -> float:
    return sum(event.pure for event, _ in groups)


def _composed(groups: Sequence[Group], delta: float) -> float:
    """Steps 5 and 6: the best way to spend delta counts."""
    rounds = sum(event.total for event, _ in groups)
    spread = log(2 * 3 * rounds / UNSEEN) - log(delta)
    seen = [_Seen.of(group, spread) for group in groups]
    found = []
    for share in SPENT:
        logs, spent = zip(
            *(each.but_for(share * delta / len(groups)) for each in seen), strict=True
        )
        left = (1 - UNSEEN) * delta - sum(spent)
        found.append(renyi_epsilon(np.sum(logs, axis=0), left, ORDERS))
    return min(found)


class _Seen(NamedTuple):
    """One group's losses."""

    rounds: int
    weights: Float64
    moments: Float64

    @classmethod
    def of(cls, group: Group, spread: float) -> Self:
        weights = _histogram(*group, spread)
        return cls(group.event.total, weights, moments(_points(group.event.epsilon), ORDERS))

    def but_for(self, most: float) -> tuple[Float64, float]:
        """The logarithms of all its moments, less losses that are no likelier, and how likely."""
        # A loss so large, in any of the rounds.
        above = float(self.rounds) * np.cumsum(self.weights[::-1])[::-1]
        kept = above > most
        seen = kept & (self.weights > 0)
        logs = float(self.rounds) * np.log1p(self.moments[:, seen] @ self.weights[seen])
        return logs, float(above[~kept].max(initial=0.0))


def _blankets(event: Reporting, clients: int, spread: float) -> tuple[Int64, Float64]:
    """Sizes m, ascending, and their chances; step 1."""
    uniform, chances = _binomial(clients - 1, event.blanket, spread)
    uniform = uniform + event.cover
    starts = _group_starts(int(uniform[0]), int(uniform[-1]), spread)
    return starts + 1, np.add.reduceat(chances, starts - uniform[0])


def _histogram(event: Reporting, clients: int, spread: float) -> Float64:
    """The weights of the grid's points; steps 1 to 4."""
    sizes, chances = _blankets(event, clients, spread)
    starts = _group_starts(0, int(sizes[-1]), spread)
    stops = np.append(starts[1:], sizes[-1] + 1)
    counts = [_counts(event, int(m) - 1, starts, spread) for m in sizes]
    weights = chances[:, None] * np.array(counts)
    points = _points(event.epsilon)
    out = np.zeros(len(points))
    for group in np.flatnonzero(weights.any(axis=0)):
        rows, most = np.flatnonzero(weights[:, group]), int(stops[group]) - 1
        signs, chance = _binomial(most, 0.5, spread)
        loss = _loss(event, sizes[rows, None], int(starts[group]), np.abs(2 * signs - most))
        weight = weights[rows, group, None] * chance
        lower, up = _split(points, loss)
        for index, share in ((lower, 1 - up), (lower + 1, up)):
            out += np.bincount(index.ravel(), (weight * share).ravel(), minlength=len(out))
    return out


def _counts(event: Reporting, others: int, starts: Int64, spread: float) -> Float64:
    """The chance of each group of s among so many others; step 2."""
    rho = event.loud_fraction
    hit = 1 - event.blanket * (1 - 2 * rho)
    counts, chances = _binomial(others, 2 * rho, spread)
    chances = np.convolve(chances, [1 - hit, hit])
    reached = np.arange(counts[0], counts[-1] + 2)
    groups = np.searchsorted(starts, reached, side="right") - 1
    return np.bincount(groups, chances, minlength=len(starts)).astype(np.float64)


def _loss(event: Reporting, m: Int64, s: int, v: Int64) -> Float64:
    """Step 3."""
    odds = expm1(event.epsilon)
    loss: Float64 = np.log1p(odds * v / (m + odds * (s - v) / 2))
    return loss


def _points(epsilon: float) -> Float64:
    return np.concatenate([[0.0], epsilon * RATIO ** np.arange(-float(POINTS), 1.0)])


def _split(points: Float64, loss: Float64) -> tuple[Int64, Float64]:
    """The point below each loss, and the share that goes to the one above; step 4."""
    with np.errstate(divide="ignore"):
        steps = np.floor(np.log(loss / points[-1]) / log(RATIO))
    lower = np.clip(steps + POINTS + 1, 0, POINTS).astype(np.int64)
    low, high = points[lower], points[lower + 1]
    rise = np.sinh((loss - low) / 2) / np.cosh(loss / 2)
    return lower, rise * np.cosh(high / 2) / np.sinh((high - low) / 2)


def moments(loss: Float64, orders: Float64) -> Float64:
    """What each loss adds to M, for each order; step 5."""
    order = orders[:, None] - 1
    with np.errstate(over="ignore"):  # an infinite moment bounds nothing: other orders do
        added: Float64 = 2 * np.sinh(order * loss / 2) ** 2
        added += np.tanh(loss / 2) * np.sinh(order * loss)
    return added


def renyi_epsilon(logs: Float64, delta: float, orders: Float64) -> float:
    """Step 6, of all rounds together."""
    found = logs / (orders - 1) + np.log1p(-1 / orders)
    found -= (log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(found.min()))


def _group_starts(first: int, last: int, spread: float) -> Int64:
    """Where groups of neighbouring sizes begin.

    Sizes that the differences of signs could span stay alone, so that no t comes near 1.
    """
    starts, start = [], first
    while start <= last:
        starts.append(start)
        start += 1 + (int(COARSENESS * start) if start > 8 * spread else 0)
    return np.array(starts)


def _binomial(n: int, p: float, spread: float) -> tuple[Int64, Float64]:
    """Values and chances of Bin(n, p), but for ends of at most 2 e^-spread (Bernstein)."""
    if p == 1 or n == 0:
        return np.array([n]), np.ones(1)
    width = spread / 3 + sqrt(spread**2 / 9 + 2 * spread * n * p * (1 - p))
    values = np.arange(max(0, ceil(n * p - width)), min(n, floor(n * p + width)) + 1)
    steps = np.log((n - values[:-1]) / values[1:] * (p / (1 - p)))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    return values, chances / chances.sum()
