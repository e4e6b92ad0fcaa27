"""Who is simulated: random words, turns, people made out of others, and people part by part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce.core import Histories, sum_signs
from sottovoce.data import Interactions, Shards, load
from sottovoce.data.loading import shard
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.simulation import Run, Simulation, build_engine, simulate
from sottovoce.simulation.cpu.philox import begin_draws, fill_words
from sottovoce.simulation.population import DROPPED_OF_65536, People
from sottovoce.simulation.random_words import draw_participants, draw_report_words, philox
from sottovoce.training import Settings, make_first_items
from tests.kernels import COMPILED
from tests.people import random_people

ALARM = 1e-7
mechanisms = pytest.mark.parametrize("mechanism", COMPILED)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**53 - 1))
def test_everybody_takes_all_of_their_turns(turns: int, more: int, seed: int) -> None:
    epochs = turns + more
    parts = [
        draw_participants(seed, epoch, np.arange(40), turns, epochs) for epoch in range(epochs)
    ]
    assert (np.sum(parts, axis=0) == turns).all()


@pytest.mark.parametrize(("turns", "epochs"), [(1, 20), (3, 7)])
def test_every_epoch_is_as_likely_and_people_are_independent(turns: int, epochs: int) -> None:
    n = 20_000
    parts = np.array([draw_participants(7, e, np.arange(n), turns, epochs) for e in range(epochs)])
    crowds = parts.sum(axis=1)
    # Of a sum that is fixed the counts vary less than independent ones, by T / (T - E).
    spread = (crowds - n * turns / epochs) ** 2 / (n * turns / epochs)
    assert stats.chi2.sf(spread.sum() * (epochs - 1) / (epochs - turns), epochs - 1) > ALARM
    both = (parts[0, :-1] & parts[0, 1:]).sum()
    chance = (turns / epochs) ** 2
    assert stats.binomtest(int(both), n - 1, chance).pvalue > ALARM


@mechanisms
def test_some_of_all_people_say_what_they_say_among_all(mechanism: str) -> None:
    h = random_people(80, 90, seed=4, most=60)
    plan = Settings.preset(mechanism, factors=3, reports=2, epsilon=3.0, seed=5)
    V = make_first_items(plan, 90) * np.float32(1e5)
    some = np.array([3, 8, 9, 50, 79])
    for name in ("cpu", "reference"):
        with build_engine(name, h, plan) as engine:
            everybody = engine.list_reports(V, 3)
        with build_engine(name, h.take(some), plan, numbers=some) as engine:
            assert np.array_equal(engine.list_reports(V, 3), everybody[some])
            found = engine.collect(V, 3)
        assert np.array_equal(found.sums, sum_signs(everybody[some], len(found.sums)))


def test_resampled_people_are_histories_without_a_tenth() -> None:
    h = random_people(30, 200, seed=1, most=100)
    made = People(h, 0, 6_000).take(np.arange(6_000), seed=3)
    known = [set(h[row].tolist()) for row in range(30)]
    for user in range(200):
        assert any(set(made[user].tolist()) <= of for of in known)
    kept = made.n_interactions
    # Each row is drawn as often as any other, each of its items kept by a chance of nine tenths.
    mean = 6_000 * h.n_interactions / 30 * (1 - DROPPED_OF_65536 / 65_536)
    of_row = np.diff(h.indptr)
    deviation = np.sqrt(6_000 * (of_row.var() + of_row.mean() * 0.09))
    assert abs(kept - mean) < 6 * deviation
    again = People(h, 100, 50).take(np.arange(50), seed=3)
    assert [again[u].tolist() for u in range(50)] == [made[100 + u].tolist() for u in range(50)]


words64 = st.integers(0, 2**64 - 1)


def from_numpy(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """numpy steps its counter before the first block, so it starts one earlier."""
    whole = sum(word << (64 * i) for i, word in enumerate(counter))
    whole = (whole - 1) % (1 << 256)
    generator = np.random.Philox(key=key[0] | key[1] << 64, counter=whole)
    return [int(word) for word in generator.random_raw(4)]


@given(words64, words64, words64, words64, words64, words64)
def test_it_is_numpys_philox(k0: int, k1: int, c0: int, c1: int, c2: int, c3: int) -> None:
    got = philox((k0, k1), np.array([c0], np.uint64), np.array([c1], np.uint64), c2, c3)
    assert got[0].tolist() == from_numpy((k0, k1), (c0, c1, c2, c3))


@given(words64, st.integers(0, 2**20), st.integers(0, 2**40), st.integers(1, 8))
def test_draws_that_were_begun_for_everybody_end_in_the_same_words(
    seed: int, epoch: int, user: int, draws: int
) -> None:
    words = np.zeros((draws, 3), np.uint64)
    fill_words(np.uint64(seed), epoch, user, begin_draws(draws), words)
    assert np.array_equal(
        words, draw_report_words(seed, epoch, np.array([user]), draws)[0, :draws, :3]
    )


def test_a_users_words_depend_on_nobody_else() -> None:
    everybody = draw_report_words(3, 2, np.arange(10), 5)
    assert everybody.shape == (10, 6, 4)
    assert np.array_equal(draw_report_words(3, 2, np.array([7]), 5)[0], everybody[7])
    assert np.array_equal(draw_report_words(3, 2, np.array([7]), 2)[0], everybody[7, :3])
    assert len(np.unique(everybody)) == everybody.size
    assert not np.array_equal(draw_report_words(3, 3, np.arange(10), 5), everybody)
    assert not np.array_equal(draw_report_words(4, 2, np.arange(10), 5), everybody)


SETTINGS = Settings.preset("loudest", factors=3, reports=5, epochs=3, lifetime=10, seed=7)


@pytest.fixture(scope="module")
def data() -> Interactions:
    """With tags and times; everybody has two films or more."""
    return load("ml-latest-small").subset(users=200, items=300, seed=1)


@pytest.fixture(scope="module")
def shards(data: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """Seven of them."""
    with ShardWriter(tmp_path_factory.mktemp("shards")) as writer:
        for places in np.array_split(np.arange(data.n_users), 7):
            writer.add(data.select(places, None))
        return writer.finish(data)


SAME = ("final", "without", "popularity", "informed_popularity", "side_information", "n_users")


def same(found: Run, expected: Run) -> bool:
    """But for the seconds that epochs took."""
    epochs = [[{**epoch, "seconds": 0} for epoch in run.epochs] for run in (found, expected)]
    return (
        np.array_equal(found.V, expected.V)
        and epochs[0] == epochs[1]
        and all(getattr(found, name) == getattr(expected, name) for name in SAME)
    )


@pytest.mark.parametrize(("split", "negatives"), [("random", 0), ("latest", 20)])
def test_a_run_over_shards_is_the_run_in_memory(
    data: Interactions, shards: Shards, split: str, negatives: int
) -> None:
    plan = Simulation(SETTINGS, split, negatives)  # type: ignore[arg-type]
    found, expected = simulate(shards, plan), simulate(data, plan)
    assert same(found, expected)
    assert found.side_information == ("27 tags" if split == "random" else "27 tags and time")
    assert found.final != found.without
    assert not same(simulate(shards, replace(plan, settings=replace(SETTINGS, seed=8))), expected)


def test_a_run_that_was_stopped_goes_on_over_the_same_shards_only(
    data: Interactions, shards: Shards, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, lifetime=0)
    plan, file = Simulation(settings, negatives=20), tmp_path / "run"
    simulate(shards, replace(plan, settings=replace(settings, epochs=1)), checkpoint=file)
    assert same(simulate(shards, plan, checkpoint=file), simulate(data, plan))
    others = shard("ml-latest-small", tmp_path / "others", min_interactions=50)
    with pytest.raises(CheckpointError):
        simulate(others, plan, checkpoint=file)


def test_people_who_cannot_be_are_refused(shards: Shards) -> None:
    five, nobody = random_people(5, 9), Histories.from_lists([], n_items=3)
    one_short, all_of_them = np.arange(4), np.arange(5)
    for h, resampled, chosen in (
        (five, None, one_short), (five, 5, all_of_them), (nobody, 5, None), (five, 0, None),
    ):  # fmt: skip
        with pytest.raises(SettingsError):
            People(h, 0, resampled, chosen)
    with pytest.raises(SettingsError):
        simulate(shards, Simulation(SETTINGS, resample=1000))
