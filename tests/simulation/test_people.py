"""Who is simulated: everybody's turns, and people made out of others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce.core import Histories, sum_signs
from sottovoce.errors import SettingsError
from sottovoce.simulation import build_engine
from sottovoce.simulation.people import DROPPED, People, take_part
from sottovoce.training import Settings, first_items
from tests.kernels import COMPILED
from tests.people import random_people

ALARM = 1e-7
mechanisms = pytest.mark.parametrize("mechanism", COMPILED)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**53 - 1))
def test_everybody_takes_all_of_their_turns(turns: int, more: int, seed: int) -> None:
    epochs = turns + more
    parts = [take_part(seed, epoch, np.arange(40), turns, epochs) for epoch in range(epochs)]
    assert (np.sum(parts, axis=0) == turns).all()


@pytest.mark.parametrize(("turns", "epochs"), [(1, 20), (3, 7)])
def test_every_epoch_is_as_likely_and_people_are_independent(turns: int, epochs: int) -> None:
    n = 20_000
    parts = np.array([take_part(7, e, np.arange(n), turns, epochs) for e in range(epochs)])
    crowds = parts.sum(axis=1)
    # Of a sum that is fixed the counts vary less than independent ones, by T / (T - E).
    spread = (crowds - n * turns / epochs) ** 2 / (n * turns / epochs)
    assert stats.chi2.sf(spread.sum() * (epochs - 1) / (epochs - turns), epochs - 1) > ALARM
    both = (parts[0, :-1] & parts[0, 1:]).sum()
    chance = (turns / epochs) ** 2
    assert stats.binomtest(int(both), n - 1, chance).pvalue > ALARM


def shards(h: Histories, plan: Settings, V: np.ndarray, people: int, cut: int) -> list[np.ndarray]:
    """The reports of resampled people, in two engines."""
    parts = []
    for first, n in ((0, cut), (cut, people - cut)):
        with build_engine("cpu", h, plan, first_user=first, resample=n) as engine:
            parts.append(engine.reports(V, 3))
    return parts


@mechanisms
@pytest.mark.parametrize("resample", [None, 1, 300])
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_engines_agree_on_who_says_what(mechanism: str, resample: int | None, turns: int) -> None:
    h = random_people(150, 90, seed=4, most=60)
    plan = Settings.preset(
        mechanism, factors=3, reports=2, epsilon=3.0, epochs=6, lifetime=turns, seed=5
    )
    V = first_items(plan, 90) * np.float32(1e5)
    for epoch in (0, 5):
        found = []
        for name in ("cpu", "reference"):
            with build_engine(name, h, plan, resample=resample) as engine:
                found.append((engine.reports(V, epoch), engine.collect(V, epoch)))
        (ours, collected), (theirs, expected) = found
        assert np.array_equal(ours, theirs)
        assert np.array_equal(collected.sums, expected.sums)
        assert collected.n_reports == expected.n_reports == ours.size
        directions = plan.build(90).n_directions
        assert np.array_equal(sum_signs(ours, directions), expected.sums)


@mechanisms
def test_some_of_all_people_say_what_they_say_among_all(mechanism: str) -> None:
    h = random_people(80, 90, seed=4, most=60)
    plan = Settings.preset(mechanism, factors=3, reports=2, epsilon=3.0, seed=5)
    V = first_items(plan, 90) * np.float32(1e5)
    some = np.array([3, 8, 9, 50, 79])
    for name in ("cpu", "reference"):
        with build_engine(name, h, plan) as engine:
            everybody = engine.reports(V, 3)
        with build_engine(name, h.take(some), plan, numbers=some) as engine:
            assert np.array_equal(engine.reports(V, 3), everybody[some])
            found = engine.collect(V, 3)
        assert np.array_equal(found.sums, sum_signs(everybody[some], len(found.sums)))


def test_numbers_are_one_for_each_history() -> None:
    h = random_people(5, 9)
    for resampled, chosen in ((None, np.arange(4)), (5, np.arange(5))):
        with pytest.raises(SettingsError, match="one number"):
            People(h, 0, resampled, chosen)


def test_shards_of_resampled_people_add_up() -> None:
    h = random_people(150, 90, seed=4, most=60)
    plan = Settings(factors=3, reports=2, epochs=5, lifetime=2, seed=5)
    V = first_items(plan, 90) * np.float32(1e5)
    with build_engine("cpu", h, plan, resample=400) as engine:
        whole = engine.reports(V, 3)
    assert np.array_equal(np.concatenate(shards(h, plan, V, 400, 123)), whole)


def test_resampled_people_are_histories_without_a_tenth() -> None:
    h = random_people(30, 200, seed=1, most=100)
    made = People(h, 0, 6_000).take(np.arange(6_000), seed=3)
    known = [set(h[row].tolist()) for row in range(30)]
    for user in range(200):
        assert any(set(made[user].tolist()) <= of for of in known)
    kept = made.n_interactions
    # Each row is drawn as often as any other, each of its items kept by a chance of nine tenths.
    mean = 6_000 * h.n_interactions / 30 * (1 - DROPPED / 65_536)
    of_row = np.diff(h.indptr)
    deviation = np.sqrt(6_000 * (of_row.var() + of_row.mean() * 0.09))
    assert abs(kept - mean) < 6 * deviation
    again = People(h, 100, 50).take(np.arange(50), seed=3)
    assert [again[u].tolist() for u in range(50)] == [made[100 + u].tolist() for u in range(50)]


def test_nobody_can_be_made_out_of_nothing() -> None:
    nothing = Histories.from_lists([], n_items=3)
    for h, n in ((nothing, 5), (random_people(3, 3, seed=0), 0)):
        with pytest.raises(SettingsError, match="resampled"):
            People(h, 0, n)
