"""A light upper bound of the central epsilon, for the promises of devices in any language.

`shuffle.py` computes the central epsilon by composing loss distributions. This bound needs only
elementary functions, gives the same digits everywhere (`tests/vectors/promises.json`) and is at
most about a tenth larger. Like `shuffle.py`, it compares what the server sees under two histories
of one person, the victim. `docs/privacy.md` proves that this pair of distributions is the worst.

In one round, each of n people sends one report of epsilon eps, and D dummies (`Reporting.cover`)
are mixed with these reports. With E = e^eps, c = E - 1 and gamma = 1 / (1 + rho c), the bound is
computed in six steps:

1.  Blanket. Bin(n - 1, gamma) reports of the other people are uniform, and Bin(D, d) dummies count
    as uniform (d is `Reporting.dummy_share`). Together they are B reports, and m = B + 1 counts the
    victim's report too. A smaller m is worse, so neighbouring values of m are grouped, and the
    smallest value stands for the group.
2.  Count. A is the set of directions that are loud for one history, A' that of the other. Of the B
    reports, g ~ Bin(B, 2 rho) name a direction in A or A'. The victim's report does so with
    probability 1 - gamma (1 - 2 rho), whichever history is true. So there are s = g or s = g + 1
    reports in A or A'.
3.  Difference. Averaged over the two histories, v = (number in A) - (number in A') is distributed
    as the sum of s fair signs. Under one history, v is 1 + t times as likely as in that average,
    and under the other 1 - t times, where

        t = (c v / 2) / (m + c s / 2) = tanh(loss / 2),    loss = log1p(c v / (m + c (s - v) / 2)).

    Neighbouring values of s, from s1 to s2, are grouped. These formulas then use s1, and v is the
    sum of s2 signs. Both make the bound larger: a smaller s makes t larger, and the mean of a
    convex even function of t grows with the number of signs.
4.  Grid. Losses are moved to the points of a grid, 0 and eps * q^-j. A loss between two points is
    split so that the mean of t is unchanged: the share x of its probability moves to the upper
    point, 1 - x to the lower,

        x = sinh((loss - low) / 2) cosh(high / 2) / (sinh((high - low) / 2) cosh(loss / 2)).

    This spreads t more widely around the same mean, so the mean of every convex function of t can
    only grow.
5.  Moment. For an order alpha > 1, the weights w of the grid points give

        M = sum of w (2 sinh^2((alpha - 1) loss / 2) + tanh(loss / 2) sinh((alpha - 1) loss)),

    and log(1 + M) / (alpha - 1) is the Renyi divergence of one round. The divergences of all rounds
    add up. Rounds of one kind are a group (`Group`): R = sum of rounds * log1p(M) over all groups.
6.  Conversion (Canonne, Kamath and Steinke 2020, proposition 12). For every order alpha,

        eps(alpha) = R / (alpha - 1) + log(1 - 1/alpha) - log(delta' alpha) / (alpha - 1)

    is an upper bound of epsilon at delta'. The smallest one over a fixed list of orders is used,
    or the sum of the epsilons of all reports if that is smaller.

delta' is what remains of delta after two deductions:

-   Cut tails. Bernstein's inequality cuts the tails of a binomial, which have a probability of at
    most `2 e^-spread`. There are four binomials in each round. All tails together take the share
    `TAIL_SHARE` of delta.
-   Largest losses. Small blankets are rare but reveal much. So some of delta may be spent on the
    largest losses, which are then left out of the moments as if they revealed everything. Each of
    `SPENT_SHARES` is tried, divided equally among all groups; the smallest result is the bound.

Some groups are not composed but count at their pure epsilon: those without other people and without
dummies, and all but the `MAX_GROUPS` most expensive ones. Their losses never exceed their pure
epsilon, so it can be added to the epsilon of the other groups at the same delta.
"""

from collections.abc import Sequence
from math import ceil, expm1, floor, log, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.events import Reporting, check_delta

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

# The share of delta for the tails of the binomials.
TAIL_SHARE = 1e-3
# Shares of delta that may be spent on the largest losses.
SPENT_SHARES = (0.0, 0.01, 0.05, 0.1, 0.4, 0.7)
# Neighbouring values of m or of s that differ by less than this share are grouped (steps 1 and 3).
GROUPING_SHARE = 0.004
# The grid of losses (step 4): its ratio q, and its number of points besides 0 and eps.
GRID_RATIO = 1.025
GRID_POINTS = 800
# The orders alpha over which the bound is minimised (step 6).
RENYI_ORDERS = 1 + 0.01 * 1.1 ** np.arange(270.0)
# The largest number of groups that are composed. Otherwise a server that changes its terms in every
# epoch could keep a device busy.
MAX_GROUPS = 8


