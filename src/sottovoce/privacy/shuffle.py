"""The central view: an honest proxy shuffles everybody's reports, and nobody can link two.

`docs/privacy.md` has the proof. Of n people's j-th reports in an epoch, those of the others that
are uniform (a share gamma) are the blanket, and so are the proxy's dummies, D of them. Give the
rest away. What is left is m = B + D + 1 reports, B ~ Bin(n - 1, gamma), one of them the victim's;
a of them fall on the loud directions A of one history, b on those of another. With `E = e^eps` the
two histories make this outcome likely as

    Mult(a, b; m, rho, rho) * (m + (E - 1) a)     against     Mult(...) * (m + (E - 1) b)

so the loss is `log((m + (E - 1) a) / (m + (E - 1) b))`. Disjoint loud sets are the worst case, and
a smaller m is worse than a larger one. The pair is composed k T times by privacy loss
distributions. Where people or reports are too many for that, the bound of `bound.py` takes its
place.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import expm1, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MissingExtraError, SettingsError
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.events import MOST, SIGN, Reporting, checked_delta
from sottovoce.privacy.local import local_epsilon, surely_lost

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
MOST_CELLS, AT_ONCE = 1 << 26, 1 << 18
"""Pairs of counts that are looked at for one size of the blanket: in all, and held in memory."""
MOST_COMPOSED, MOST_BY_STEP = 10**8, 10_000
"""Reports that are composed, and the same by the steps of one report's loss: dp-accounting's memory
grows with the latter."""
MOST_BOUNDED = 10**10
"""The largest crowd that the bound takes: more people hide no worse than so many of them."""


def gaussian_mu(event: Reporting, clients: int) -> float:
    """The mu of the Gaussian that this tends to: the whole training in one number.

    `mu^2 = k T (E - 1)^2 * 2 rho gamma^2 / m`, where m = n gamma + D are uniform.
    """
    shift, uniform = expm1(event.epsilon), clients * event.blanket + event.cover
    return sqrt(event.total * 2 * event.loud_fraction / uniform) * event.blanket * shift


def central_epsilon(event: Reporting, people: int, delta: float) -> float:
    """The least epsilon that holds with this delta after the shuffle; never more than local.

    Beyond `is_composed` not the least, but one that holds.

    Args:
        event: What each person does in a training.
        people: How many report in each epoch, the person included. Those who work with the server
            hide nobody and are not counted: with 1 only the dummies hide.
        delta: What probabilities may differ by, beyond the factor e^epsilon.
    """
    checked_delta(delta)
    if not 1 <= people <= MOST:
        raise SettingsError("people must be a whole number from 1 to 10^30")
    found = _shuffled(event, people, delta) if people > 1 or event.cover else event.pure
    if found <= surely_lost(event, delta):
        return found
    return min(found, local_epsilon(event, delta))


def is_composed(event: Reporting, people: int) -> bool:
    """Whether people and reports are few enough for loss distributions; else there is a bound."""
    return _countable(event, people) == (event, people) and event.total <= _most_reports(
        event, people
    )


def _shuffled(event: Reporting, people: int, delta: float) -> float:
    """The least of what is known. A larger crowd hides no worse than a smaller one."""
    found, (counted, honest) = event.pure, _countable(event, people)
    if event.total <= _most_reports(counted, honest):
        one = _one_report(counted.one_report(), honest)
        composed = one if event.total == 1 else one.self_compose(event.total)
        found = min(found, float(composed.get_epsilon_for_delta(delta)))
    if not is_composed(event, people):
        event = replace(event, dummies=min(event.dummies, MOST_BOUNDED))
        hidden = Group(event, min(people, MOST_BOUNDED))
        found = min(found, central_bound([hidden], delta))
    return found


def _most_reports(event: Reporting, honest: int) -> int:
    return min(MOST_COMPOSED, int(MOST_BY_STEP * event.epsilon / _step(event, honest)))


def _step(event: Reporting, honest: int) -> float:
    """Of the grid of one report's losses."""
    mu = gaussian_mu(event.one_report(), honest)
    step = max(mu / STEPS_PER_SIGMA, 2 * event.epsilon / MAX_STEPS)
    return min(step, event.epsilon / 8)


