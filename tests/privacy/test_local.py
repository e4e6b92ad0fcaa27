"""The exact local view against sums written out, and against an independent accountant."""

from decimal import Decimal
from itertools import product
from math import exp, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.privacy import COIN_RHO, Reporting, local, local_epsilon
from tests.privacy.exact import Pair, binomial, delta_of, exact_blanket, precisely

REFERENCE_CASES = [
    ((0.5, 50, 20), 500.0, 193.50, 206.1),
    ((2.5, 100, 20), 5000.0, 4504.87, 4549.7),
    ((2.5, 250, 20), 12500.0, 11032.0, 11105.0),
    ((6.0, 250, 20), 30000.0, 29999.7, 30000.0),
]


@pytest.mark.parametrize(("case", "pure", "at_6", "at_8"), REFERENCE_CASES)
def test_reference_values(
    case: tuple[float, int, int], pure: float, at_6: float, at_8: float
) -> None:
    event = Reporting(*case)
    assert event.pure == pure
    assert local_epsilon(event, 1e-6) == pytest.approx(at_6, rel=1e-3)
    assert local_epsilon(event, 1e-8) == pytest.approx(at_8, rel=1e-3)


def compute_delta(event: Reporting, epsilon: float) -> float:
    return local._delta(*local._losses(event), epsilon)


def sum_over_outcomes(event: Reporting, epsilon: float) -> float:
    """Sum over all sequences of outcomes: loud for one history, for the other, for neither."""
    gamma, rho = event.blanket, event.loud_fraction
    loud, other = gamma * rho * exp(event.epsilon), gamma * rho
    one = [(loud, other), (other, loud), (1 - loud - other, 1 - loud - other)]
    total = 0.0
    for sequence in product(one, repeat=event.total):
        p, q = prod(s[0] for s in sequence), prod(s[1] for s in sequence)
        total += max(0.0, p - exp(epsilon) * q)
    return total


@given(
    st.floats(0.1, 4),
    st.integers(1, 6),
    st.sampled_from([0.05, 0.2, 0.4, COIN_RHO]),
    st.floats(0, 8),
)
def test_delta_equals_the_sum_over_all_outcomes(
    epsilon: float, reports: int, rho: float, at: float
) -> None:
    event = Reporting(epsilon, reports, 1, rho)
    assert compute_delta(event, at) == pytest.approx(sum_over_outcomes(event, at), abs=1e-11)


@given(st.floats(0.1, 5), st.integers(1, 200), st.sampled_from([0.1, COIN_RHO]))
def test_epsilon_and_delta_are_inverse(epsilon: float, reports: int, rho: float) -> None:
    event = Reporting(epsilon, reports, 1, rho)
    total = local_epsilon(event, 1e-5)
    assert 0 <= total <= event.pure
    if 0 < total < 0.999 * event.pure:
        assert compute_delta(event, total) <= 1e-5
        assert compute_delta(event, total) > 0.99e-5


@pytest.mark.parametrize("field", [{"epsilon": 0.0}, {"reports": 0}, {"epochs": 0}])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_invalid_arguments_are_refused(field: dict[str, float], value: float) -> None:
    good = {"epsilon": 1.0, "reports": 1, "epochs": 1}
    name = next(iter(field))
    for bad in (field[name], value):
        with pytest.raises(SettingsError, match=name):
            Reporting(**{**good, name: bad})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="loud_fraction"):
        Reporting(1.0, 1, 1, 0.6)
    for delta in (0.0, 1.0, float("nan")):
        with pytest.raises(SettingsError, match="delta"):
            local_epsilon(Reporting(1.0, 1, 1), delta)


@pytest.mark.parametrize(("epsilon", "reports"), [(0.5, 200), (2.5, 40)])
def test_local_epsilon_agrees_with_dp_accounting(epsilon: float, reports: int) -> None:
    """Compare with randomised response of dp-accounting."""
    from dp_accounting.pld import privacy_loss_distribution

    flips = 2 / (1 + exp(epsilon))  # it replaces the bit by a uniform one this often
    one = privacy_loss_distribution.from_randomized_response(
        flips, 2, value_discretization_interval=1e-4
    )
    theirs = one.self_compose(reports).get_epsilon_for_delta(1e-6)
    assert local_epsilon(Reporting(epsilon, reports, 1), 1e-6) == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("rho", [0.058, COIN_RHO])
@pytest.mark.parametrize(("reports", "within"), [(20, 1.05), (2_000, 1.02), (20_000, 1.01)])
def test_bound_of_many_reports_is_slightly_above_the_exact_epsilon(
    rho: float, reports: int, within: float
) -> None:
    event = Reporting(2.5, reports, 1, rho)
    exact = local_epsilon(event, 1e-6)
    assert (
        local.lower_bound_epsilon(event, 1e-6)
        <= exact
        <= local._bound(event, 1e-6)
        <= within * exact
    )


@pytest.mark.parametrize("rho", [0.058, COIN_RHO])
@pytest.mark.parametrize("trainings", [10**6, 10**20])
def test_many_reports_have_a_bound(rho: float, trainings: int) -> None:
    event = Reporting(2.5, 100, 20 * trainings, rho)
    assert not local.is_enumerated(event)
    assert local.lower_bound_epsilon(event, 1e-6) <= local_epsilon(event, 1e-6) < event.pure


ROUNDING_ERROR = Decimal("1e-9")
# Most reports lose nothing, so that nearly all of the possible numbers of steps are left out.
LINKED_120 = Reporting(1.0, 120, 1, 0.05)


@precisely
def compute_exact_delta(epsilon: float) -> Decimal:
    """Sum over the multinomial: `up` reports have a loss of +1, `down` of -1, the others 0."""
    rho, gamma, n = (
        Decimal(LINKED_120.loud_fraction),
        exact_blanket(LINKED_120),
        LINKED_120.total,
    )
    loud, other = gamma * rho * Decimal(LINKED_120.epsilon).exp(), gamma * rho
    pairs: list[Pair] = []
    for moved in range(n + 1):
        ways = binomial(n, loud + other, moved)
        for up in range(moved + 1):
            share = loud / (loud + other)
            pairs.append((ways * binomial(moved, share, up), ways * binomial(moved, 1 - share, up)))
    return delta_of(pairs, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 3.5, 10.5, 20.5, 30.5, 50.5])
def test_epsilon_of_linked_reports_is_never_too_small(epsilon: float) -> None:
    delta = compute_exact_delta(epsilon)
    result = Decimal(compute_delta(LINKED_120, epsilon))
    assert delta * (1 - ROUNDING_ERROR) <= result <= delta * (1 + ROUNDING_ERROR) + Decimal("1e-15")


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_delta_at_the_local_epsilon_is_never_too_large(delta: float) -> None:
    result = local_epsilon(LINKED_120, delta)
    assert compute_exact_delta(result) <= Decimal(delta) <= compute_exact_delta(result * (1 - 1e-6))
