"""The central view: reference values, brute force on tiny crowds, what must be monotone; no stated
delta lies below the exact one, and none far above, where sizes are grouped too.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import combinations, product
from math import exp, log

import numpy as np
import pytest
from scipy import stats

from sottovoce.errors import SettingsError
from sottovoce.privacy import SIGN, Reporting, central_epsilon, gaussian_mu, local_epsilon, shuffle
from sottovoce.privacy.shuffle import TAIL, _ends, hockey_stick, is_composed
from tests.privacy.exact import binomial, composed, delta_of, exact_blanket, one_round, precisely

REFERENCE = [
    # (eps, k, T, n): an epoch at 1e-6 and 1e-8, a training at 1e-6 and 1e-8, mu
    ((0.5, 50, 20, 10_000), (0.149, 0.188), (0.738, 0.906), 0.17826),
    ((2.5, 100, 20, 50_000), (0.811, 0.994), (4.18, 4.96), 0.87113),
    ((2.5, 250, 20, 75_040), (1.068, 1.301), (5.60, 6.60), 1.12433),
    ((6.0, 250, 20, 50_000), (11.04, 12.79), (82.1, 89.8), 8.94918),
]


@pytest.mark.parametrize(("case", "epoch", "training", "mu"), REFERENCE)
def test_reference_values_of_the_coin(
    case: tuple[float, int, int, int],
    epoch: tuple[float, float],
    training: tuple[float, float],
    mu: float,
) -> None:
    epsilon, reports, epochs, clients = case
    event, crowd = Reporting(epsilon, reports, epochs), clients
    for delta, one, whole in zip((1e-6, 1e-8), epoch, training, strict=True):
        assert central_epsilon(event.one_epoch(), crowd, delta) == pytest.approx(one, rel=0.01)
        assert central_epsilon(event, crowd, delta) == pytest.approx(whole, rel=0.01)
    assert gaussian_mu(event, clients) == pytest.approx(mu, rel=1e-4)


def test_reference_value_of_loudest() -> None:
    found = central_epsilon(Reporting(5.0, 1, 2, 0.0318), 75_040, 1e-6)
    assert found == pytest.approx(0.32, rel=0.02)


DUMMIES = [
    # (eps, rho, T, n, D): a person in an epoch with so many others and dummies, at 1e-6
    *((10.0, 0.0011, 1, 75_040, dummies) for dummies in (18_760, 75_040, 300_160)),
    (10.0, 0.0011, 1, 100, 18_760),
    *((10.0, 0.0011, 1, 1, dummies) for dummies in (18_760, 75_040, 300_160)),
    (5.0, 0.0075, 2, 100, 75_040),
]
STATED = [1.41, 0.62, 0.292, 1.59, 1.59, 0.635, 0.294, 0.166]


@pytest.mark.parametrize(("case", "stated"), list(zip(DUMMIES, STATED, strict=True)))
def test_dummies_hide_as_an_independent_computation_says(
    case: tuple[float, float, int, int, int], stated: float
) -> None:
    epsilon, rho, rounds, people, dummies = case
    found = central_epsilon(Reporting(epsilon, 1, rounds, rho, dummies), people, 1e-6)
    assert found == pytest.approx(stated, rel=0.01)
    below, above = fourier_deltas(*case, (1.01 * found, 0.99 * found))
    assert below < 1e-6 < above


def fourier_deltas(
    epsilon: float,
    rho: float,
    rounds: int,
    people: int,
    dummies: int,
    epsilons: tuple[float, ...],
) -> list[float]:
    """Of the same pair of laws: losses of every outcome on a fine grid, convolved by FFT."""
    gamma, odds = 1 / (1 + rho * np.expm1(epsilon)), np.expm1(epsilon)
    others, finest, size = stats.binom(people - 1, gamma), 1e-4, 2**18
    pmf = np.zeros(size)
    low, high = others.ppf([1e-12, 1 - 1e-12]).astype(int) if people > 1 else (0, 0)
    for uniform in range(low, high + 1, max((high - low) // 40, 1)):
        m = uniform + dummies + 1
        counts = np.arange(*stats.binom(m, rho).ppf([1e-14, 1 - 1e-14]).astype(int))
        a, b = counts[:, None], counts[None, :]
        chance = stats.binom(m, rho).pmf(b) * stats.binom(m - b, rho / (1 - rho)).pmf(a)
        chance = chance * gamma * (1 + odds * a / m) * others.pmf(uniform)
        loss = np.log((m + odds * a) / (m + odds * b))
        places = np.rint(loss / finest).astype(int) + size // 2
        pmf += np.bincount(places.ravel(), chance.ravel(), minlength=size)
    pmf = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(pmf / pmf.sum())) ** rounds, size)
    losses = finest * np.fft.fftfreq(size, 1 / size)
    pmf = np.maximum(pmf, 0)
    return [float(np.sum(pmf * np.maximum(1 - np.exp(at - losses), 0))) for at in epsilons]


def test_so_many_dummies_are_counted_as_can_be() -> None:
    """They are shared out among a person's reports; a huge number hides no worse than a smaller."""
    assert Reporting(2.5, 4, 1, 0.05, 11).cover == 2
    one, few, many = (
        central_epsilon(Reporting(2.5, 4, 1, 0.05, each), 1, 1e-6) for each in (3, 4, 10**9)
    )
    assert one == local_epsilon(Reporting(2.5, 4, 1, 0.05), 1e-6) >= few > many
    found = [central_epsilon(Reporting(2.5, 1, 1, 0.3, 10**n), 1, 1e-6) for n in (6, 8, 12, 23)]
    assert found == sorted(found, reverse=True)
    assert not is_composed(Reporting(2.5, 1, 1, 0.3, 10**12), 1)


