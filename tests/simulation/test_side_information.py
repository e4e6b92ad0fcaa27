"""Simulations whose devices recommend with tags and by the order of a history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.data.interactions import object_array
from sottovoce.errors import CheckpointError, DataError
from sottovoce.simulation import Simulation, simulate
from sottovoce.simulation.evaluation import SideInformation, rank_scores, sample_candidates, summary
from sottovoce.simulation.run import popularity_ranks
from sottovoce.training import Settings
from sottovoce_lab.baselines import Popularity

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.simulation import Run

SETTINGS = Settings(epochs=2, reports=20, factors=3)
WAYS: dict[str, dict[str, Any]] = {
    "nothing": {"tags": False, "time": False},
    "tags": {"time": False},
    "time": {"tags": False, "time": True},
    "both": {"time": True},
}


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(300, 120, seed=5)


def plan(split: Any = "latest", **changes: Any) -> Simulation:
    return Simulation(SETTINGS, split, **{"evaluate_every": 0, **changes})


@pytest.fixture(scope="module")
def runs(people: Interactions) -> dict[str, Run]:
    return {name: simulate(people, plan(**way)) for name, way in WAYS.items()}


def test_training_knows_nothing_of_it(runs: dict[str, Run]) -> None:
    """The same V, the same reports, the same price: it is free."""
    first = runs["nothing"]
    for run in runs.values():
        assert np.array_equal(run.V, first.V)
        assert run.account == first.account
        assert run.without == first.final
        assert run.popularity == first.popularity


def test_each_way_has_a_name_and_numbers_of_its_own(
    people: Interactions, runs: dict[str, Run]
) -> None:
    split = leave_one_out(people, "latest", 0)
    number = len(SideInformation.of(people, split, tags=True, time=False).tags.names)
    assert {name: run.side_information for name, run in runs.items()} == {
        "nothing": "",
        "tags": f"{number} tags",
        "time": "time",
        "both": f"{number} tags and time",
    }
    assert len({tuple(run.final.values()) for run in runs.values()}) == 4
    # The order alone makes nothing of popularity, which is one factor for everybody.
    popular = {name: tuple(run.informed_popularity.values()) for name, run in runs.items()}
    assert popular["time"] == popular["nothing"]
    assert len({*popular.values()}) == 3
    plain = runs["nothing"]
    assert plain.final == plain.without
    assert plain.informed_popularity == plain.popularity


def test_the_numbers_are_those_of_the_devices(people: Interactions, runs: dict[str, Run]) -> None:
    split = leave_one_out(people, "latest", 0)
    candidates = sample_candidates(split, 99, 0)
    for name, run in runs.items():
        known = SideInformation.of(
            people, split, tags=WAYS[name].get("tags", True), time=WAYS[name]["time"]
        )
        ranks = known.ranks(
            run.V, candidates, alpha=SETTINGS.alpha, regularization=SETTINGS.user_ridge(run.V)
        )
        assert run.final == pytest.approx(summary(ranks), abs=0.01)
        assert run.informed_popularity == summary(popularity_ranks(candidates, known))
    popular = summary(rank_scores(Popularity.fit(split.train), candidates))
    assert runs["both"].popularity == popular


def test_every_epoch_is_evaluated_with_what_is_known(people: Interactions) -> None:
    run = simulate(people, plan(evaluate_every=1))
    assert run.epochs[-1]["hr@10"] == run.final["hr@10"]
    alone = simulate(people, plan(evaluate_every=1, tags=False, time=False))
    assert [r["hr@10"] for r in run.epochs] != [r["hr@10"] for r in alone.epochs]


def test_data_without_tags_and_times_is_as_before(people: Interactions) -> None:
    bare = replace(people, tags=None, timestamps=None)
    run = simulate(bare, plan("random"))
    assert (run.side_information, run.without) == ("", run.final)
    assert run.final == simulate(people, plan("random", tags=False)).final
    with pytest.raises(DataError, match="no timestamps"):
        simulate(bare, plan("random", time=True))


def retagged(people: Interactions) -> Interactions:
    """The same labels, each on the item before."""
    assert people.tags is not None
    return replace(people, tags=object_array(np.roll(people.tags, 1).tolist()))


def later(people: Interactions) -> Interactions:
    """The same latest items, and all before them the other way round."""
    assert people.timestamps is not None
    times, indptr = people.timestamps, people.histories.indptr
    last = np.maximum.reduceat(times, indptr[:-1])[people.histories.users_of_entries()]
    return replace(people, timestamps=np.where(times == last, times, -times))


@pytest.mark.parametrize("changed", ["no tags", "no time", "other tags", "other times"])
def test_a_checkpoint_is_of_one_way_to_recommend(
    people: Interactions, tmp_path: Path, changed: str
) -> None:
    """Its numbers of earlier epochs are, even if V is not."""
    file = tmp_path / "run.safetensors"
    first = simulate(people, plan(), checkpoint=file)
    assert simulate(people, plan(), checkpoint=file).final == first.final
    data = {"other tags": retagged, "other times": later}.get(changed, lambda same: same)(people)
    way = {"no tags": {"tags": False}, "no time": {"time": False}}.get(changed, {})
    with pytest.raises(CheckpointError, match="another run"):
        simulate(data, plan(**way), checkpoint=file)


def test_where_they_do_not_count_tags_and_times_may_change(
    people: Interactions, tmp_path: Path
) -> None:
    file, without = tmp_path / "run.safetensors", plan("random", tags=False)
    first = simulate(people, without, checkpoint=file)
    assert simulate(retagged(later(people)), without, checkpoint=file).final == first.final
