"""Training from split to metrics: it learns, it resumes, it leaks nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import Interactions, Split, leave_one_out, synthetic_people
from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.simulation import FederatedMF, Simulation, build_engine, simulate
from sottovoce.simulation.evaluation import hit_ratio, rank_factors, rank_scores, sample_candidates
from sottovoce.simulation.training import begin, train
from sottovoce.training import Settings
from sottovoce_lab.baselines import Popularity, Random
from tests.kernels import COMPILED


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(1500, 300, seed=5)


def short_plan(mechanism: str = "loudest", **changes: Any) -> Simulation:
    return Simulation(Settings.preset(mechanism, **{"epochs": 4, "reports": 40, **changes}))


class InterruptedRunError(Exception):
    pass


def stop_after(epoch: int) -> Any:
    def watch(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise InterruptedRunError

    return watch


@pytest.mark.parametrize("mechanism", COMPILED)
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    people: Interactions, tmp_path: Path, mechanism: str
) -> None:
    plan, file = short_plan(mechanism), tmp_path / "run.safetensors"
    whole = simulate(people, plan)
    for epoch in (1, 3):
        with pytest.raises(InterruptedRunError):
            simulate(people, plan, checkpoint=file, on_epoch=stop_after(epoch))
    resumed = simulate(people, plan, checkpoint=file)
    assert np.array_equal(resumed.V, whole.V)
    assert resumed.final == whole.final
    assert [r["hr@10"] for r in resumed.epochs] == [r["hr@10"] for r in whole.epochs]
    again = simulate(people, plan, checkpoint=file)
    assert again.final == whole.final


def test_more_epochs_continue_a_finished_run(people: Interactions, tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    simulate(people, short_plan(epochs=2), checkpoint=file)
    longer = simulate(people, short_plan(epochs=4), checkpoint=file)
    assert np.array_equal(longer.V, simulate(people, short_plan(epochs=4)).V)
    with pytest.raises(CheckpointError, match="4 epochs already"):
        simulate(people, short_plan(epochs=3), checkpoint=file)


def test_another_runs_checkpoint_is_refused(people: Interactions, tmp_path: Path) -> None:
    """And the error says what is not the same, with the value there and the value here."""
    file = tmp_path / "run.safetensors"
    plan = short_plan(epochs=1)
    simulate(people, plan, checkpoint=file)
    here = plan.settings
    others = {
        f"epsilon is {here.epsilon} there and 1.0 here": short_plan(epochs=1, epsilon=1.0),
        f"seed is {here.seed} there and 1 here": short_plan(epochs=1, seed=1),
        f"factors is {here.factors} there and 2 here": short_plan(epochs=1, factors=2),
        "split is random there and latest here": replace(plan, split="latest"),
        "negatives is 99 there and 20 here": replace(plan, negatives=20),
        "resample is none there and 50 here": replace(plan, resample=50),
    }
    for said, other in others.items():
        with pytest.raises(CheckpointError, match=f"another run: {said}. Remove the file"):
            simulate(people, other, checkpoint=file)
    with pytest.raises(CheckpointError, match=r"another run: other data\. Remove the file"):
        simulate(people.subset(users=1000), plan, checkpoint=file)


def test_evaluation_can_be_left_to_the_end(people: Interactions) -> None:
    plan = Simulation(short_plan().settings, evaluate_every=0)
    run = simulate(people, plan)
    assert [("hr@10" in record) for record in run.epochs] == [False, False, False, True]
    every = simulate(people, short_plan())
    assert run.final == every.final
    assert run.account.training == 4 * 40 * 2.5
    with pytest.raises(SettingsError, match="evaluate_every"):
        Simulation(Settings(), evaluate_every=-1)


@pytest.mark.parametrize("mechanism", ["loudest"])
def test_it_learns_and_beats_popularity(people: Interactions, mechanism: str) -> None:
    run = simulate(people, Simulation(Settings.preset(mechanism, reports=250), evaluate_every=0))
    split = leave_one_out(people, "random", 0)
    candidates = sample_candidates(split, 99, 0)
    popular = hit_ratio(rank_scores(Popularity.fit(split.train), candidates), 10)
    assert run.popularity["hr@10"] == popular
    assert run.final["hr@10"] > popular + 0.03


def replaced_test_items(split: Split, seed: int) -> Split:
    """Every test item swapped for a uniformly drawn one that the user never touched."""
    rng = np.random.default_rng(seed)
    fakes = split.test.copy()
    for user in range(split.train.n_users):
        touched = {*split.train[user].tolist(), int(split.test[user])}
        free = [i for i in range(split.train.n_items) if i not in touched]
        fakes[user] = rng.choice(free)
    return Split(split.train, fakes, split.rule, split.seed)


class Constant:
    """Scores everything alike."""

    def __init__(self, n_items: int):
        self.n_items = n_items

    def scores(self, users: np.ndarray) -> np.ndarray:
        return np.zeros((len(users), self.n_items), np.float32)


def test_no_model_finds_an_item_that_means_nothing(people: Interactions) -> None:
    """The leak test: against 99 negatives every model scores 0.10, within 5 sigma of 1,500 users.

    A test item that touched training, the user's vector or the popularity counts would show here.
    """
    split = replaced_test_items(leave_one_out(people, "random", 3), 3)
    candidates = sample_candidates(split, 99, 3)
    scores = {
        "popularity": hit_ratio(rank_scores(Popularity.fit(split.train), candidates), 10),
        "random": hit_ratio(rank_scores(Random(split.train.n_items), candidates), 10),
        "nothing": hit_ratio(rank_scores(Constant(split.train.n_items), candidates), 10),
    }
    for mechanism in COMPILED:
        plan = short_plan(mechanism, seed=3).settings
        engine = build_engine("cpu", split.train, plan)
        *_, last = train(plan, engine, begin(plan, split.train.n_items))
        ranks = rank_factors(engine.user_vectors(last.V), last.V, candidates)
        scores[mechanism] = hit_ratio(ranks, 10)
    sigma = np.sqrt(0.1 * 0.9 / split.train.n_users)
    assert all(abs(score - 0.1) < 5 * sigma for score in scores.values()), scores


def test_training_never_sees_the_test_items(people: Interactions) -> None:
    """Whatever the test items are, the same training histories give the same model."""
    split = leave_one_out(people, "random", 3)
    for user, item in enumerate(split.test.tolist()):
        assert item not in split.train[user]
    plan = short_plan(seed=3)
    trained = FederatedMF(5, 4, reports=40, alpha=1.0, ridge=0.0, seed=3).fit(split.train)
    assert np.array_equal(trained.item_factors, simulate(people, plan).V)


def test_a_single_user_and_a_single_item_work() -> None:
    lonely = Histories.from_lists([[0]], 1)
    model = FederatedMF(factors=1, epochs=2, reports=3).fit(lonely)
    assert np.isfinite(model.item_factors).all()
    # Nobody to hide among: no central promise.
    assert model.privacy().lifetime.central is None


def test_turns_and_resampled_people_are_said_and_accounted_for(people: Interactions) -> None:
    settings = Settings(epochs=4, reports=2, factors=2, lifetime=1, seed=1)
    run = simulate(people, Simulation(settings, resample=2_000, evaluate_every=0))
    crowds = [record["people"] for record in run.epochs]
    assert sum(crowds) == 2_000, "everybody once"
    assert run.crowd == min(crowds) > 400
    assert run.account.training == 5.0
    assert run.account.crowd is not None
    assert run.account.crowd.clients == run.crowd
    said = run.about_people()
    assert "2,000 people who report were made out of" in said
    assert "takes part in 1 of 4 epochs" in said
    assert not simulate(people, short_plan()).about_people()


def test_an_epoch_that_is_nobodys_is_survived(people: Interactions) -> None:
    settings = Settings(epochs=30, reports=1, factors=1, lifetime=1)
    run = simulate(people, Simulation(settings, resample=2, evaluate_every=0))
    assert run.crowd == 0
    assert run.account.crowd is None
    assert np.isfinite(run.V).all()


def test_turns_go_on_from_a_checkpoint_but_never_longer(
    people: Interactions, tmp_path: Path
) -> None:
    """With more epochs everybody's turns would have been others."""
    plan = Simulation(Settings(epochs=4, reports=2, factors=2, lifetime=2), evaluate_every=0)
    file, seen = tmp_path / "run.safetensors", []

    def stop(record: dict[str, Any]) -> None:
        seen.append(record)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(people, plan, checkpoint=file, on_epoch=stop)
    resumed = simulate(people, plan, checkpoint=file)
    assert np.array_equal(resumed.V, simulate(people, plan).V)
    assert [record["people"] for record in resumed.epochs[:2]] == [r["people"] for r in seen]
    longer = replace(plan, settings=replace(plan.settings, epochs=5))
    with pytest.raises(CheckpointError, match="another run"):
        simulate(people, longer, checkpoint=file)
    others = replace(plan, resample=50)
    with pytest.raises(CheckpointError, match="another run"):
        simulate(people, others, checkpoint=file)
