"""What counts prove, how evidence is judged, and the small test cases that it comes from."""

from math import exp, log

import numpy as np
import pytest

from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce.training import Settings
from sottovoce_lab.audit import judge
from sottovoce_lab.audit.clients import scenes
from sottovoce_lab.audit.evidence import (
    Count,
    Fact,
    Ratio,
    Surprise,
    epsilon_at_least,
    related,
    surprise,
    unlike,
)
from sottovoce_lab.audit.sampling import FORK, ONE

# Bounds


def test_clopper_pearson_pinned() -> None:
    seen = Count(9241, 10_000)
    assert seen.at_least(0.005) == pytest.approx(0.917024, abs=5e-7)
    assert seen.at_most(0.005) == pytest.approx(0.930768, abs=5e-7)


def test_epsilon_bound_pinned_both_ways() -> None:
    often, rare = Count(94_264, 100_000), Count(5_736, 100_000)
    for pair in ((often, rare), (rare, often)):
        assert epsilon_at_least(*pair, 1e-6) == pytest.approx(2.731547, abs=5e-7)


def test_bounds_at_the_ends() -> None:
    never, always = Count(0, 100), Count(100, 100)
    assert never.at_least(0.01) == 0
    assert always.at_most(0.01) == 1
    assert never.at_most(0.01) == pytest.approx(1 - 0.01 ** (1 / 100))
    assert epsilon_at_least(never, never, 0.01) == 0
    assert epsilon_at_least(always, never, 0.01) > 2


@pytest.mark.parametrize(("happened", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(happened: int, trials: int) -> None:
    with pytest.raises(SettingsError):
        Count(happened, trials)


def test_bound_misses_no_more_often_than_it_says() -> None:
    rng = np.random.default_rng(0)
    p, q, alpha = 0.8, 0.2, 0.2
    first, second = rng.binomial(200, p, 2000), rng.binomial(200, q, 2000)
    bounds = [
        epsilon_at_least(Count(int(a), 200), Count(int(b), 200), alpha)
        for a, b in zip(first, second, strict=True)
    ]
    assert np.mean(np.array(bounds) > log(p / q)) <= alpha / 2  # one of the two directions


def test_p_values_are_valid_and_see() -> None:
    rng = np.random.default_rng(1)
    coins = rng.random((500, 400)) < 0.02  # rare, as flips are
    p_values = np.array([related(row[:200], row[200:]) for row in coins])
    assert np.mean(p_values < 0.05) <= 0.07
    assert surprise(Count(50, 1000), 0.05) == pytest.approx(1, abs=0.1)
    assert surprise(Count(100, 1000), 0.05) < 1e-8
    even = np.full(3, 1 / 3)
    assert unlike(np.array([100, 100, 100]), even) == 1
    assert unlike(np.array([200, 50, 50]), even) < 1e-8
    assert unlike(np.array([200, 50, 50]), np.array([4, 1, 1]) / 6) == 1
    assert related(coins[0], coins[0]) < 1e-8
    assert related(np.zeros(9), np.arange(9)) == 1


# Judging


def test_share_of_every_test_shrinks_with_their_number() -> None:
    surprising = Surprise("loudest", "a", "x", 4e-7)
    assert not judge([surprising])[0].passed
    many = [surprising, *(Surprise("loudest", "b", "y", 0.5) for _ in range(9))]
    assert all(check.passed for check in judge(many))


def test_an_audit_that_sees_nothing_fails() -> None:
    blind = Ratio("loudest", ONE, "x", Count(50, 100), Count(50, 100), 2.5)
    one, sight = judge([blind])
    assert one.passed
    assert not sight.passed
    assert "samples" in sight.measured


def test_one_false_fact_fails() -> None:
    facts = [Fact("loudest", FORK, "fine", True), Fact("loudest", FORK, "the same", False)]
    (check,) = judge(facts)
    assert not check.passed
    assert check.measured == "1 of 2; the same"


# The scenes


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_some_report_is_as_telling_as_epsilon_allows(mechanism: str, seed: int) -> None:
    for epsilon in (0.5, 2.5, 6.0):
        tellings = []
        for scene in scenes(Settings.preset(mechanism, epsilon=epsilon, seed=seed)):
            first, second = scene.densities().astype(np.float64)
            assert first.mean() == pytest.approx(1, abs=1e-6)
            tellings.append(np.abs(np.log(first / second)).max())
        assert max(tellings) == pytest.approx(epsilon, rel=1e-4)


def test_densities_of_a_sign_are_the_coins() -> None:
    scene = scenes(Settings.preset("coordinate", epsilon=2.0))[0]
    keep = exp(2.0) / (1 + exp(2.0))
    assert sorted(set(np.round(scene.densities().ravel() / 2, 5))) == [
        pytest.approx(1 - keep, abs=1e-5),
        pytest.approx(keep, abs=1e-5),
    ]
