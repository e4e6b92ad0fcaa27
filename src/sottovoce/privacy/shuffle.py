"""The central epsilon, which holds if an honest proxy shuffles everybody's reports.

`docs/privacy.md` has the proof. `events.py` explains eps, the epsilon of one report; rho, the share
of loud directions; and gamma, the probability that a report does not depend on the history.

Consider the j-th reports of n people in an epoch. One of the people is the victim. The reports of
the other n - 1 people are uniform with probability gamma, and each of D dummies
(`Reporting.cover`) counts as uniform with probability d (`Reporting.dummy_share`). These uniform
reports are the blanket, which hides the victim's report. Their number is
B ~ Bin(n - 1, gamma) + Bin(D, d). The proof lets the attacker know all reports outside of the
blanket. So m = B + 1 reports remain: the blanket and the victim's report. The variable a counts
those that name a loud direction of one history of the victim, and b does so for another history.
With `E = e^eps`, the probabilities of a and b under the two histories are proportional to

    Mult(a, b; m, rho, rho) * (m + (E - 1) a)     against     Mult(...) * (m + (E - 1) b)

where Mult is the multinomial probability that m uniform reports give a and b. So the loss is
`log((m + (E - 1) a) / (m + (E - 1) b))`. The worst case is two histories for which no direction is
loud for both, and a smaller m is worse than a larger one. The privacy loss distribution of one
report is composed with itself once for each report of the training. If there are too many people or
reports for that, the bound of `bound.py` is used.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import expm1, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MissingExtraError, SettingsError
from sottovoce.privacy.bound import Group, blankets, central_bound
from sottovoce.privacy.events import COIN_RHO, MAX_COUNT, Reporting, check_delta
from sottovoce.privacy.local import local_epsilon, lower_bound_epsilon

Float64 = NDArray[np.float64]

# Each tail of a distribution is cut where it is less likely than this.
TAIL_PROBABILITY = 1e-16
# `blankets` cuts off both tails of a binomial. Together they have a probability of at most
# 2 e^-spread, which is TAIL_PROBABILITY with this spread.
TAIL_SPREAD = log(2 / TAIL_PROBABILITY)
# Outcomes in a tail are counted as a complete loss of privacy, which adds this to delta. The people
# in the blanket have one TAIL_PROBABILITY for both tails, and so have the dummies. The counts a and
# b have one TAIL_PROBABILITY for each of their two tails.
TAILS_DELTA = 6 * TAIL_PROBABILITY
# The grid of the losses of one report has this number of steps per standard deviation, and at most
# MAX_GRID_STEPS in all.
STEPS_PER_SIGMA = 24
MAX_GRID_STEPS = 1 << 22
# The largest number of pairs (a, b) that are enumerated for one m, and how many of them are in
# memory at a time.
MAX_COUNT_PAIRS = 1 << 26
COUNT_PAIRS_AT_ONCE = 1 << 18
# The largest number of reports that are composed. There is a second limit, because the memory of
# dp-accounting grows with the product of reports and step of the grid:
#   reports * step / epsilon <= MAX_REPORTS_PER_STEP.
MAX_COMPOSED_REPORTS = 10**8
MAX_REPORTS_PER_STEP = 10_000
# `central_bound` is called with at most this number of people and of dummies. The result is still a
# bound, because more of them hide at least as well.
MAX_BOUND_PEOPLE = 10**10


def gaussian_mu(event: Reporting, clients: int) -> float:
    """Return the mu of the Gaussian mechanism that the training approaches in large crowds.

    `mu^2 = k T (E - 1)^2 * 2 rho gamma^2 / m`. A person sends k reports in each of T epochs, and
    m = n gamma + d D is the mean number of uniform reports that hide each of them.
    """
    shift = expm1(event.epsilon)
    uniform = clients * event.blanket + event.cover * event.dummy_share
    return sqrt(event.total * 2 * event.loud_fraction / uniform) * event.blanket * shift


def central_epsilon(event: Reporting, people: int, delta: float) -> float:
    """Compute the smallest epsilon that holds if the proxy shuffles honestly.

    It is never above the local epsilon.

    Args:
        event: What each person does in a training.
        people: Number of honest people who report in each epoch, including the person. Reports of
            people who collude with the server hide nobody. If it is 1, only dummies hide the
            person.
        delta: Amount by which probabilities may differ beyond the factor e^epsilon.

    Returns:
        The epsilon, or an upper bound of it if `is_composed(event, people)` is false.
    """
    check_delta(delta)
    if not 1 <= people <= MAX_COUNT:
        raise SettingsError("people must be a whole number from 1 to 10^30")
    epsilon = _shuffled_epsilon(event, people, delta) if people > 1 or event.cover else event.pure
    # The local epsilon may take seconds: skip it if it cannot be smaller.
    if epsilon <= lower_bound_epsilon(event, delta):
        return epsilon
    return min(epsilon, local_epsilon(event, delta))


def is_composed(event: Reporting, people: int) -> bool:
    """Return whether `central_epsilon` composes loss distributions of the whole crowd."""
    return _limit_crowd(event, people) == (event, people) and event.total <= _max_reports(
        event, people
    )


def _shuffled_epsilon(event: Reporting, people: int, delta: float) -> float:
    """Return the smallest epsilon that pure composition, loss distributions or `bound.py` give."""
    # A part of the crowd gives an upper bound, because the whole crowd hides at least as well.
    epsilon, (limited, honest) = event.pure, _limit_crowd(event, people)
    if event.total <= _max_reports(limited, honest):
        losses = _compute_report_losses(limited.one_report(), honest)
        if event.total > 1:
            losses = losses.self_compose(event.total)
        epsilon = min(epsilon, float(losses.get_epsilon_for_delta(delta)))
    if not is_composed(event, people):
        event = replace(event, dummies=min(event.dummies, MAX_BOUND_PEOPLE))
        group = Group(event, min(people, MAX_BOUND_PEOPLE))
        epsilon = min(epsilon, central_bound([group], delta))
    return epsilon


def _max_reports(event: Reporting, honest: int) -> int:
    limit_by_grid = int(MAX_REPORTS_PER_STEP * event.epsilon / _grid_step(event, honest))
    return min(MAX_COMPOSED_REPORTS, limit_by_grid)


def _grid_step(event: Reporting, honest: int) -> float:
    """Return the step of the grid of one report's losses."""
    mu = gaussian_mu(event.one_report(), honest)
    step = max(mu / STEPS_PER_SIGMA, 2 * event.epsilon / MAX_GRID_STEPS)
    return min(step, event.epsilon / 8)