Histogram = tuple[int, ...]


def shuffled(others: list[np.ndarray], victim: np.ndarray, directions: int) -> Counter[Histogram]:
    """The exact distribution of the histogram that the server sees of one round."""
    out: Counter[Histogram] = Counter()
    out[(0,) * directions] = 1
    for person in [*others, victim]:
        after: Counter[Histogram] = Counter()
        for counts, chance in out.items():
            for y in range(directions):
                more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                after[more] += chance * person[y]
        out = after
    return out


def report_law(loud: tuple[int, ...], event: Reporting, directions: int) -> np.ndarray:
    law = np.full(directions, event.blanket / directions)
    law[list(loud)] *= exp(event.epsilon)
    return law


def brute_delta(
    event: Reporting,
    epsilon: float,
    others: list[tuple[int, ...]],
    pair: tuple[tuple[int, ...], tuple[int, ...]],
    directions: int,
) -> float:
    nobody = [np.full(directions, 1 / directions)] * event.dummies
    laws = [*(report_law(loud, event, directions) for loud in others), *nobody]
    first, second = (shuffled(laws, report_law(v, event, directions), directions) for v in pair)
    return sum(max(0.0, p - exp(epsilon) * second[c]) for c, p in first.items())


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
@pytest.mark.parametrize(("honest", "dummies"), [(2, 0), (3, 0), (4, 0), (1, 1), (1, 3), (2, 2)])
def test_no_population_is_worse_than_the_accountant_says(
    epsilon: float, honest: int, dummies: int
) -> None:
    """Every pair of loud sets, overlapping ones too, and every choice of the others' sets.

    Four signed directions: one loud (rho 1/4), or two (rho 1/2: the coin on two indices).
    """
    for size in (1, 2):
        sets = list(combinations(range(4), size))
        event = Reporting(epsilon, 1, 1, size / 4, dummies)
        step = epsilon / 16
        edges, deltas = hockey_stick(event, honest, step)
        rng = np.random.default_rng(0)
        for first, second in product(sets, sets):
            others = [sets[i] for i in rng.integers(0, len(sets), honest - 1)]
            for at in (0.1 * epsilon, 0.4 * epsilon, 0.8 * epsilon):
                stated = deltas[np.searchsorted(edges * step, at, side="right") - 1]
                assert brute_delta(event, at, others, (first, second), 4) <= stated + 1e-12


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("rho", [0.25, SIGN])
def test_the_worst_case_is_reached_when_the_others_give_everything_away(
    rho: float, dummies: int
) -> None:
    """Others whose own loud set is apart from both: what the proof gives away is then visible.

    With one other person the bound is what brute force finds, but for their non-uniform report
    being known: condition on that by hand.
    """
    epsilon, at = 1.5, 0.5
    event = Reporting(epsilon, 1, 1, rho, dummies)
    directions = 4
    loud = (0,) if rho == 0.25 else (0, 1)
    other = (2,) if rho == 0.25 else (2, 3)
    uniform = np.full(directions, 1 / directions)
    exact = 0.0
    for blankets, weight in ((0, 1 - event.blanket), (1, event.blanket)):
        hiding = [uniform] * (blankets + dummies)
        first = shuffled(hiding, report_law(loud, event, directions), directions)
        second = shuffled(hiding, report_law(other, event, directions), directions)
        exact += weight * sum(max(0.0, p - exp(at) * second[c]) for c, p in first.items())
    step = at / 50
    edges, deltas = hockey_stick(event, 2, step)
    assert deltas[np.flatnonzero(edges == 50)[0]] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    "event", [Reporting(2.5, 100, 20, 0.058), Reporting(12.0, 1, 1, 0.01), Reporting(5.0, 1, 2)]
)
def test_no_crowd_makes_it_worse_than_local(event: Reporting) -> None:
    local = local_epsilon(event, 1e-6)
    assert local < event.pure
    assert central_epsilon(event, 1, 1e-6) == local
    assert all(central_epsilon(event, n, 1e-6) <= local for n in (2, 3, 10, 100, 1_000))


