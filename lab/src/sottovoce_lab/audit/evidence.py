"""What counts prove about epsilon, whatever the code behind them says.

If a client is eps-LDP, then for every event `P[event | first] <= e^eps P[event | second]`, for any
two histories. Counting the event under both gives, by Clopper and Pearson's exact intervals, an
epsilon that the client is *at least* as bad as, except with a chance that is chosen beforehand.

Evidence is gathered first and judged together: how likely a false alarm may be is fixed for the
whole audit, so every single test must know how many there are (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sottovoce.errors import SettingsError


@dataclass(frozen=True)
class Count:
    happened: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.happened <= self.trials or self.trials < 1:
            raise SettingsError(f"happened must be from 0 to {self.trials}, got {self.happened}")

    def at_least(self, miss: float) -> float:
        """The chance lies above this, except with probability `miss`."""
        if self.happened == 0:
            return 0.0
        return float(stats.beta.ppf(miss, self.happened, self.trials - self.happened + 1))

    def at_most(self, miss: float) -> float:
        """The chance lies below this, except with probability `miss`."""
        if self.happened == self.trials:
            return 1.0
        return float(stats.beta.isf(miss, self.happened + 1, self.trials - self.happened))


def epsilon_at_least(first: Count, second: Count, alpha: float) -> float:
    """The epsilon that these counts prove, except with probability `alpha`; 0 if they prove none.

    Both directions are tried, and each needs one chance from below and one from above: four exact
    bounds that may miss, with `alpha / 4` each.

    >>> round(epsilon_at_least(Count(94264, 100_000), Count(5736, 100_000), 1e-6), 6)
    2.731547
    """
    miss = alpha / 4
    return max(_one_way(first, second, miss), _one_way(second, first, miss))


def _one_way(likelier: Count, rarer: Count, miss: float) -> float:
    low = likelier.at_least(miss)
    return max(0.0, log(low / rarer.at_most(miss))) if low > 0 else 0.0


def surprise(seen: Count, chance: float) -> float:
    """Two-sided p-value of a count whose chance is known."""
    return _two_sided(stats.binom(seen.trials, chance), np.array(seen.happened))


def unlike(counts: NDArray[np.integer], chances: NDArray[np.float64]) -> float:
    """p-value of counts of things with known chances."""
    return _two_sided(stats.binom(int(counts.sum()), chances), counts)


def related(one: NDArray[Any], other: NDArray[Any]) -> float:
    """p-value of two things that should have nothing to do with each other.

    Given the margins, each cell of their table is hypergeometric.
    """
    rows, columns = (np.unique(each, return_inverse=True)[1] for each in (one, other))
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    by_row, by_column = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    return _two_sided(stats.hypergeom(int(table.sum()), by_row, by_column), table)


def _two_sided(law: Any, seen: NDArray[np.integer]) -> float:
    """The most surprising cell, by exact tails: both of every cell count.

    Not chi-square, whose approximation fails where it is needed here: rare flips, and
    probabilities of one in a thousand million.
    """
    tails = np.minimum(law.cdf(seen), law.sf(seen - 1))
    return min(1.0, 2 * seen.size * float(tails.min()))


ALPHA = 1e-6
"""The chance that an audit of an honest client finds anything."""
SIGHT = 0.9
"""An audit must prove this share of epsilon on honest clients, or it has not looked well enough."""


@dataclass(frozen=True)
class Ratio:
    """An event's counts under two histories, which may differ by a factor `e^claim`."""

    mechanism: str
    check: str
    event: str
    first: Count
    second: Count
    claim: float


@dataclass(frozen=True)
class Surprise:
    """The p-value of something that an honest client has no reason to do."""

    mechanism: str
    check: str
    event: str
    p_value: float


@dataclass(frozen=True)
class Fact:
    """What holds or does not; by chance an honest client fails with less than 2^-200."""

    mechanism: str
    check: str
    seen: str
    holds: bool


Evidence = Ratio | Surprise | Fact


@dataclass(frozen=True)
class Check:
    """One line of the audit's table."""

    mechanism: str
    check: str
    measured: str
    bound: str
    passed: bool


def judge(evidence: Sequence[Evidence], alpha: float = ALPHA) -> list[Check]:
    """One verdict for each mechanism and check; all together raise a false alarm with `alpha`."""
    share = alpha / max(1, sum(not isinstance(each, Fact) for each in evidence))
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for each in evidence:
        groups.setdefault((each.mechanism, each.check), []).append(each)
    checks = [_verdict(group, share) for group in groups.values()]
    checks += _sight(evidence, share)
    order = list(dict.fromkeys(each.mechanism for each in evidence))
    return sorted(checks, key=lambda check: order.index(check.mechanism))


def _verdict(group: list[Evidence], share: float) -> Check:
    ratios = [each for each in group if isinstance(each, Ratio)]
    surprises = [each for each in group if isinstance(each, Surprise)]
    facts = [each for each in group if isinstance(each, Fact)]
    if ratios:
        return _ratios(ratios, share)
    return _surprises(surprises, share) if surprises else _facts(facts)


def _ratios(ratios: list[Ratio], share: float) -> Check:
    bounds = [epsilon_at_least(each.first, each.second, share) for each in ratios]
    excess = [bound - each.claim for bound, each in zip(bounds, ratios, strict=True)]
    place = excess.index(max(excess))
    worst = ratios[place]
    measured = f"epsilon >= {bounds[place]:.4f} ({worst.event}; {len(ratios)} events)"
    bound = f"<= {worst.claim:g}"
    return Check(worst.mechanism, worst.check, measured, bound, excess[place] <= 0)


def _surprises(surprises: list[Surprise], share: float) -> Check:
    least = min(surprises, key=lambda each: each.p_value)
    measured = f"p = {least.p_value:.2g} ({least.event}; least of {len(surprises)})"
    passed = least.p_value >= share
    return Check(least.mechanism, least.check, measured, f">= {share:.1g}", passed)


def _facts(facts: list[Fact]) -> Check:
    failed = [each for each in facts if not each.holds]
    shown = (failed or facts)[0]
    measured = f"{len(facts) - len(failed)} of {len(facts)}; {shown.seen}"
    return Check(shown.mechanism, shown.check, measured, "all", not failed)


def _sight(evidence: Sequence[Evidence], share: float) -> list[Check]:
    """Whether the best event proves nearly all of epsilon: what saw nothing is no audit."""
    best: dict[str, tuple[float, int]] = {}
    for each in evidence:
        if isinstance(each, Ratio):
            found = epsilon_at_least(each.first, each.second, share) / each.claim
            best[each.mechanism] = max(
                best.get(each.mechanism, (0.0, 0)), (found, each.first.trials)
            )
    return [_seen(mechanism, found, trials) for mechanism, (found, trials) in best.items()]


def _seen(mechanism: str, found: float, trials: int) -> Check:
    enough = found >= SIGHT
    # The gap shrinks with the square root of the number of reports.
    needed = trials * ((1 - found) / (1 - SIGHT)) ** 2
    advice = "" if enough else f"; take about {2 * needed:.0e} samples"
    measured = f"{found:.1%} of epsilon proven{advice}"
    return Check(mechanism, "the audit can see", measured, f">= {SIGHT:.0%}", enough)