def _limit_crowd(event: Reporting, people: int) -> tuple[Reporting, int]:
    """Reduce dummies and people until all likely counts can be enumerated.

    The epsilon of the smaller crowd is an upper bound.
    """
    rho = event.loud_fraction
    # The tails begin about 8.2 standard deviations from the mean, so the range of likely counts is
    # less than 17 standard deviations wide.
    widest = COUNT_PAIRS_AT_ONCE if rho == COIN_RHO else sqrt(MAX_COUNT_PAIRS)
    uniform = int((widest / 17) ** 2 / (rho * (1 - rho)))
    dummies = min(event.dummies, uniform * event.reports)
    honest = int((uniform - dummies // event.reports) / event.blanket)
    return replace(event, dummies=dummies), max(min(people, honest), 1)


@lru_cache(maxsize=64)
def _compute_report_losses(event: Reporting, honest: int) -> Any:
    """Return the privacy loss distribution of one report."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as error:
        raise MissingExtraError(
            "central accounting needs dp-accounting: pip install 'sottovoce[sim]'"
        ) from error
    step = _grid_step(event, honest)
    edges, deltas = compute_hockey_stick(event, honest, step)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, edges, deltas)
    # The distribution is the same if the two histories are swapped: this only swaps a and b.
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def compute_hockey_stick(
    event: Reporting, honest: int, step: float
) -> tuple[NDArray[np.int64], Float64]:
    """Compute one report's delta at every multiple of `step` that its loss can reach.

    Returns:
        The multiples, and the delta at each of them.
    """
    reach = int(np.ceil(event.epsilon / step)) + 1
    true, other = np.zeros(2 * reach), np.zeros(2 * reach)
    for m, weight in zip(*blankets(event, honest, TAIL_SPREAD), strict=True):
        sums = np.zeros((2, 2 * reach))
        for loss, chance in iterate_outcomes(event, int(m)):
            bins = np.floor(loss / step).astype(np.int64) + reach
            sums[0] += np.bincount(bins, chance, minlength=2 * reach)
            sums[1] += np.bincount(bins, chance * np.exp(-loss), minlength=2 * reach)
        sums *= weight / sums[0].sum()
        true, other = true + sums[0], other + sums[1]
    edges = np.arange(-reach, reach)
    above, above_other = (np.cumsum(values[::-1])[::-1] for values in (true, other))
    # `true` and `other` have the probabilities P and Q of each loss under the two histories.
    # delta(eps) is the sum of P - e^eps Q over all losses above eps. The tails count in full.
    deltas = np.maximum(above - np.exp(edges * step) * above_other, 0.0) + TAILS_DELTA
    # Delta must not increase with epsilon, but rounding errors may make it do so.
    return edges, np.minimum(np.maximum.accumulate(deltas[::-1])[::-1], 1.0)


def iterate_outcomes(event: Reporting, m: int) -> Iterator[tuple[Float64, Float64]]:
    """Yield the losses of all outcomes of m reports, and their weights under the true history.

    The outcomes are split into several pieces, to save memory. The weights are probabilities up to
    a common factor.
    """
    rho, odds = event.loud_fraction, expm1(event.epsilon)
    counts = _likely_counts(m, rho)
    log_weights = _log_poisson(counts, m * rho)
    if rho == COIN_RHO:
        log_weights_b = _log_poisson(m - counts[::-1], m * rho)[::-1]
        chance = np.exp(log_weights + log_weights_b) * (m + odds * counts)
        yield np.log(m + odds * counts) - np.log(m + odds * (m - counts)), chance
        return
    rests = np.arange(max(m - 2 * counts[-1], 0), m - 2 * counts[0] + 1)
    log_weights_of_rest = _log_poisson(rests, m * (1 - 2 * rho))
    rows = max(COUNT_PAIRS_AT_ONCE // len(counts), 1)
    for start in range(0, len(counts), rows):
        a, b = counts[start : start + rows, None], counts[None, :]
        rest = m - a - b
        log_weight = log_weights[start : start + rows, None] + log_weights[None, :]
        log_weight = log_weight + log_weights_of_rest[np.maximum(rest, 0) - rests[0]]
        chance = np.where(rest >= 0, np.exp(log_weight) * (m + odds * a), 0.0)
        yield (np.log(m + odds * a) - np.log(m + odds * b)).ravel(), chance.ravel()


def _log_poisson(counts: NDArray[np.int64], mean: float) -> Float64:
    """Return log(mean^c / c!) of consecutive counts, shifted so that the largest is 0."""
    # Multinomial counts are independent Poisson counts with a fixed sum, so products of these
    # weights are proportional to multinomial probabilities.
    logs: Float64 = np.concatenate([[0.0], np.cumsum(np.log(mean / counts[1:]))])
    logs -= logs.max()
    return logs


def _likely_counts(m: int, rho: float) -> NDArray[np.int64]:
    """Return the likely values of a, or of b, if each of m reports counts with probability rho."""
    lowest, highest = _cut_tails(m, rho)
    # The victim's report is not uniform and may add one.
    return np.arange(lowest, min(m, highest + 1) + 1)


def _cut_tails(n: int, p: float) -> tuple[int, int]:
    """Return the range of Bin(n, p) outside of which each tail is below `TAIL_PROBABILITY`."""
    # Imported here because the import takes half a second.
    from scipy import stats

    counts = stats.binom(n, p)
    if n * p >= 1:
        return int(counts.ppf(TAIL_PROBABILITY)), int(counts.isf(TAIL_PROBABILITY))
    # scipy's quantile does not converge for such small means (epsilon 30 and more).
    return 0, next(count for count in range(n + 1) if counts.sf(count) <= TAIL_PROBABILITY)