class Group(NamedTuple):
    """Reports of one kind, and the crowd that they were mixed with."""

    event: Reporting
    clients: int
    """The number of honest devices, the device itself included."""

    @property
    def is_hidden(self) -> bool:
        """Whether other people or dummies hide these reports."""
        return self.clients > 1 or self.event.cover > 0


def central_bound(groups: Sequence[Group], delta: float) -> float:
    """Bound the central epsilon of all groups together at this delta.

    >>> strong = Group(Reporting(5.0, 1, 2, 0.0318), clients=50_000)
    >>> round(central_bound([strong], 1e-6), 3)
    0.427
    """
    check_delta(delta)
    by_cost = sorted(groups, key=lambda group: (group.is_hidden, group.event.pure), reverse=True)
    hidden = [group for group in by_cost[:MAX_GROUPS] if group.is_hidden]
    pure, rest = _sum_pure(by_cost), _sum_pure(by_cost[len(hidden) :])
    return min(pure, rest + _compose(hidden, delta)) if hidden else pure


def _sum_pure(groups: Sequence[Group]) -> float:
    return sum(event.pure for event, _ in groups)


def _compose(groups: Sequence[Group], delta: float) -> float:
    """Bound the epsilon of the groups (steps 5 and 6) with the best of `SPENT_SHARES`."""
    rounds = sum(event.total for event, _ in groups)
    spread = log(2 * 4 * rounds / TAIL_SHARE) - log(delta)
    losses = [_Losses.from_group(group, spread) for group in groups]
    epsilons = []
    for share in SPENT_SHARES:
        allowance = share * delta / len(groups)
        logs, spent = zip(*(loss.drop_largest(allowance) for loss in losses), strict=True)
        left = (1 - TAIL_SHARE) * delta - sum(spent)
        epsilons.append(renyi_epsilon(np.sum(logs, axis=0), left, RENYI_ORDERS))
    return min(epsilons)


class _Losses(NamedTuple):
    """The distribution of the losses of one group of reports, on the grid of step 4."""

    rounds: int
    weights: Float64
    """The probability of each point in one round."""
    moments: Float64
    """The contribution of each point to the moment of each order."""

    @classmethod
    def from_group(cls, group: Group, spread: float) -> Self:
        weights = _histogram(*group, spread)
        points = _grid_points(group.event.epsilon)
        return cls(group.event.total, weights, moments(points, RENYI_ORDERS))

    def drop_largest(self, max_probability: float) -> tuple[Float64, float]:
        """Drop the largest losses, whose probabilities sum to at most `max_probability`.

        Returns:
            The sum of log1p(M) over all rounds without these losses, for each order; and the
            probability of the losses that were dropped.
        """
        # For each point, the probability that any of the rounds has a loss at it or above it.
        above = float(self.rounds) * np.cumsum(self.weights[::-1])[::-1]
        remains = above > max_probability
        counts = remains & (self.weights > 0)
        logs = float(self.rounds) * np.log1p(self.moments[:, counts] @ self.weights[counts])
        return logs, float(above[~remains].max(initial=0.0))


def blankets(event: Reporting, clients: int, spread: float) -> tuple[Int64, Float64]:
    """Return the possible values of m, ascending, and their probabilities (step 1)."""
    people, people_chances = _binomial(clients - 1, event.blanket, spread)
    dummies, dummy_chances = _group(*_binomial(event.cover, event.dummy_share, spread), spread)
    uniform = np.arange(people[0] + dummies[0], people[-1] + dummies[-1] + 1)
    chances = np.zeros(len(uniform))
    for offset, chance in zip(dummies - dummies[0], dummy_chances, strict=True):
        chances[offset : offset + len(people)] += chance * people_chances
    sizes, chances = _group(uniform, chances, spread)
    return sizes + 1, chances


def _group(sizes: Int64, chances: Float64, spread: float) -> tuple[Int64, Float64]:
    """Group neighbouring sizes; return the smallest size and the probability of each group."""
    starts = _group_starts(int(sizes[0]), int(sizes[-1]), spread)
    return starts, np.add.reduceat(chances, starts - sizes[0])


