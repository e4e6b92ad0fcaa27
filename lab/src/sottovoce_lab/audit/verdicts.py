"""Verdicts of an audit: all evidence is judged together.

The probability of a false alarm is fixed for the whole audit and divided among all tests
(Bonferroni). So every test must know how many tests there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce_lab.audit.evidence import Evidence, Fact, Ratio, Surprise, bound_epsilon

# Probability that an audit of an honest client fails.
FALSE_ALARM_RATE = 1e-6
# An audit must prove at least this share of epsilon on honest clients. One that proves less has too
# few samples to find a fault.
MIN_PROVEN_SHARE = 0.9


@dataclass(frozen=True)
class Check:
    """One line of the audit's table."""

    mechanism: str
    check: str
    measured: str
    bound: str
    passed: bool


def judge(evidence: Sequence[Evidence], alpha: float = FALSE_ALARM_RATE) -> list[Check]:
    """Return one verdict for each mechanism and check.

    All of them together raise a false alarm with probability `alpha`.
    """
    alpha_per_test = alpha / max(1, sum(not isinstance(item, Fact) for item in evidence))
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for item in evidence:
        groups.setdefault((item.mechanism, item.check), []).append(item)
    checks = [_judge_group(group, alpha_per_test) for group in groups.values()]
    checks += _check_proven_shares(evidence, alpha_per_test)
    order = list(dict.fromkeys(item.mechanism for item in evidence))
    return sorted(checks, key=lambda check: order.index(check.mechanism))


def _judge_group(group: list[Evidence], alpha: float) -> Check:
    ratios = [item for item in group if isinstance(item, Ratio)]
    surprises = [item for item in group if isinstance(item, Surprise)]
    if ratios:
        return _judge_ratios(ratios, alpha)
    if surprises:
        return _judge_surprises(surprises, alpha)
    return _judge_facts([item for item in group if isinstance(item, Fact)])


def _judge_ratios(ratios: list[Ratio], alpha: float) -> Check:
    bounds = [bound_epsilon(ratio.first, ratio.second, alpha) for ratio in ratios]
    excess = [bound - ratio.claim for bound, ratio in zip(bounds, ratios, strict=True)]
    place = excess.index(max(excess))
    worst = ratios[place]
    measured = f"epsilon >= {bounds[place]:.4f} ({worst.event}; {len(ratios)} events)"
    bound = f"<= {worst.claim:g}"
    return Check(worst.mechanism, worst.check, measured, bound, excess[place] <= 0)


def _judge_surprises(surprises: list[Surprise], alpha: float) -> Check:
    smallest = min(surprises, key=lambda surprise: surprise.p_value)
    measured = f"p = {smallest.p_value:.2g} ({smallest.event}; least of {len(surprises)})"
    passed = smallest.p_value >= alpha
    return Check(smallest.mechanism, smallest.check, measured, f">= {alpha:.1g}", passed)


def _judge_facts(facts: list[Fact]) -> Check:
    failed = [fact for fact in facts if not fact.holds]
    example = (failed or facts)[0]
    measured = f"{len(facts) - len(failed)} of {len(facts)}; {example.seen}"
    return Check(example.mechanism, example.check, measured, "all", not failed)


def _check_proven_shares(evidence: Sequence[Evidence], alpha: float) -> list[Check]:
    """Check for each mechanism that the best event proves nearly all of epsilon."""
    best: dict[str, tuple[float, int]] = {}
    for item in evidence:
        if isinstance(item, Ratio):
            proven = bound_epsilon(item.first, item.second, alpha) / item.claim
            best[item.mechanism] = max(
                best.get(item.mechanism, (0.0, 0)), (proven, item.first.trials)
            )
    checks = []
    for mechanism, (proven, trials) in best.items():
        passed = proven >= MIN_PROVEN_SHARE
        # The unproven share shrinks with the square root of the number of samples.
        needed = trials * ((1 - proven) / (1 - MIN_PROVEN_SHARE)) ** 2
        advice = "" if passed else f"; take about {2 * needed:.0e} samples"
        measured = f"{proven:.1%} of epsilon proven{advice}"
        bound = f">= {MIN_PROVEN_SHARE:.0%}"
        checks.append(Check(mechanism, "enough evidence", measured, bound, passed))
    return checks
