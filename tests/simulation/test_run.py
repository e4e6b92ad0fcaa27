"""A run from split to metrics: it learns, resumes and does not see the test items."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.data import Interactions, Split, leave_one_out, synthetic_people
from sottovoce.data.interactions import to_object_array
from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.simulation import FederatedMF, Run, Simulation, build_engine, simulate
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce.simulation.evaluation.ranking import (
    find_testable_users,
    rank_factors,
    sample_candidates,
)
from sottovoce.simulation.population import make_parts
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings
from sottovoce_lab.baselines.models import rank_scores
from tests.kernels import COMPILED


@pytest.fixture(scope="module")
def people() -> Interactions:
    """Return enough people to learn from."""
    return synthetic_people(1500, 300, seed=5)


@pytest.fixture(scope="module")
def few() -> Interactions:
    return synthetic_people(300, 300, seed=5)


def short_plan(mechanism: str = "loudest", **changes: Any) -> Simulation:
    return Simulation(Settings.preset(mechanism, **{"epochs": 4, "reports": 40, **changes}))


class InterruptedRunError(Exception):
    pass


def stop_after(epoch: int) -> Any:
    def on_epoch(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise InterruptedRunError

    return on_epoch


@pytest.mark.parametrize("mechanism", COMPILED)
def test_interrupted_run_ends_as_an_uninterrupted_one(
    few: Interactions, tmp_path: Path, mechanism: str
) -> None:
    plan, file = short_plan(mechanism), tmp_path / "run.safetensors"
    whole = simulate(few, plan)
    for epoch in (1, 3):
        with pytest.raises(InterruptedRunError):
            simulate(few, plan, checkpoint=file, on_epoch=stop_after(epoch))
    resumed = simulate(few, plan, checkpoint=file)
    assert np.array_equal(resumed.V, whole.V)
    assert resumed.final == whole.final
    assert [r["hr@10"] for r in resumed.epochs] == [r["hr@10"] for r in whole.epochs]
    again = simulate(few, plan, checkpoint=file)
    assert again.final == whole.final


def test_only_the_last_epoch_may_be_evaluated(few: Interactions) -> None:
    plan = Simulation(short_plan().settings, evaluate_every=0)
    run = simulate(few, plan)
    assert [("hr@10" in record) for record in run.epochs] == [False, False, False, True]
    assert run.final == simulate(few, short_plan()).final
    assert run.privacy_report.training.pure == 4 * 40 * 2.5
    with pytest.raises(SettingsError):
        Simulation(Settings(), evaluate_every=-1)


@pytest.mark.parametrize("split", ["random", "date"])
def test_a_sample_is_tested_before_the_last_epoch(few: Interactions, split: Any) -> None:
    everybody = simulate(few, replace(short_plan(), split=split, sample=0))
    sample = -(-everybody.n_tested // 3)
    sampled = simulate(few, replace(short_plan(), split=split, sample=sample))
    assert sampled.final == everybody.final
    assert sampled.epochs[0]["hr@10"] != everybody.epochs[0]["hr@10"]
    people = make_parts(few, replace(short_plan(), split=split).holdout_rule)
    with build_engine("reference", people, everybody.plan.settings) as engine:
        all_ranks = engine.compute_ranks(everybody.V, informed=True)
        some = engine.compute_ranks(everybody.V, informed=True, every=3)
    holdout = people[0].holdout
    assert holdout is not None
    tested = np.flatnonzero(find_testable_users(holdout.candidates))
    assert np.array_equal(some.better, all_ranks.better[tested % 3 == 0])


def test_training_beats_popularity(people: Interactions) -> None:
    plan = Simulation(Settings.preset("loudest", reports=250), evaluate_every=0)
    run = simulate(people, plan)
    split = leave_one_out(people, "random", 0)
    candidates = sample_candidates(split, 99, 0)
    popular = hit_ratio(rank_scores(ConstantScorer(split.train.popularity()), candidates), 10)
    assert run.popularity["hr@10"] == popular
    assert run.final["hr@10"] > popular + 0.03


def replace_test_items(split: Split, seed: int) -> Split:
    """Replace every test item by a uniformly drawn one that the user never touched."""
    rng = np.random.default_rng(seed)
    fakes = split.test.copy()
    for user in range(split.train.n_users):
        touched = {*split.train[user].tolist(), int(split.test[user])}
        free = [i for i in range(split.train.n_items) if i not in touched]
        fakes[user] = rng.choice(free)
    return Split(split.train, fakes, split.rule, split.seed)


class ConstantScorer:
    """A model with the same scores for everybody."""

    def __init__(self, scores: np.ndarray):
        self.row = scores.astype(np.float32)

    def score(self, users: np.ndarray) -> np.ndarray:
        return np.tile(self.row, (len(users), 1))


def test_no_model_finds_a_random_test_item(people: Interactions) -> None:
    # Against 99 negatives every model scores 0.10, within 5 sigma of 1,500 users. A test item that
    # leaked into training, the user's vector or the popularity counts would show here.
    split = replace_test_items(leave_one_out(people, "random", 3), 3)
    candidates = sample_candidates(split, 99, 3)
    counts = split.train.popularity()
    scores = {
        "popularity": hit_ratio(rank_scores(ConstantScorer(counts), candidates), 10),
        "nothing": hit_ratio(rank_scores(ConstantScorer(0 * counts), candidates), 10),
    }
    for mechanism in COMPILED:
        plan = short_plan(mechanism, seed=3).settings
        engine = build_engine("cpu", split.train, plan)
        *_, last = train(plan, engine, start_training(plan, split.train.n_items))
        ranks = rank_factors(engine.solve_user_vectors(last.V), last.V, candidates)
        scores[mechanism] = hit_ratio(ranks, 10)
    sigma = np.sqrt(0.1 * 0.9 / split.train.n_users)
    assert all(abs(score - 0.1) < 5 * sigma for score in scores.values()), scores


def test_training_never_sees_the_test_items(few: Interactions) -> None:
    split = leave_one_out(few, "random", 3)
    for user, item in enumerate(split.test.tolist()):
        assert item not in split.train[user]
    plan = short_plan(seed=3)
    trained = FederatedMF(5, 4, 2.5, 40, alpha=1.0, ridge=0.0, seed=3).fit(split.train)
    assert np.array_equal(trained.item_factors, simulate(few, plan).V)


def test_turns_and_resampled_people_are_described_and_accounted_for(few: Interactions) -> None:
    settings = Settings(epochs=4, reports=2, factors=2, lifetime=1, seed=1)
    run = simulate(few, Simulation(settings, resample=2_000, evaluate_every=0))
    crowds = [record["people"] for record in run.epochs]
    assert sum(crowds) == 2_000, "everybody once"
    assert run.crowd == min(crowds) > 400
    assert run.privacy_report.training.pure == 5.0
    assert run.privacy_report.people == run.crowd
    assert "2,000 people" in run.describe_people()
    assert not simulate(few, short_plan(epochs=1)).describe_people()


def test_epoch_without_participants_is_survived(people: Interactions) -> None:
    settings = Settings(epochs=30, reports=1, factors=1, lifetime=1)
    run = simulate(people, Simulation(settings, resample=2, evaluate_every=0))
    assert run.crowd == 0
    assert run.privacy_report.training.central is None
    assert np.isfinite(run.V).all()


SETTINGS = Settings(epochs=2, reports=20, factors=3)
SIDE_INFORMATION: dict[str, dict[str, Any]] = {
    "nothing": {"tags": False, "time": False},
    "tags": {"time": False},
    "time": {"tags": False, "time": True},
    "both": {"time": True},
}


def plan(split: Any = "latest", **changes: Any) -> Simulation:
    return Simulation(SETTINGS, split, **{"evaluate_every": 0, **changes})


@pytest.fixture(scope="module")
def runs(few: Interactions) -> dict[str, Run]:
    return {name: simulate(few, plan(**way)) for name, way in SIDE_INFORMATION.items()}


def test_side_information_changes_neither_the_model_nor_its_cost(runs: dict[str, Run]) -> None:
    first = runs["nothing"]
    for run in runs.values():
        assert np.array_equal(run.V, first.V)
        assert run.privacy_report == first.privacy_report
        assert run.model_only == first.final
        assert run.epochs[-1]["hr@10"] == run.final["hr@10"]
        assert run.popularity == first.popularity
    assert len({tuple(run.final.values()) for run in runs.values()}) == 4


def test_checkpoint_of_another_run_is_refused(few: Interactions, tmp_path: Path) -> None:
    file, mine = tmp_path / "run.safetensors", short_plan(epochs=1)
    simulate(few, mine, checkpoint=file)
    others = {
        f"epsilon.*{mine.settings.epsilon}.*1.0": short_plan(epochs=1, epsilon=1.0),
        "seed": short_plan(epochs=1, seed=1),
        "factors": short_plan(epochs=1, factors=2),
        "split.*random.*latest": replace(mine, split="latest"),
        "negatives": replace(mine, negatives=20),
        "resample": replace(mine, resample=50),
    }
    for named, other in others.items():
        with pytest.raises(CheckpointError, match=named):
            simulate(few, other, checkpoint=file)
    with pytest.raises(CheckpointError, match=str(file)):
        simulate(few.subset(users=200), mine, checkpoint=file)
    simulate(few, mine, checkpoint=file)


@pytest.mark.parametrize("lifetime", [0, 2])
def test_more_epochs_continue_a_finished_run_unless_people_take_turns(
    few: Interactions, tmp_path: Path, lifetime: int
) -> None:
    # With more epochs everybody's turns would have been others.
    file = tmp_path / "run.safetensors"
    plans = {n: short_plan(epochs=n, reports=2, lifetime=lifetime) for n in (2, 3, 4)}
    simulate(few, plans[3], checkpoint=file)
    for n in (2, 4) if lifetime else (2,):
        with pytest.raises(CheckpointError):
            simulate(few, plans[n], checkpoint=file)
    if not lifetime:
        longer = simulate(few, plans[4], checkpoint=file)
        assert np.array_equal(longer.V, simulate(few, plans[4]).V)


def change_side_information(people: Interactions) -> dict[str, Interactions]:
    """Move the tags of each item to another, or reverse all times but the latest of a person."""
    assert people.tags is not None
    assert people.timestamps is not None
    times, indptr = people.timestamps, people.histories.indptr
    last = np.maximum.reduceat(times, indptr[:-1])[people.histories.users_of_entries()]
    return {
        "tags": replace(people, tags=to_object_array(np.roll(people.tags, 1).tolist())),
        "times": replace(people, timestamps=np.where(times == last, times, -times)),
    }


def test_checkpoint_belongs_to_one_side_information(few: Interactions, tmp_path: Path) -> None:
    # V does not depend on it, but the metrics in the checkpoint do. What is not used may change.
    file, other = tmp_path / "run.safetensors", change_side_information(few)
    first = simulate(few, plan(), checkpoint=file)
    assert simulate(few, plan(), checkpoint=file).final == first.final
    refused = ((few, {"tags": False}), (few, {"time": False}))
    for data, way in (*refused, (other["tags"], {}), (other["times"], {})):
        with pytest.raises(CheckpointError):
            simulate(data, plan(**way), checkpoint=file)
    file.unlink()
    without = plan("random", tags=False)
    plain = simulate(few, without, checkpoint=file)
    for data in other.values():
        assert simulate(data, without, checkpoint=file).final == plain.final
