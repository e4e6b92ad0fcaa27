"""Exact deltas of the worst pair of histories (docs/privacy.md), as sums with 60 digits.

Nothing is cut, grouped or rounded to a grid: a smaller stated delta would be a broken promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import wraps
from itertools import product
from math import comb
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.privacy import Reporting

Args = ParamSpec("Args")
Result = TypeVar("Result")
# The probabilities of an outcome under the one history and under the other.
Pair = tuple[Decimal, Decimal]


def precisely(function: Callable[Args, Result]) -> Callable[Args, Result]:
    @wraps(function)
    def run(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        with localcontext() as context:
            context.prec = 60
            return function(*args, **kwargs)

    return run


def binomial(n: int, p: Decimal, k: int) -> Decimal:
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def exact_blanket(event: Reporting) -> Decimal:
    return 1 / (1 + Decimal(event.loud_fraction) * (Decimal(event.epsilon).exp() - 1))


def exact_dummy_share(event: Reporting) -> Decimal:
    return Decimal(9) / 10 + exact_blanket(event) / 10


def _outcomes(event: Reporting, m: int) -> Iterator[Pair]:
    """Yield the outcomes with m reports left, a in one loud set and b in the other."""
    rho, gamma = Decimal(event.loud_fraction), exact_blanket(event)
    odds = Decimal(event.epsilon).exp() - 1
    for a in range(m + 1):
        for b in range(m - a + 1) if rho < Decimal("0.5") else [m - a]:
            rest = (1 - 2 * rho) ** (m - a - b) if a + b < m else 1
            ways = comb(m, a) * comb(m - a, b) * rho ** (a + b) * rest
            yield ways * gamma * (1 + odds * a / m), ways * gamma * (1 + odds * b / m)


@precisely
def one_round(event: Reporting, clients: int) -> list[Pair]:
    """Return all outcomes of one round, grouped by their loss."""
    by_loss: dict[Decimal, Pair] = {}
    for others, dummies in product(range(clients), range(event.cover + 1)):
        weight = binomial(clients - 1, exact_blanket(event), others)
        weight *= binomial(event.cover, exact_dummy_share(event), dummies)
        for p, q in _outcomes(event, others + dummies + 1):
            loss = round(p / q, 40)
            before = by_loss.get(loss, (Decimal(0), Decimal(0)))
            by_loss[loss] = (before[0] + weight * p, before[1] + weight * q)
    return list(by_loss.values())


@precisely
def composed(rounds: list[Pair], times: int) -> list[Pair]:
    """Compose a round with itself this many times."""
    out: Counter[tuple[int, ...]] = Counter(
        tuple(sorted(item)) for item in product(range(len(rounds)), repeat=times)
    )
    pairs = []
    for sequence, ways in out.items():
        p, q = Decimal(ways), Decimal(ways)
        for index in sequence:
            p, q = p * rounds[index][0], q * rounds[index][1]
        pairs.append((p, q))
    return pairs


@precisely
def both(one: list[Pair], other: list[Pair]) -> list[Pair]:
    """Compose two different rounds."""
    return [(p * r, q * s) for (p, q), (r, s) in product(one, other)]


@precisely
def delta_of(pairs: list[Pair], epsilon: float) -> Decimal:
    grown = Decimal(epsilon).exp()
    return sum((max(Decimal(0), p - grown * q) for p, q in pairs), Decimal(0))
