from __future__ import annotations

import pytest

from sottovoce.errors import SettingsError
from sottovoce.privacy import Crowd, Reporting, central_epsilon, mu_within
from sottovoce.training import Settings
from sottovoce.training.planning import View, fitted, options


def test_a_local_target_is_divided() -> None:
    found = options("loudest", 10.0, "local", None, 1e-6, 9781, epsilons=(2.5, 5.0, 10.0))
    assert {(o.epsilon, o.reports) for o in found} == {(2.5, 4), (5.0, 2), (10.0, 1)}
    assert all(o.local <= 10 and o.central is None for o in found)
    assert [o.signal for o in found] == sorted((o.signal for o in found), reverse=True)


def test_a_central_target_is_met_and_nearly_used_up() -> None:
    found = options("coordinate", 1.0, "central", 20_000, 1e-6, 9781, epsilons=(1.0, 2.5, 9.0))
    assert {o.epsilon for o in found} == {1.0, 2.5}  # one report of 9 is too much already
    for option in found:
        assert option.central is not None
        assert 0.9 < option.central <= 1.0
        more = Reporting(option.epsilon, option.reports + max(2, option.reports // 40), 1)
        assert central_epsilon(more, Crowd(20_000), 1e-6) > 1.0


def test_loudest_says_more_for_the_same_budget() -> None:
    views: list[View] = ["local", "central"]
    for view in views:
        best = {
            name: options(name, 5.0, view, 20_000, 1e-6, 9781, epsilons=(2.5, 5.0))[0].signal
            for name in ("coordinate", "loudest")
        }
        assert best["loudest"] > best["coordinate"]


def test_mu_of_a_known_gaussian() -> None:
    """(eps 1, delta 0.126937) is mu 1: Phi(-1/2) - e Phi(-3/2)."""
    assert mu_within(1.0, 0.12693673750664397) == pytest.approx(1.0, rel=1e-6)


def test_nonsense_is_refused() -> None:
    with pytest.raises(SettingsError, match="target"):
        options("loudest", 0.0, "local", None, 1e-6, 9781)
    with pytest.raises(SettingsError, match="clients"):
        options("loudest", 1.0, "central", None, 1e-6, 9781)


@pytest.mark.parametrize(
    ("people", "items", "own", "factors", "alpha"),
    [
        (75_040, 9_781, {}, 17, 6.65),
        (50_000, 1_000, {}, 28, 1.12),
        (3_894, 2_338, {}, 12, 1.12),
        (75_040, 9_781, {"epsilon": 5.0, "reports": 1, "epochs": 2}, 5, 1.96),
        (100, 500, {"reports": 1, "epochs": 1}, 1, 0.5),
    ],
)
def test_more_signal_fills_more_factors(
    people: int, items: int, own: dict[str, float], factors: int, alpha: float
) -> None:
    found = fitted(Settings.preset("loudest", **own), people, items)
    assert found.factors == factors
    assert found.alpha == pytest.approx(alpha, abs=0.01)
