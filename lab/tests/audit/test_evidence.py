"""What counts prove, how evidence is judged, and the scenes that it comes from."""

from math import exp, log

import numpy as np
import pytest

from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce.training import Settings
from sottovoce_lab.audit import judge
from sottovoce_lab.audit.entropy import FORKED_CLIENTS_CHECK
from sottovoce_lab.audit.evidence import (
    Count,
    Fact,
    Ratio,
    Surprise,
    bound_epsilon,
    compute_count_p_value,
    compute_counts_p_value,
    compute_independence_p_value,
)
from sottovoce_lab.audit.sampling import ONE_REPORT_CHECK
from sottovoce_lab.audit.scenes import list_scenes


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    seen = Count(9241, 10_000)
    assert seen.bound_below(0.005) == pytest.approx(0.917024, abs=5e-7)
    assert seen.bound_above(0.005) == pytest.approx(0.930768, abs=5e-7)


def test_the_bound_of_epsilon_works_in_both_directions() -> None:
    often, rare = Count(94_264, 100_000), Count(5_736, 100_000)
    for pair in ((often, rare), (rare, often)):
        assert bound_epsilon(*pair, 1e-6) == pytest.approx(2.731547, abs=5e-7)


def test_bounds_of_events_that_never_or_always_happen() -> None:
    never, always = Count(0, 100), Count(100, 100)
    assert never.bound_below(0.01) == 0
    assert always.bound_above(0.01) == 1
    assert never.bound_above(0.01) == pytest.approx(1 - 0.01 ** (1 / 100))
    assert bound_epsilon(never, never, 0.01) == 0
    assert bound_epsilon(always, never, 0.01) > 2


@pytest.mark.parametrize(("happened", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(happened: int, trials: int) -> None:
    with pytest.raises(SettingsError):
        Count(happened, trials)


def test_the_bound_is_wrong_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(0)
    p, q, alpha = 0.8, 0.2, 0.2
    first, second = rng.binomial(200, p, 2000), rng.binomial(200, q, 2000)
    bounds = [
        bound_epsilon(Count(int(a), 200), Count(int(b), 200), alpha)
        for a, b in zip(first, second, strict=True)
    ]
    assert np.mean(np.array(bounds) > log(p / q)) <= alpha / 2  # one of the two directions


def test_p_values_are_valid_and_detect_differences() -> None:
    rng = np.random.default_rng(1)
    coins = rng.random((500, 400)) < 0.02  # rare, as flips are
    p_values = np.array([compute_independence_p_value(row[:200], row[200:]) for row in coins])
    assert np.mean(p_values < 0.05) <= 0.07
    assert compute_count_p_value(Count(50, 1000), 0.05) == pytest.approx(1, abs=0.1)
    assert compute_count_p_value(Count(100, 1000), 0.05) < 1e-8
    even = np.full(3, 1 / 3)
    assert compute_counts_p_value(np.array([100, 100, 100]), even) == 1
    assert compute_counts_p_value(np.array([200, 50, 50]), even) < 1e-8
    assert compute_counts_p_value(np.array([200, 50, 50]), np.array([4, 1, 1]) / 6) == 1
    assert compute_independence_p_value(coins[0], coins[0]) < 1e-8
    assert compute_independence_p_value(np.zeros(9), np.arange(9)) == 1


def test_the_limit_of_a_p_value_shrinks_with_the_number_of_tests() -> None:
    surprising = Surprise("loudest", "a", "x", 4e-7)
    assert not judge([surprising])[0].passed
    many = [surprising, *(Surprise("loudest", "b", "y", 0.5) for _ in range(9))]
    assert all(check.passed for check in judge(many))


def test_an_audit_that_proves_nothing_fails() -> None:
    blind = Ratio("loudest", ONE_REPORT_CHECK, "x", Count(50, 100), Count(50, 100), 2.5)
    one, sight = judge([blind])
    assert one.passed
    assert not sight.passed
    assert "samples" in sight.measured


def test_one_false_fact_fails_the_check() -> None:
    seen = {"differ": True, "the same": False}
    facts = [Fact("loudest", FORKED_CLIENTS_CHECK, *pair) for pair in seen.items()]
    (check,) = judge(facts)
    assert not check.passed
    assert check.measured == "1 of 2; the same"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_some_report_reaches_epsilon(mechanism: str, seed: int) -> None:
    for epsilon in (0.5, 2.5, 6.0):
        worst = []
        for scene in list_scenes(Settings.preset(mechanism, epsilon=epsilon, seed=seed)):
            first, second = scene.compute_densities().astype(np.float64)
            assert first.mean() == pytest.approx(1, abs=1e-6)
            worst.append(np.abs(np.log(first / second)).max())
        assert max(worst) == pytest.approx(epsilon, rel=1e-4)


def test_densities_of_signs_are_the_probabilities_of_the_coin() -> None:
    scene = list_scenes(Settings.preset("coordinate", epsilon=2.0))[0]
    keep = exp(2.0) / (1 + exp(2.0))
    assert sorted(set(np.round(scene.compute_densities().ravel() / 2, 5))) == [
        pytest.approx(1 - keep, abs=1e-5),
        pytest.approx(keep, abs=1e-5),
    ]
