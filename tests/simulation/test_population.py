"""The simulated people: some of all, made out of others, and part by part."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core import Histories, sum_signs
from sottovoce.data import Interactions, Shards, load
from sottovoce.data.loading import shard
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.simulation import Run, Simulation, build_engine, simulate
from sottovoce.simulation.population import DROPPED_OF_65536, Part, People, WholeParts
from sottovoce.training import Settings, make_first_items
from tests.kernels import COMPILED
from tests.people import random_people


@pytest.mark.parametrize("mechanism", COMPILED)
def test_some_people_report_the_same_as_among_all(mechanism: str) -> None:
    h = random_people(80, 90, seed=4, most=60)
    plan = Settings.preset(mechanism, factors=3, reports=2, epsilon=3.0, seed=5)
    V = make_first_items(plan, 90) * np.float32(1e5)
    some = np.array([3, 8, 9, 50, 79])
    for name in ("cpu", "reference"):
        with build_engine(name, h, plan) as engine:
            everybody = engine.list_reports(V, 3)
        people = WholeParts(Part(People(h.take(some), chosen=some)))
        with build_engine(name, people, plan) as engine:
            assert np.array_equal(engine.list_reports(V, 3), everybody[some])
            sums = engine.collect(V, 3).sums
        assert np.array_equal(sums, sum_signs(everybody[some], len(sums)))


def test_resampled_people_are_histories_without_a_tenth() -> None:
    h = random_people(30, 200, seed=1, most=100)
    people = People(h, 0, 6_000).take(np.arange(6_000), seed=3)
    rows = [set(h[row].tolist()) for row in range(30)]
    for user in range(200):
        assert any(set(people[user].tolist()) <= row for row in rows)
    # Each row is drawn as often as any other; each of its items remains with a chance of 0.9.
    mean = 6_000 * h.n_interactions / 30 * (1 - DROPPED_OF_65536 / 65_536)
    lengths = np.diff(h.indptr)
    deviation = np.sqrt(6_000 * (lengths.var() + lengths.mean() * 0.09))
    assert abs(people.n_interactions - mean) < 6 * deviation
    again = People(h, 100, 50).take(np.arange(50), seed=3)
    assert [again[u].tolist() for u in range(50)] == [people[100 + u].tolist() for u in range(50)]


SETTINGS = Settings.preset("loudest", factors=3, reports=5, epochs=3, lifetime=10, seed=7)


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Return data with tags and times, where everybody has two films or more."""
    return load("ml-latest-small").subset(users=200, items=300, seed=1)


@pytest.fixture(scope="module")
def shards(data: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """Return seven shards."""
    with ShardWriter(tmp_path_factory.mktemp("shards")) as writer:
        for places in np.array_split(np.arange(data.n_users), 7):
            writer.add(data.select(places, None))
        return writer.finish(data)


COMPARED_FIELDS = (
    "final",
    "model_only",
    "popularity",
    "informed_popularity",
    "side_information",
    "n_users",
)


def are_equal(run: Run, expected: Run) -> bool:
    """Compare two runs, except the seconds that epochs took."""
    epochs = [[{**epoch, "seconds": 0} for epoch in r.epochs] for r in (run, expected)]
    return (
        np.array_equal(run.V, expected.V)
        and epochs[0] == epochs[1]
        and all(getattr(run, name) == getattr(expected, name) for name in COMPARED_FIELDS)
    )


@pytest.mark.parametrize(("split", "negatives"), [("random", 0), ("latest", 20)])
def test_run_over_shards_equals_the_run_in_memory(
    data: Interactions, shards: Shards, split: str, negatives: int
) -> None:
    plan = Simulation(SETTINGS, split, negatives)  # type: ignore[arg-type]
    run, expected = simulate(shards, plan), simulate(data, plan)
    assert are_equal(run, expected)
    assert run.side_information == ("27 tags" if split == "random" else "27 tags and time")
    assert run.final != run.model_only
    other = replace(plan, settings=replace(SETTINGS, seed=8))
    assert not are_equal(simulate(shards, other), expected)


def test_checkpoint_continues_only_over_the_same_shards(
    data: Interactions, shards: Shards, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, lifetime=0)
    plan, file = Simulation(settings, negatives=20), tmp_path / "run"
    simulate(shards, replace(plan, settings=replace(settings, epochs=1)), checkpoint=file)
    assert are_equal(simulate(shards, plan, checkpoint=file), simulate(data, plan))
    others = shard("ml-latest-small", tmp_path / "others", min_interactions=50)
    with pytest.raises(CheckpointError):
        simulate(others, plan, checkpoint=file)


def test_impossible_people_are_refused(shards: Shards) -> None:
    five, nobody = random_people(5, 9), Histories.from_lists([], n_items=3)
    one_short, all_of_them = np.arange(4), np.arange(5)
    for h, resampled, chosen in (
        (five, None, one_short), (five, 5, all_of_them), (nobody, 5, None), (five, 0, None),
    ):  # fmt: skip
        with pytest.raises(SettingsError):
            People(h, 0, resampled, chosen)
    with pytest.raises(SettingsError):
        simulate(shards, Simulation(SETTINGS, resample=1000))