def _countable(event: Reporting, people: int) -> tuple[Reporting, int]:
    """As many dummies and people as have counts, eight deviations either way, that are few enough.

    Fewer hide no better.
    """
    rho = event.loud_fraction
    widest = AT_ONCE if rho == SIGN else sqrt(MOST_CELLS)
    uniform = int((widest / 17) ** 2 / (rho * (1 - rho)))
    dummies = min(event.dummies, uniform * event.reports)
    honest = int((uniform - dummies // event.reports) / event.blanket)
    return replace(event, dummies=dummies), max(min(people, honest), 1)


@lru_cache(maxsize=64)
def _one_report(event: Reporting, honest: int) -> Any:
    """The privacy loss distribution of one report."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as error:
        raise MissingExtraError(
            "central accounting needs dp-accounting: pip install 'sottovoce[sim]'"
        ) from error
    step = _step(event, honest)
    edges, deltas = hockey_stick(event, honest, step)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, edges, deltas)
    # Swapping the two histories swaps the two sets: one direction is as bad as the other.
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def hockey_stick(event: Reporting, honest: int, step: float) -> tuple[NDArray[np.int64], Float64]:
    """One report's delta at every multiple of `step` that its loss can reach."""
    reach = int(np.ceil(event.epsilon / step)) + 1
    true, other = np.zeros(2 * reach), np.zeros(2 * reach)
    for m, weight in blanket_sizes(event, honest):
        sums = np.zeros((2, 2 * reach))
        for loss, chance in outcomes(event, m):
            bins = np.floor(loss / step).astype(np.int64) + reach
            sums[0] += np.bincount(bins, chance, minlength=2 * reach)
            sums[1] += np.bincount(bins, chance * np.exp(-loss), minlength=2 * reach)
        sums *= weight / sums[0].sum()
        true, other = true + sums[0], other + sums[1]
    edges = np.arange(-reach, reach)
    above, above_other = (np.cumsum(values[::-1])[::-1] for values in (true, other))
    # delta(eps) = sum of P - e^eps Q over larger losses; what was not looked at is all lost.
    deltas = np.maximum(above - np.exp(edges * step) * above_other, 0.0) + UNSEEN
    # Rounding may break the order that these must have.
    return edges, np.minimum(np.maximum.accumulate(deltas[::-1])[::-1], 1.0)


def blanket_sizes(event: Reporting, honest: int) -> list[tuple[int, float]]:
    """How many reports may be left, the victim's and dummies among them, and how likely each is.

    Neighbouring sizes are taken together at the smallest of them: anyone who sees fewer uniform
    reports could add some themselves.
    """
    blanket = _binomial(honest - 1, event.blanket)
    start, highest = _ends(honest - 1, event.blanket)
    sizes = []
    while start <= highest:
        stop = start + int(COARSENESS * (start + event.cover))
        chance = float(blanket.cdf(stop) - blanket.cdf(start - 1))
        left = start + event.cover + 1
        sizes.append((left, chance if stop < highest else float(blanket.sf(start - 1))))
        start = stop + 1
    return sizes


def outcomes(event: Reporting, m: int) -> Iterator[tuple[Float64, Float64]]:
    """Losses when m reports are left, and how likely each is under the true history.

    Some at a time; the chances are to be divided by the sum of all of them.
    """
    rho, odds = event.loud_fraction, expm1(event.epsilon)
    counts = _likely(m, rho)
    ways = _log_poisson(counts, m * rho)
    if rho == SIGN:
        opposite = _log_poisson(m - counts[::-1], m * rho)[::-1]
        chance = np.exp(ways + opposite) * (m + odds * counts)
        yield np.log(m + odds * counts) - np.log(m + odds * (m - counts)), chance
        return
    rests = np.arange(max(m - 2 * counts[-1], 0), m - 2 * counts[0] + 1)
    ways_of_rest = _log_poisson(rests, m * (1 - 2 * rho))
    rows = max(AT_ONCE // len(counts), 1)
    for start in range(0, len(counts), rows):
        a, b = counts[start : start + rows, None], counts[None, :]
        rest = m - a - b
        base = ways[start : start + rows, None] + ways[None, :]
        base = base + ways_of_rest[np.maximum(rest, 0) - rests[0]]
        chance = np.where(rest >= 0, np.exp(base) * (m + odds * a), 0.0)
        yield (np.log(m + odds * a) - np.log(m + odds * b)).ravel(), chance.ravel()


def _log_poisson(counts: NDArray[np.int64], mean: float) -> Float64:
    """`log(mean^c / c!)` of consecutive counts, up to a constant: 0 where it is largest.

    Independent Poisson counts, given their sum, are multinomial.
    """
    logs: Float64 = np.concatenate([[0.0], np.cumsum(np.log(mean / counts[1:]))])
    logs -= logs.max()
    return logs


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
