"""The light bound: above the accountant's figure and above the exact one, and near both."""

from decimal import Decimal
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.privacy import SIGN, Reporting, bound, central_epsilon
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.shuffle import hockey_stick
from tests.privacy.exact import both, composed, delta_of, one_round
from tests.privacy.test_shuffle import SMALL_CROWDS

DELTA = 1e-6
KINDS = [(0.1, SIGN), (0.5, 0.03), (1.0, 0.345), (2.5, 0.165), (2.5, SIGN), (5.0, 0.032)]


KINDS += [(8.0, 0.01), (8.0, SIGN)]


SPANS = [(1, 1), (10, 1), (100, 20)]


def finer(groups: list[Group], delta: float) -> float:
    """The accountant's figure where its grid, an eighth of epsilon for small crowds, is coarse."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = min(event.epsilon for event, _ in groups) / 512
    parts = []
    for event, clients in groups:
        edges, deltas = hockey_stick(event, clients, step)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, edges, deltas)
        one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        parts.append(one.self_compose(event.total))
    whole = reduce(lambda one, other: one.compose(other), parts)
    return float(whole.get_epsilon_for_delta(delta))


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 100, 1_000, 1_000_000])
def test_it_is_above_the_accountants_figure_and_near(clients: int) -> None:
    ratios = []
    # A million people and a small epsilon take the accountant, not the bound, many seconds each.
    kinds = KINDS if clients < 100_000 else [kind for kind in KINDS if kind[0] >= 5 or SIGN in kind]
    for (epsilon, rho), (reports, epochs) in product(kinds, SPANS):
        event = Reporting(epsilon, reports, epochs, rho)
        found = central_bound([Group(event, clients)], DELTA)
        central = central_epsilon(event, clients, DELTA)
        assert found <= event.pure
        if found < central:
            assert central <= 1.003 * found
            assert found >= (1 - 1e-4) * finer([Group(event, clients)], DELTA)
        if 0.05 <= central <= 10:
            ratios.append(found / central)
    assert max(ratios) < 1.17
    assert np.median(ratios) < 1.10


@pytest.mark.parametrize("dummies", [1, 50, 1_000, 75_040])
def test_with_dummies_it_is_above_the_accountants_figure_and_near(dummies: int) -> None:
    for (epsilon, rho), people in product(KINDS, (1, 100)):
        event = Reporting(epsilon, 1, 2, rho, dummies)
        found = central_bound([Group(event, people)], DELTA)
        central = central_epsilon(event, people, DELTA)
        assert found <= event.pure
        assert central <= 1.003 * found
        assert not 0.05 <= central <= 10 or found < 1.17 * central


@pytest.mark.parametrize("rho", [0.02, 0.25, SIGN])
@pytest.mark.parametrize(("clients", "reports", "dummies"), SMALL_CROWDS)
@pytest.mark.parametrize("epsilon", [0.4, 1.5, 5.0])
def test_it_is_above_the_exact_one(
    epsilon: float, clients: int, reports: int, dummies: int, rho: float
) -> None:
    event = Reporting(epsilon, reports, 1, rho, dummies)
    outcomes = composed(one_round(event, clients), reports)
    for delta in (1e-6, 1e-3, 1e-2, 0.1):
        found = central_bound([Group(event, clients)], delta)
        assert 0 <= found <= event.pure
        assert delta_of(outcomes, found) <= Decimal(delta)


# Several trainings, each with a crowd of its own.
FIRST = Group(Reporting(5.0, 1, 2, 0.0318), 1_000)
SECOND = Group(Reporting(2.5, 10, 2, 0.165), 5_000)
THIRD = Group(Reporting(1.0, 30, 1, SIGN), 300)


@pytest.mark.parametrize(
    "groups", [[FIRST, SECOND], [FIRST, THIRD], [SECOND, THIRD], [FIRST, SECOND, THIRD]]
)
def test_groups_together_are_above_the_accountants_figure_and_near(groups: list[Group]) -> None:
    found, central = central_bound(groups, DELTA), finer(groups, DELTA)
    assert central <= found <= 1.17 * central
    alone = [central_bound([each], DELTA / len(groups)) for each in groups]
    assert max(central_bound([each], DELTA) for each in groups) <= found <= sum(alone) * 1.001
    assert central_bound(groups[::-1], DELTA) == pytest.approx(found, rel=1e-12)


SMALL = [
    Group(Reporting(0.4, 2, 1, SIGN), 2),
    Group(Reporting(1.5, 1, 1, 0.25), 3),
    Group(Reporting(5.0, 1, 1, 0.02), 4),
    Group(Reporting(3.0, 2, 1, 0.02), 1),
    Group(Reporting(3.0, 1, 1, 0.1, 3), 1),
]


@pytest.mark.parametrize(("one", "other"), [*combinations(SMALL, 2)])
def test_groups_together_are_above_the_exact_figure(one: Group, other: Group) -> None:
    outcomes = both(*(composed(one_round(*each), each.event.total) for each in (one, other)))
    for delta in (1e-6, 1e-3, 0.1):
        found = central_bound([one, other], delta)
        assert found <= one.event.pure + other.event.pure
        assert delta_of(outcomes, found) <= Decimal(delta)


@given(st.floats(0.2, 2.0), st.integers(2, 5_000))
@settings(max_examples=50)
def test_a_grouped_blanket_is_never_larger(epsilon: float, clients: int) -> None:
    """At most so many reports are at least as likely as in truth: smaller is worse."""
    from scipy import stats

    event = Reporting(epsilon, 1, 1)
    sizes, chances = bound._blankets(event, clients, spread=35.0)
    exact = stats.binom(clients - 1, event.blanket)
    for most in range(int(sizes[0]), int(sizes[-1]) + 1):
        assert chances[sizes <= most].sum() >= exact.cdf(most - 1) - 1e-12


@given(st.integers(0, 3_000), st.floats(0.001, 1), st.floats(5, 60))
@settings(max_examples=50)
def test_a_binomial_is_cut_no_more_than_said(n: int, p: float, spread: float) -> None:
    from scipy import stats

    values, chances = bound._binomial(n, p, spread)
    exact = stats.binom(n, p)
    unseen = exact.cdf(values[0] - 1) + exact.sf(values[-1])
    assert unseen <= 2 * np.exp(-spread) * (1 + 1e-6)
    assert chances == pytest.approx(exact.pmf(values) / (1 - unseen), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan")])
def test_impossible_deltas_are_refused(delta: float) -> None:
    with pytest.raises(SettingsError, match="delta"):
        central_bound([Group(Reporting(1.0, 1, 1), 10)], delta)