def _histogram(event: Reporting, clients: int, spread: float) -> Float64:
    """Return the weights of the grid's points (steps 1 to 4)."""
    sizes, chances = blankets(event, clients, spread)
    starts = _group_starts(0, int(sizes[-1]), spread)
    stops = np.append(starts[1:], sizes[-1] + 1)
    counts = [_count_chances(event, int(m) - 1, starts, spread) for m in sizes]
    weights = chances[:, None] * np.array(counts)
    points = _grid_points(event.epsilon)
    out = np.zeros(len(points))
    for group in np.flatnonzero(weights.any(axis=0)):
        rows, n_signs = np.flatnonzero(weights[:, group]), int(stops[group]) - 1
        signs, chance = _binomial(n_signs, 0.5, spread)
        loss = _loss(event, sizes[rows, None], int(starts[group]), np.abs(2 * signs - n_signs))
        weight = weights[rows, group, None] * chance
        lower, up = _split(points, loss)
        for index, share in ((lower, 1 - up), (lower + 1, up)):
            out += np.bincount(index.ravel(), (weight * share).ravel(), minlength=len(out))
    return out


def _count_chances(event: Reporting, others: int, starts: Int64, spread: float) -> Float64:
    """Return the probability of each group of values of s, for B = `others` (step 2)."""
    rho = event.loud_fraction
    hit = 1 - event.blanket * (1 - 2 * rho)
    counts, chances = _binomial(others, 2 * rho, spread)
    chances = np.convolve(chances, [1 - hit, hit])
    reached = np.arange(counts[0], counts[-1] + 2)
    groups = np.searchsorted(starts, reached, side="right") - 1
    return np.bincount(groups, chances, minlength=len(starts)).astype(np.float64)


def _loss(event: Reporting, m: Int64, s: int, v: Int64) -> Float64:
    """Return the privacy loss (step 3)."""
    odds = expm1(event.epsilon)
    loss: Float64 = np.log1p(odds * v / (m + odds * (s - v) / 2))
    return loss


def _grid_points(epsilon: float) -> Float64:
    return np.concatenate([[0.0], epsilon * GRID_RATIO ** np.arange(-float(GRID_POINTS), 1.0)])


def _split(points: Float64, loss: Float64) -> tuple[Int64, Float64]:
    """Return the index of the point below each loss, and the share x of step 4."""
    with np.errstate(divide="ignore"):
        steps = np.floor(np.log(loss / points[-1]) / log(GRID_RATIO))
    lower = np.clip(steps + GRID_POINTS + 1, 0, GRID_POINTS).astype(np.int64)
    low, high = points[lower], points[lower + 1]
    rise = np.sinh((loss - low) / 2) / np.cosh(loss / 2)
    return lower, rise * np.cosh(high / 2) / np.sinh((high - low) / 2)


def moments(loss: Float64, orders: Float64) -> Float64:
    """Return what each loss adds to the moment M of each order (step 5)."""
    order = orders[:, None] - 1
    # A moment may be infinite at large orders; the smallest bound then comes from another order.
    with np.errstate(over="ignore"):
        added: Float64 = 2 * np.sinh(order * loss / 2) ** 2
        added += np.tanh(loss / 2) * np.sinh(order * loss)
    return added


def renyi_epsilon(logs: Float64, delta: float, orders: Float64) -> float:
    """Convert `logs`, the R of each order, to the smallest epsilon (step 6)."""
    epsilons = logs / (orders - 1) + np.log1p(-1 / orders)
    epsilons -= (log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(epsilons.min()))


def _group_starts(first: int, last: int, spread: float) -> Int64:
    """Return the first size of each group of neighbouring sizes."""
    starts, start = [], first
    while start <= last:
        starts.append(start)
        # Small sizes are not grouped: v could be about as large as they are, and t close to 1.
        start += 1 + (int(GROUPING_SHARE * start) if start > 8 * spread else 0)
    return np.array(starts)


def _binomial(n: int, p: float, spread: float) -> tuple[Int64, Float64]:
    """Return values and probabilities of Bin(n, p), without tails of at most 2 e^-spread."""
    if p == 1 or n == 0:
        return np.array([n]), np.ones(1)
    # The width follows from Bernstein's inequality.
    width = spread / 3 + sqrt(spread**2 / 9 + 2 * spread * n * p * (1 - p))
    values = np.arange(max(0, ceil(n * p - width)), min(n, floor(n * p + width)) + 1)
    steps = np.log((float(n) - values[:-1]) / values[1:] * (p / (1 - p)))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    return values, chances / chances.sum()
