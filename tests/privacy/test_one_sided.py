"""No stated delta lies below the exact one, and none far above: where sizes are grouped, too."""

from __future__ import annotations

from decimal import Decimal
from math import log

import numpy as np
import pytest

from sottovoce.privacy import (
    SIGN,
    Crowd,
    Reporting,
    central_epsilon,
    local_delta,
    local_epsilon,
    shuffle,
)
from sottovoce.privacy import local as local_view
from tests.privacy.exact import (
    Pair,
    binomial,
    composed,
    delta_of,
    exact_blanket,
    one_round,
    precisely,
)

COIN = Reporting(log(3), 1, 1)
CLIENTS = 1_201
"""About 600 of them uniform: sizes of the blanket are grouped by threes."""
STEP = 0.01
FAR = 0.55
"""Beyond every loss that is looked at: what is left are the ends that are not."""
ROUNDING = Decimal("1e-9")


@precisely
def exact_coin(epsilons: list[float]) -> list[Decimal]:
    """Of one round of `COIN`, but for sizes with a chance below 1e-25: never too much."""
    gamma, odds = exact_blanket(COIN), Decimal(COIN.epsilon).exp() - 1
    grown = [Decimal(epsilon).exp() for epsilon in epsilons]
    out = [Decimal(0)] * len(epsilons)
    for others in range(CLIENTS):
        weight = binomial(CLIENTS - 1, gamma, others)
        if weight < Decimal("1e-25"):
            continue
        m, ways = others + 1, Decimal(2) ** -(others + 1)
        for a in range(m, m // 2, -1):
            p, q = (weight * ways * gamma * (1 + odds * count / m) for count in (a, m - a))
            for i, factor in enumerate(grown):
                out[i] += max(Decimal(0), p - factor * q)
            ways = ways * a / (m - a + 1)
    return out


@pytest.fixture(scope="module")
def exact() -> dict[float, Decimal]:
    epsilons = [0.05, 0.1, 0.2, 0.3, FAR]
    return dict(zip(epsilons, exact_coin(epsilons), strict=True))


def stated(epsilon: float) -> Decimal:
    edges, deltas = shuffle.hockey_stick(COIN, CLIENTS, STEP)
    return Decimal(float(deltas[np.flatnonzero(edges == round(epsilon / STEP))[0]]))


def test_grouped_sizes_never_promise_too_much(exact: dict[float, Decimal]) -> None:
    for epsilon, delta in exact.items():
        assert (
            delta * (1 - ROUNDING) <= stated(epsilon) <= delta * Decimal("1.1") + Decimal("1e-15")
        )


def test_the_figure_itself_never_promises_too_much(exact: dict[float, Decimal]) -> None:
    for epsilon in (0.05, 0.1, 0.2):
        found = central_epsilon(COIN, Crowd(CLIENTS), float(exact[epsilon]))
        assert epsilon <= found <= 1.02 * epsilon


def test_it_would_notice_groups_at_their_largest_size(
    exact: dict[float, Decimal], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = shuffle.blanket_sizes(COIN, CLIENTS)
    starts = [m for m, _ in groups]
    assert max(np.diff(starts)) == 3
    largest = [(after - 1, chance) for after, (_, chance) in zip(starts[1:], groups, strict=False)]
    monkeypatch.setattr(shuffle, "blanket_sizes", lambda *_: [*largest, groups[-1]])
    assert all(stated(epsilon) < exact[epsilon] * (1 - ROUNDING) for epsilon in (0.05, 0.1, 0.2))


def test_it_would_notice_ends_that_nobody_counted(
    exact: dict[float, Decimal], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stated(FAR) >= exact[FAR]
    monkeypatch.setattr(shuffle, "UNSEEN", 0.0)
    assert stated(FAR) < exact[FAR]


@pytest.mark.parametrize("rho", [0.1, 0.25, SIGN])
@pytest.mark.parametrize(("clients", "reports"), [(2, 1), (2, 3), (3, 2), (6, 1)])
def test_small_crowds_are_never_promised_too_much(rho: float, clients: int, reports: int) -> None:
    event = Reporting(1.5, reports, 1, rho)
    outcomes = composed(one_round(event, clients), reports)
    for delta in (1e-3, 1e-2, 0.05):
        found = central_epsilon(event, Crowd(clients), delta)
        assert delta_of(outcomes, found) <= Decimal(delta) * (1 + ROUNDING)
        assert found == event.pure or delta_of(outcomes, 0.93 * found) > Decimal(delta)


LINKED = Reporting(1.0, 120, 1, 0.05)
"""Most reports lose nothing, so that nearly all of the possible numbers of steps are left out."""


@precisely
def exact_linked(epsilon: float) -> Decimal:
    """Multinomial: `up` reports lose +1, `down` of them -1, the others nothing."""
    rho, gamma, n = Decimal(LINKED.loud_fraction), exact_blanket(LINKED), LINKED.total
    loud, other = gamma * rho * Decimal(LINKED.epsilon).exp(), gamma * rho
    pairs: list[Pair] = []
    for moved in range(n + 1):
        ways = binomial(n, loud + other, moved)
        for up in range(moved + 1):
            share = loud / (loud + other)
            pairs.append((ways * binomial(moved, share, up), ways * binomial(moved, 1 - share, up)))
    return delta_of(pairs, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 3.5, 10.5, 20.5, 30.5, 50.5])
def test_linked_reports_are_never_promised_too_much(epsilon: float) -> None:
    delta = exact_linked(epsilon)
    found = Decimal(local_delta(LINKED, epsilon))
    assert delta * (1 - ROUNDING) <= found <= delta * (1 + ROUNDING) + Decimal("1e-15")


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_a_linked_figure_is_never_too_small(delta: float) -> None:
    found = local_epsilon(LINKED, delta)
    assert exact_linked(found) <= Decimal(delta) <= exact_linked(found * (1 - 1e-6))


def test_it_would_notice_steps_that_nobody_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    far = 50.5
    loss, chances = local_view._losses(LINKED)
    chances[-1] = 0.0
    monkeypatch.setattr(local_view, "_losses", lambda _: (loss, chances))
    assert Decimal(local_delta(LINKED, far)) < exact_linked(far)
