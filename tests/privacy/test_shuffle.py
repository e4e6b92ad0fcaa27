"""The central view: reference values, brute force on tiny crowds, monotone figures.

No delta is below the exact one, and none is far above it, also where sizes are grouped.
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

from sottovoce.core import Histories, Named, Shape
from sottovoce.errors import SettingsError
from sottovoce.privacy import (
    COIN_RHO,
    Reporting,
    central_epsilon,
    gaussian_mu,
    local_epsilon,
    shuffle,
)
from sottovoce.privacy.shuffle import (
    TAIL_PROBABILITY,
    _cut_tails,
    compute_hockey_stick,
    is_composed,
)
from tests.privacy.exact import binomial, composed, delta_of, exact_blanket, one_round, precisely

REFERENCE_CASES = [
    # (eps, k, T, n): an epoch at 1e-6 and 1e-8, a training at 1e-6 and 1e-8, mu
    ((0.5, 50, 20, 10_000), (0.149, 0.188), (0.738, 0.906), 0.17826),
    ((2.5, 100, 20, 50_000), (0.811, 0.994), (4.18, 4.96), 0.87113),
    ((2.5, 250, 20, 75_040), (1.068, 1.301), (5.60, 6.60), 1.12433),
    ((6.0, 250, 20, 50_000), (11.04, 12.79), (82.1, 89.8), 8.94918),
]


@pytest.mark.parametrize(("case", "epoch", "training", "mu"), REFERENCE_CASES)
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
    result = central_epsilon(Reporting(5.0, 1, 2, 0.0318), 75_040, 1e-6)
    assert result == pytest.approx(0.32, rel=0.02)


DUMMY_CASES = [
    # (eps, rho, T, n, D): a person in an epoch with this many others and dummies, at 1e-6
    *((10.0, 0.0011, 1, 75_040, dummies) for dummies in (18_760, 75_040, 300_160)),
    (10.0, 0.0011, 1, 100, 18_760),
    *((10.0, 0.0011, 1, 1, dummies) for dummies in (18_760, 75_040, 300_160)),
    (5.0, 0.0075, 2, 100, 75_040),
]
STATED_EPSILONS = [1.504, 0.656, 0.308, 1.74, 1.74, 0.672, 0.309, 0.171]


@pytest.mark.parametrize(("case", "stated"), list(zip(DUMMY_CASES, STATED_EPSILONS, strict=True)))
def test_dummies_agree_with_an_independent_computation(
    case: tuple[float, float, int, int, int], stated: float
) -> None:
    epsilon, rho, rounds, people, dummies = case
    result = central_epsilon(Reporting(epsilon, 1, rounds, rho, dummies), people, 1e-6)
    assert result == pytest.approx(stated, rel=0.01)
    below, above = fourier_deltas(*case, (1.01 * result, 0.99 * result))
    assert below < 1e-6 < above


def fourier_deltas(
    epsilon: float,
    rho: float,
    rounds: int,
    people: int,
    dummies: int,
    epsilons: tuple[float, ...],
) -> list[float]:
    """Compute deltas of the same pair of distributions by FFT convolution on a fine grid."""
    gamma, odds = 1 / (1 + rho * np.expm1(epsilon)), np.expm1(epsilon)
    finest, size = 1e-4, 2**18
    pmf = np.zeros(size)
    (first, people_pmf), (least, dummies_pmf) = (
        likely_counts(people - 1, gamma),
        likely_counts(dummies, 0.9 + 0.1 * gamma),
    )
    uniform_pmf = np.convolve(people_pmf, dummies_pmf)
    for place in range(0, len(uniform_pmf), max(len(uniform_pmf) // 40, 1)):
        m = first + least + place + 1
        counts = np.arange(*stats.binom(m, rho).ppf([1e-14, 1 - 1e-14]).astype(int))
        a, b = counts[:, None], counts[None, :]
        chance = stats.binom(m, rho).pmf(b) * stats.binom(m - b, rho / (1 - rho)).pmf(a)
        chance = chance * gamma * (1 + odds * a / m) * uniform_pmf[place]
        loss = np.log((m + odds * a) / (m + odds * b))
        places = np.rint(loss / finest).astype(int) + size // 2
        pmf += np.bincount(places.ravel(), chance.ravel(), minlength=size)
    pmf = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(pmf / pmf.sum())) ** rounds, size)
    losses = finest * np.fft.fftfreq(size, 1 / size)
    pmf = np.maximum(pmf, 0)
    return [float(np.sum(pmf * np.maximum(1 - np.exp(at - losses), 0))) for at in epsilons]


def likely_counts(n: int, p: float) -> tuple[int, np.ndarray]:
    """Return the first likely count, and the probabilities from there on."""
    counts = stats.binom(n, p)
    first, last = counts.ppf([1e-12, 1 - 1e-12]).astype(int) if n else (0, 0)
    return int(first), counts.pmf(np.arange(first, last + 1))


def test_dummies_are_divided_among_reports() -> None:
    """Divide dummies among a person's reports; more dummies never hide worse."""
    assert Reporting(2.5, 4, 1, 0.05, 11).cover == 2
    one, few, many = (
        central_epsilon(Reporting(2.5, 4, 1, 0.05, item), 1, 1e-6) for item in (3, 4, 10**6)
    )
    assert one == local_epsilon(Reporting(2.5, 4, 1, 0.05), 1e-6) >= few > many
    result = [central_epsilon(Reporting(2.5, 1, 1, 0.3, 10**n), 1, 1e-6) for n in (5, 8, 12, 23)]
    assert result == sorted(result, reverse=True)
    assert not is_composed(Reporting(2.5, 1, 1, 0.3, 10**12), 1)


