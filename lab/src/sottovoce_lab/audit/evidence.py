"""What was seen, and what it amounts to.

Evidence is gathered first and judged together: how likely a false alarm may be is fixed for the
whole audit, so every single test must know how many there are (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce_lab.audit.bounds import Count, epsilon_at_least

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
