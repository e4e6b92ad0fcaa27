"""The Gaussian curve against an integral of its definition and against dp-accounting."""

from math import exp, inf, nan, sqrt

import pytest
from scipy import integrate, stats

from sottovoce.errors import SettingsError
from sottovoce.privacy import max_gaussian_mu
from sottovoce.privacy.gaussian import gaussian_delta, gaussian_epsilon


def integrate_hockey_stick(mu: float, epsilon: float) -> float:
    """Integrate N(mu, 1) minus e^epsilon N(0, 1) over the half-line where it is positive."""

    def excess(x: float) -> float:
        return float(stats.norm.pdf(x - mu) - exp(epsilon) * stats.norm.pdf(x))

    border = epsilon / mu + mu / 2
    result, _ = integrate.quad(excess, border, border + 40, epsabs=1e-14, limit=500)
    return float(result)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_equals_the_integral(mu: float, epsilon: float) -> None:
    assert gaussian_delta(mu, epsilon) == pytest.approx(
        integrate_hockey_stick(mu, epsilon), abs=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.32, 1.0, 2.87, 10.0, 1e3, 1e6])
def test_epsilon_and_mu_are_inverse_and_never_too_optimistic(epsilon: float) -> None:
    mu = max_gaussian_mu(epsilon, 1e-6)
    assert gaussian_delta(mu, epsilon) <= 1e-6
    assert gaussian_delta(mu * (1 + 1e-6), epsilon) > 1e-6
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian_delta(mu, gaussian_epsilon(mu, 1e-6)) <= 1e-6


def test_delta_agrees_with_dp_accounting() -> None:
    """Compare two releases with different sensitivities, which it composes as distributions."""
    from dp_accounting.pld import privacy_loss_distribution

    first = privacy_loss_distribution.from_gaussian_mechanism(
        9.0, sensitivity=2.0, value_discretization_interval=1e-4
    )
    second = privacy_loss_distribution.from_gaussian_mechanism(
        30.0, sensitivity=sqrt(2), value_discretization_interval=1e-4
    )
    theirs = first.compose(second).get_epsilon_for_delta(1e-6)
    ours = gaussian_epsilon(sqrt((2 / 9) ** 2 + 2 / 30**2), 1e-6)
    assert ours <= theirs
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_epsilon_of_a_tiny_mu_is_zero() -> None:
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0


@pytest.mark.parametrize("wrong", [0.0, -1.0, inf, nan])
def test_invalid_arguments_are_refused(wrong: float) -> None:
    with pytest.raises(SettingsError, match="epsilon"):
        max_gaussian_mu(wrong, 1e-6)
    with pytest.raises(SettingsError, match="delta"):
        max_gaussian_mu(1.0, 1.5)
    with pytest.raises(SettingsError, match="mu"):
        gaussian_epsilon(-1.0, 1e-6)
