"""People part by part give what all of them give at once: models, ranks, popularity, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.data import Interactions, load
from sottovoce.data.loading import shard
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.simulation import Simulation, simulate
from sottovoce.simulation.people import LeaveOut, Stored, Whole, parts_of
from sottovoce.training import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.data import Shards
    from sottovoce.simulation import Run
    from sottovoce.simulation.people import Part

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


def same(found: Run, expected: Run) -> bool:
    without_time = [
        [
            {name: value for name, value in epoch.items() if name != "seconds"}
            for epoch in run.epochs
        ]
        for run in (found, expected)
    ]
    return (
        np.array_equal(found.V, expected.V)
        and without_time[0] == without_time[1]
        and found.final == expected.final
        and found.without == expected.without
        and found.popularity == expected.popularity
        and found.informed_popularity == expected.informed_popularity
        and found.side_information == expected.side_information
        and found.n_users == expected.n_users
    )


@pytest.mark.parametrize("split", ["random", "latest"])
@pytest.mark.parametrize("negatives", [0, 20])
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
    with pytest.raises(CheckpointError, match="belongs to another run"):
        simulate(others, plan, checkpoint=file)


def test_nobody_is_made_out_of_shards(shards: Shards) -> None:
    with pytest.raises(SettingsError, match="all in memory, not out of shards"):
        simulate(shards, Simulation(SETTINGS, resample=1000))


@pytest.mark.parametrize("split", ["random", "latest"])
def test_any_cut_has_the_people_of_the_whole(
    data: Interactions, shards: Shards, split: str
) -> None:
    rule = LeaveOut(split, 20, seed=3)  # type: ignore[arg-type]
    whole = parts_of(data, rule)
    assert isinstance(whole, Whole)
    stored = parts_of(shards, rule)
    assert isinstance(stored, Stored)
    assert whole.fingerprint() == whole.cut(3).fingerprint() != stored.fingerprint()
    for parts in (whole.cut(3), whole.cut(199), stored):
        assert (parts.n_users, parts.n_items) == (200, 300)
        for get in (histories, candidates, left_out_items, weights, numbers):
            expected = np.concatenate([np.ravel(get(part)) for part in whole])
            found = np.concatenate([np.ravel(get(part)) for part in parts])
            assert np.array_equal(found, expected), get


def histories(part: Part) -> np.ndarray:
    return part.histories.indices


def candidates(part: Part) -> np.ndarray:
    assert part.left_out is not None
    return part.left_out.candidates.items


def left_out_items(part: Part) -> np.ndarray:
    assert part.left_out is not None
    return part.left_out.candidates.split.test


def weights(part: Part) -> np.ndarray:
    assert part.left_out is not None
    known = part.left_out.side_information.weights
    return np.zeros(0) if known is None else known


def numbers(part: Part) -> np.ndarray:
    return part.people.numbers(np.arange(len(part.people)))


def test_people_who_are_made_can_be_cut_too(data: Interactions) -> None:
    whole = Whole.of(data, LeaveOut()).resampled(1000)
    places = [numbers(part) for part in whole.cut(3)]
    assert np.array_equal(np.concatenate(places), np.arange(1000))
    assert len(whole.as_they_are()[0].people) == 200