Histogram = tuple[int, ...]


def shuffled(others: list[np.ndarray], victim: np.ndarray, directions: int) -> Counter[Histogram]:
    """Return the exact distribution of the histogram that the server sees in one round."""
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
    epsilon: float, others: list[np.ndarray], dummies: int, first: np.ndarray, second: np.ndarray
) -> float:
    """Return the exact delta of two laws of the victim's report, given those of the others."""
    directions = len(first)
    laws = [*others, *[np.full(directions, 1 / directions)] * dummies]
    one, other = (shuffled(laws, victim, directions) for victim in (first, second))
    return sum(max(0.0, p - exp(epsilon) * other[c]) for c, p in one.items())


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
@pytest.mark.parametrize(("honest", "dummies"), [(2, 0), (3, 0), (4, 0), (1, 1), (1, 3), (2, 2)])
def test_no_population_exceeds_the_stated_delta(epsilon: float, honest: int, dummies: int) -> None:
    """Try every pair of loud sets, overlapping ones too, with random sets of the others.

    Four signed directions: one loud (rho 1/4), or two (rho 1/2: the coin on two indices).
    """
    for size in (1, 2):
        event = Reporting(epsilon, 1, 1, size / 4, dummies)
        laws = [report_law(loud, event, 4) for loud in combinations(range(4), size)]
        step = epsilon / 16
        edges, deltas = compute_hockey_stick(event, honest, step)
        rng = np.random.default_rng(0)
        for first, second in product(laws, laws):
            others = [laws[i] for i in rng.integers(0, len(laws), honest - 1)]
            for at in (0.1 * epsilon, 0.4 * epsilon, 0.8 * epsilon):
                stated = deltas[np.searchsorted(edges * step, at, side="right") - 1]
                assert brute_delta(at, others, dummies, first, second) <= stated + 1e-12


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
@pytest.mark.parametrize(("honest", "dummies"), [(1, 4), (2, 0), (2, 3), (3, 2), (4, 1)])
def test_no_epoch_of_names_exceeds_the_stated_epsilon(
    epsilon: float, honest: int, dummies: int
) -> None:
    """Try every pair of latest items, with random ones of the others, by the mechanism's own law.

    Of several latest items, one is named; without any, the report names outcome 0.
    """
    mechanism = Named(Shape(2, 1, 0.0), epsilon, names=4)
    event = mechanism.event(1, 1, dummies)
    latest = [[], [0], [1], [0, 1]]
    nothing = np.zeros((0, 1), np.float32)
    densities = mechanism.densities(nothing, nothing, Histories.from_lists(latest, 2))
    laws = list(densities.astype(np.float64) / mechanism.names)
    deltas = (1e-3, 0.02, 0.1)
    stated = {delta: central_epsilon(event, honest, delta) for delta in deltas}
    assert stated[0.1] < epsilon
    rng, largest = np.random.default_rng(0), 0.0
    for first, second in product(laws, laws):
        others = [laws[i] for i in rng.integers(0, len(laws), honest - 1)]
        for delta, at in stated.items():
            actual = brute_delta(at, others, dummies, first, second)
            assert actual <= delta + 1e-6
            largest = max(largest, actual / delta)
    # The enumeration is not far from the bound: a figure that were too small would be seen.
    assert largest > 0.5


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("rho", [0.25, COIN_RHO])
def test_worst_case_is_reached_if_the_others_are_known(rho: float, dummies: int) -> None:
    """Compare with brute force if the other person's loud set is disjoint from both.

    The proof reveals reports that are not uniform. The brute force conditions on that.
    """
    epsilon, at = 1.5, 0.5
    event = Reporting(epsilon, 1, 1, rho, dummies)
    directions = 4
    loud = (0,) if rho == 0.25 else (0, 1)
    other = (2,) if rho == 0.25 else (2, 3)
    uniform = np.full(directions, 1 / directions)
    exact = 0.0
    people = ((0, 1 - event.blanket), (1, event.blanket))
    stored = stats.binom(dummies, 0.9 + 0.1 * event.blanket).pmf(np.arange(dummies + 1))
    for (blankets, chance), (counted, share) in product(people, enumerate(stored)):
        weight = chance * share
        hiding = [uniform] * (blankets + counted)
        first = shuffled(hiding, report_law(loud, event, directions), directions)
        second = shuffled(hiding, report_law(other, event, directions), directions)
        exact += weight * sum(max(0.0, p - exp(at) * second[c]) for c, p in first.items())
    step = at / 50
    edges, deltas = compute_hockey_stick(event, 2, step)
    assert deltas[np.flatnonzero(edges == 50)[0]] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    "event", [Reporting(2.5, 100, 20, 0.058), Reporting(12.0, 1, 1, 0.01), Reporting(5.0, 1, 2)]
)
def test_central_epsilon_never_exceeds_local(event: Reporting) -> None:
    local = local_epsilon(event, 1e-6)
    assert local < event.pure
    assert central_epsilon(event, 1, 1e-6) == local
    assert all(central_epsilon(event, n, 1e-6) <= local for n in (2, 3, 10, 100, 1_000))


