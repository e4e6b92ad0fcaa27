"""The light bound: above the accountant's figure and above the exact one, and near both."""

from decimal import Decimal
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.privacy import COIN_RHO, Reporting, bound, central_epsilon
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.shuffle import compute_hockey_stick
from tests.privacy.exact import both, composed, delta_of, one_round
from tests.privacy.test_shuffle import SMALL_CROWDS
from tests.sampling import choose_cases

DELTA_6 = 1e-6
EPS_RHO = [
    (0.1, COIN_RHO),
    (0.5, 0.03),
    (1.0, 0.345),
    (2.5, 0.165),
    (2.5, COIN_RHO),
    (5.0, 0.032),
]


EPS_RHO += [(8.0, 0.01), (8.0, COIN_RHO)]


REPORTS_AND_EPOCHS = [(1, 1), (10, 1), (100, 20)]


def finer(groups: list[Group], delta: float) -> float:
    """Return the accountant's figure on a finer grid than an eighth of epsilon."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = min(event.epsilon for event, _ in groups) / 512
    parts = []
    for event, clients in groups:
        edges, deltas = compute_hockey_stick(event, clients, step)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, edges, deltas)
        one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        parts.append(one.self_compose(event.total))
    whole = reduce(lambda one, other: one.compose(other), parts)
    return float(whole.get_epsilon_for_delta(delta))


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 100, 1_000, 1_000_000])
def test_bound_is_slightly_above_the_accountant(clients: int) -> None:
    ratios = []
    # A million people and a small epsilon take the accountant, not the bound, many seconds each.
    kinds = (
        EPS_RHO
        if clients < 100_000
        else [kind for kind in EPS_RHO if kind[0] >= 5 or COIN_RHO in kind]
    )
    cases = choose_cases([*product(kinds, REPORTS_AND_EPOCHS)], 12)
    for (epsilon, rho), (reports, epochs) in cases:
        event = Reporting(epsilon, reports, epochs, rho)
        result = central_bound([Group(event, clients)], DELTA_6)
        central = central_epsilon(event, clients, DELTA_6)
        assert result <= event.pure
        if result < central:
            assert central <= 1.003 * result
            assert result >= (1 - 1e-4) * finer([Group(event, clients)], DELTA_6)
        if 0.05 <= central <= 10:
            ratios.append(result / central)
    assert max(ratios) < 1.17
    assert np.median(ratios) < 1.10


@pytest.mark.parametrize("dummies", [1, 50, 1_000, 75_040])
def test_bound_with_dummies_is_slightly_above_the_accountant(dummies: int) -> None:
    for (epsilon, rho), people in choose_cases([*product(EPS_RHO, (1, 100))], 8):
        event = Reporting(epsilon, 1, 2, rho, dummies)
        result = central_bound([Group(event, people)], DELTA_6)
        central = central_epsilon(event, people, DELTA_6)
        if central > 1.003 * result:  # the accountant's grid is coarse where hardly anything hides
            central = finer([Group(event, people)], DELTA_6)
        assert result <= event.pure
        assert central <= 1.003 * result
        assert not 0.05 <= central <= 10 or result < 1.17 * central


@pytest.mark.parametrize("rho", [0.02, 0.25, COIN_RHO])
@pytest.mark.parametrize(("clients", "reports", "dummies"), SMALL_CROWDS)
@pytest.mark.parametrize("epsilon", [0.4, 1.5, 5.0])
def test_bound_is_above_the_exact_epsilon(
    epsilon: float, clients: int, reports: int, dummies: int, rho: float
) -> None:
    event = Reporting(epsilon, reports, 1, rho, dummies)
    outcomes = composed(one_round(event, clients), reports)
    for delta in (1e-6, 1e-3, 1e-2, 0.1):
        result = central_bound([Group(event, clients)], delta)
        assert 0 <= result <= event.pure
        assert delta_of(outcomes, result) <= Decimal(delta)


# Several trainings, each with a crowd of its own.
GROUP_1 = Group(Reporting(5.0, 1, 2, 0.0318), 1_000)
GROUP_2 = Group(Reporting(2.5, 10, 2, 0.165), 5_000)
GROUP_3 = Group(Reporting(1.0, 30, 1, COIN_RHO), 300)


SEVERAL_GROUPS = [
    [GROUP_1, GROUP_2],
    [GROUP_1, GROUP_3],
    [GROUP_2, GROUP_3],
    [GROUP_1, GROUP_2, GROUP_3],
]


@pytest.mark.parametrize("groups", choose_cases(SEVERAL_GROUPS, 2))
def test_bound_of_groups_is_slightly_above_the_accountant(groups: list[Group]) -> None:
    result, central = central_bound(groups, DELTA_6), finer(groups, DELTA_6)
    assert central <= result <= 1.17 * central
    isolated = [central_bound([item], DELTA_6 / len(groups)) for item in groups]
    assert max(central_bound([item], DELTA_6) for item in groups) <= result <= sum(isolated) * 1.001
    assert central_bound(groups[::-1], DELTA_6) == pytest.approx(result, rel=1e-12)


SMALL_GROUPS = [
    Group(Reporting(0.4, 2, 1, COIN_RHO), 2),
    Group(Reporting(1.5, 1, 1, 0.25), 3),
    Group(Reporting(5.0, 1, 1, 0.02), 4),
    Group(Reporting(3.0, 2, 1, 0.02), 1),
    Group(Reporting(3.0, 1, 1, 0.1, 3), 1),
]


@pytest.mark.parametrize(("one", "other"), [*combinations(SMALL_GROUPS, 2)])
def test_bound_of_groups_is_above_the_exact_epsilon(one: Group, other: Group) -> None:
    outcomes = both(*(composed(one_round(*item), item.event.total) for item in (one, other)))
    for delta in (1e-6, 1e-3, 0.1):
        result = central_bound([one, other], delta)
        assert result <= one.event.pure + other.event.pure
        assert delta_of(outcomes, result) <= Decimal(delta)


@given(st.floats(0.2, 2.0), st.integers(2, 5_000))
@settings(max_examples=50)
def test_grouped_blanket_is_never_larger(epsilon: float, clients: int) -> None:
    # Each count is at least as likely to be reached as in the exact distribution.
    from scipy import stats

    event = Reporting(epsilon, 1, 1)
    sizes, chances = bound.blankets(event, clients, spread=35.0)
    exact = stats.binom(clients - 1, event.blanket)
    for most in range(int(sizes[0]), int(sizes[-1]) + 1):
        assert chances[sizes <= most].sum() >= exact.cdf(most - 1) - 1e-12


@given(st.integers(0, 3_000), st.floats(0.001, 1), st.floats(5, 60))
@settings(max_examples=50)
def test_cut_tails_of_a_binomial_are_negligible(n: int, p: float, spread: float) -> None:
    from scipy import stats

    values, chances = bound._binomial(n, p, spread)
    exact = stats.binom(n, p)
    unseen = exact.cdf(values[0] - 1) + exact.sf(values[-1])
    assert unseen <= 2 * np.exp(-spread) * (1 + 1e-6)
    assert chances == pytest.approx(exact.pmf(values) / (1 - unseen), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
def test_invalid_deltas_are_refused(delta: float) -> None:
    with pytest.raises(SettingsError, match="delta"):
        central_bound([Group(Reporting(1.0, 1, 1), 10)], delta)