@pytest.mark.parametrize("rho", [0.058, SIGN])
def test_a_huge_crowd_hides_no_worse_than_a_smaller_one(rho: float) -> None:
    event = Reporting(2.5, 1, 1, rho)
    found = [central_epsilon(event, 10**n, 1e-6) for n in (5, 6, 9, 12, 23)]
    assert found == sorted(found, reverse=True)
    assert is_composed(event, 10**6)
    assert not is_composed(event, 10**12)


def test_very_many_reports_are_bounded() -> None:
    event = Reporting(2.5, 10**9, 10**11, 0.058)
    few, many = 2, 50_000
    assert not is_composed(event, many)
    assert 0 < central_epsilon(event, many, 1e-6) < central_epsilon(event, few, 1e-6)
    assert central_epsilon(event, few, 1e-6) <= local_epsilon(event, 1e-6) < event.pure


def test_it_tends_to_the_gaussian() -> None:
    """With many people and reports the exact figure is that of mu, within 2%."""
    from sottovoce.privacy import mu_within

    event = Reporting(1.0, 500, 10, 0.345)
    found = central_epsilon(event, 100_000, 1e-6)
    assert mu_within(found, 1e-6) == pytest.approx(gaussian_mu(event, 100_000), rel=0.02)


@pytest.mark.parametrize("rho", [SIGN, 0.1, 1e-6])
@pytest.mark.parametrize("epsilon", [28.0, 32.0, 40.0])
def test_a_large_epsilon_is_accounted_for_without_a_warning(epsilon: float, rho: float) -> None:
    """Hardly anybody reports at random then, and quantiles of so rare a count do not converge."""
    for people in (10, 1_000, 1_000_000):
        found = central_epsilon(Reporting(epsilon, 1, 1, rho), people, 1e-6)
        assert 0 < found <= epsilon


def test_counts_that_are_rare_are_looked_at() -> None:
    """scipy's quantile says 0 here, where one in 3e8 is more."""
    n, p = 10**9, 3e-18
    assert _ends(n, p) == (0, 1)
    assert stats.binom(n, p).sf(0) > TAIL > stats.binom(n, p).sf(1)
    assert _ends(n, 0.5) == (int(stats.binom(n, 0.5).ppf(TAIL)), int(stats.binom(n, 0.5).isf(TAIL)))


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
        found = central_epsilon(COIN, CLIENTS, float(exact[epsilon]))
        assert epsilon <= found <= 1.02 * epsilon


SMALL_CROWDS = [(2, 1, 0), (2, 3, 0), (3, 2, 0), (6, 1, 0), (1, 1, 4), (1, 2, 5), (3, 2, 2)]
"""Honest people, reports of each, dummies: of five for two reports each has two."""


@pytest.mark.parametrize("rho", [0.1, 0.25, SIGN])
@pytest.mark.parametrize(("clients", "reports", "dummies"), SMALL_CROWDS)
def test_small_crowds_are_never_promised_too_much(
    rho: float, clients: int, reports: int, dummies: int
) -> None:
    event = Reporting(1.5, reports, 1, rho, dummies)
    outcomes = composed(one_round(event, clients), reports)
    for delta in (1e-3, 1e-2, 0.05):
        found = central_epsilon(event, clients, delta)
        assert delta_of(outcomes, found) <= Decimal(delta) * (1 + ROUNDING)
        assert found == event.pure or delta_of(outcomes, 0.93 * found) > Decimal(delta)


def test_what_cannot_be_is_refused() -> None:
    refused: list[Callable[[], object]] = [
        *(partial(central_epsilon, COIN, people, 1e-6) for people in (0, 10**400)),
        partial(Reporting, 1.0, 10**200, 10**200),
        *(partial(central_epsilon, COIN, 10, delta) for delta in (0.0, 1.0, -1.0)),
    ]
    for bad in refused:
        with pytest.raises(SettingsError):
            bad()


def test_among_dummies_fewer_loud_directions_hide_less() -> None:
    """So rho is a term of which less is no better, unlike in a crowd alone."""
    stated, actual = (Reporting(10.0, 1, 1, loud / 136_934, 18_573) for loud in (302, 75))
    assert central_epsilon(stated, 1, 1e-6) < 1.01
    assert central_epsilon(actual, 1, 1e-6) > 2.8
    stated, actual = (replace(event, dummies=0, epsilon=3.0) for event in (stated, actual))
    assert central_epsilon(actual, 10_000, 1e-6) < central_epsilon(stated, 10_000, 1e-6)