@pytest.mark.parametrize("rho", [0.058, COIN_RHO])
def test_larger_crowd_never_hides_worse(rho: float) -> None:
    event = Reporting(2.5, 1, 1, rho)
    result = [central_epsilon(event, 10**n, 1e-6) for n in (5, 9, 12, 23)]
    assert result == sorted(result, reverse=True)
    assert is_composed(event, 10**6)
    assert not is_composed(event, 10**12)


def test_many_reports_have_a_bound() -> None:
    event = Reporting(2.5, 10**9, 10**11, 0.058)
    few, many = 2, 50_000
    assert not is_composed(event, many)
    assert 0 < central_epsilon(event, many, 1e-6) < central_epsilon(event, few, 1e-6)
    assert central_epsilon(event, few, 1e-6) <= local_epsilon(event, 1e-6) < event.pure


def test_central_epsilon_approaches_the_gaussian() -> None:
    """Compare with mu for many people and reports, within 2%."""
    from sottovoce.privacy import max_gaussian_mu

    event = Reporting(1.0, 500, 10, 0.345)
    result = central_epsilon(event, 100_000, 1e-6)
    assert max_gaussian_mu(result, 1e-6) == pytest.approx(gaussian_mu(event, 100_000), rel=0.02)


@pytest.mark.parametrize("rho", [COIN_RHO, 0.1, 1e-6])
@pytest.mark.parametrize("epsilon", [28.0, 32.0, 40.0])
def test_large_epsilon_gives_no_warning(epsilon: float, rho: float) -> None:
    """Try epsilons at which random reports are too rare for scipy's quantiles to converge."""
    for people in (10, 1_000, 1_000_000):
        result = central_epsilon(Reporting(epsilon, 1, 1, rho), people, 1e-6)
        assert 0 < result <= epsilon


def test_rare_counts_are_within_the_cut() -> None:
    """Use a case where scipy's quantile is 0, but one count in 3e8 is larger."""
    n, p = 10**9, 3e-18
    assert _cut_tails(n, p) == (0, 1)
    assert stats.binom(n, p).sf(0) > TAIL_PROBABILITY > stats.binom(n, p).sf(1)
    fair = stats.binom(n, 0.5)
    ends = int(fair.ppf(TAIL_PROBABILITY)), int(fair.isf(TAIL_PROBABILITY))
    assert _cut_tails(n, 0.5) == ends


COIN_EVENT = Reporting(log(3), 1, 1)
# About 600 of them are uniform, so that sizes of the blanket are grouped by threes.
COIN_CLIENTS = 1_201
GRID_STEP = 0.01
# Larger than every loss that is enumerated: only the tails remain.
BEYOND_LOSSES = 0.55
MAX_ERROR = Decimal("1e-9")


@precisely
def exact_coin(epsilons: list[float]) -> list[Decimal]:
    """Return a lower bound of the deltas of one round of `COIN_EVENT`; without rare sizes."""
    gamma, odds = exact_blanket(COIN_EVENT), Decimal(COIN_EVENT.epsilon).exp() - 1
    grown = [Decimal(epsilon).exp() for epsilon in epsilons]
    out = [Decimal(0)] * len(epsilons)
    for others in range(COIN_CLIENTS):
        weight = binomial(COIN_CLIENTS - 1, gamma, others)
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
    epsilons = [0.05, 0.1, 0.2, 0.3, BEYOND_LOSSES]
    return dict(zip(epsilons, exact_coin(epsilons), strict=True))


def stated(epsilon: float) -> Decimal:
    edges, deltas = shuffle.compute_hockey_stick(COIN_EVENT, COIN_CLIENTS, GRID_STEP)
    return Decimal(float(deltas[np.flatnonzero(edges == round(epsilon / GRID_STEP))[0]]))


def test_stated_delta_with_grouped_sizes_is_never_too_small(exact: dict[float, Decimal]) -> None:
    for epsilon, delta in exact.items():
        assert (
            delta * (1 - MAX_ERROR) <= stated(epsilon) <= delta * Decimal("1.1") + Decimal("1e-15")
        )


def test_central_epsilon_is_never_too_small(exact: dict[float, Decimal]) -> None:
    for epsilon in (0.05, 0.1, 0.2):
        result = central_epsilon(COIN_EVENT, COIN_CLIENTS, float(exact[epsilon]))
        assert epsilon <= result <= 1.02 * epsilon


# Honest people, reports of each person, dummies. With five dummies for two reports each has two.
SMALL_CROWDS = [(2, 1, 0), (2, 3, 0), (3, 2, 0), (6, 1, 0), (1, 1, 4), (1, 2, 5), (3, 2, 2)]


@pytest.mark.parametrize("rho", [0.1, 0.25, COIN_RHO])
@pytest.mark.parametrize(("clients", "reports", "dummies"), SMALL_CROWDS)
def test_central_epsilon_of_small_crowds_is_never_too_small(
    rho: float, clients: int, reports: int, dummies: int
) -> None:
    event = Reporting(1.5, reports, 1, rho, dummies)
    outcomes = composed(one_round(event, clients), reports)
    for delta in (1e-3, 1e-2, 0.05):
        result = central_epsilon(event, clients, delta)
        assert delta_of(outcomes, result) <= Decimal(delta) * (1 + MAX_ERROR)
        assert result == event.pure or delta_of(outcomes, 0.93 * result) > Decimal(delta)


def test_invalid_arguments_are_refused() -> None:
    refused: list[Callable[[], object]] = [
        *(partial(central_epsilon, COIN_EVENT, people, 1e-6) for people in (0, 10**400)),
        partial(Reporting, 1.0, 10**200, 10**200),
        *(partial(central_epsilon, COIN_EVENT, 10, delta) for delta in (0.0, 1.0, -1.0)),
    ]
    for bad in refused:
        with pytest.raises(SettingsError):
            bad()


def test_fewer_loud_directions_hide_worse_among_dummies() -> None:
    """Check why terms fix rho: a smaller one is better in a crowd, and worse among dummies."""
    stated, actual = (Reporting(10.0, 1, 1, loud / 136_934, 20_628) for loud in (302, 75))
    assert central_epsilon(stated, 1, 1e-6) < 1.01
    assert central_epsilon(actual, 1, 1e-6) > 2.8
    stated, actual = (replace(event, dummies=0, epsilon=3.0) for event in (stated, actual))
    assert central_epsilon(actual, 10_000, 1e-6) < central_epsilon(stated, 10_000, 1e-6)
