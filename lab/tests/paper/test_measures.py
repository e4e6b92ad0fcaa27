"""What is measured of a published model: late people, and everybody by fifths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, user_vectors
from sottovoce.data import Interactions, hold_people, leave_one_out, synthetic_people
from sottovoce.simulation import Simulation, build_engine, simulate
from sottovoce.simulation.evaluation import hits, rank_factors, sample_candidates
from sottovoce.simulation.training import begin, train
from sottovoce.training import Settings
from sottovoce_lab.baselines import DPALS, MatrixFactorization, TrustedSettings
from sottovoce_lab.paper import Cell, Size
from sottovoce_lab.paper.measures import (
    FIFTHS,
    PublishedFactors,
    fifth_name,
    fifths,
    how_many_late,
    measure_late,
    measure_people,
)
from sottovoce_lab.paper.methods import CellContext, run_cell
from sottovoce_lab.paper.rules import MF

FEW = {**MF, "iterations": 2, "factors": 3}
SETTINGS = Settings.preset("loudest", epochs=2, reports=10, factors=2, ridge=0.5)
TRUSTED = TrustedSettings(epsilon=5.0, factors=2, steps=2)
CELLS = [
    Cell.make("popularity", Size(), 1),
    Cell.make("mf", Size(), 1, **FEW),
    Cell.training("loudest", Size(), SETTINGS, 1),
    Cell.training("paper", Size(), Settings.preset("paper", epochs=2, reports=10), 1),
]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def result_of(cell: Cell, people: Interactions, measured: Any) -> dict[str, Any]:
    return run_cell(replace(cell, measured=measured), CellContext(people, 1))


# Fifths.


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_equal_weights_make_equal_fifths_in_order(values: list[int]) -> None:
    found = fifths(np.array(values), np.ones(len(values)))
    sizes = np.bincount(found, minlength=FIFTHS)
    assert sizes.max() - sizes.min() <= 1
    assert all(
        found[a] <= found[b]
        for a in range(len(values))
        for b in range(len(values))
        if values[a] < values[b]
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_a_fifth_of_the_weight_is_exceeded_by_no_more_than_one_item(counts: list[int]) -> None:
    weights = np.array(counts)
    found = fifths(weights, weights)
    heavy = np.bincount(found, weights=weights, minlength=FIFTHS)
    assert len(heavy) == FIFTHS
    assert np.abs(heavy - weights.sum() / FIFTHS).max() <= max(counts)


# Late people.


def test_a_late_person_is_one_in_five_at_most() -> None:
    assert [how_many_late(people) for people in (75_040, 25_000, 24_999, 400)] == [
        5_000, 5_000, 4_999, 80,
    ]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_a_model_of_the_others_is_measured_on_who_is_late(cell: Cell, people: Interactions) -> None:
    result = result_of(cell, people, "late")
    assert (
        {*result["final"]} == {*result["known"]["tags"]} == {"recall@20", "recall@50", "ndcg@100"}
    )
    assert all(0 < value <= 1 for value in result["final"].values())
    assert result["known"]["tags"] != result["final"]
    untagged = result_of(cell, replace(people, tags=None), "late")
    assert untagged["final"] == result["final"]
    assert untagged["known"] == {}


def test_what_is_hidden_of_late_people_teaches_nobody(people: Interactions) -> None:
    """Matrix factorisation of the others alone, and vectors of what late devices have."""
    late = hold_people(people, 16, seed=1)
    V = MatrixFactorization.fit(late.others.histories, **FEW, seed=1, threads=1).V
    solving = {name: FEW[name] for name in ("alpha", "regularization")}
    X = user_vectors(V, late.known, **solving)
    found = []
    for user in range(16):
        scores = V @ X[user]
        scores[late.known[user]] = -np.inf
        hidden = {*late.hidden[user].tolist()}
        found.append(len(hidden & {*np.argsort(-scores)[:20].tolist()}) / min(20, len(hidden)))
    result = result_of(CELLS[1], people, "late")
    assert result["final"]["recall@20"] == pytest.approx(np.mean(found), abs=1e-3)


def test_devices_solve_with_the_ridge_of_their_training(people: Interactions) -> None:
    """And the training is that of the others, to the last bit."""
    late = hold_people(people, 16, seed=1)
    settings = replace(SETTINGS, seed=1)
    with build_engine("reference", late.others.histories, settings) as engine:
        *_, last = train(settings, engine, begin(settings, people.n_items))
    V = last.V
    model = PublishedFactors(V, settings.alpha, settings.user_ridge(V))
    assert measure_late(model, late)["final"] == result_of(CELLS[2], people, "late")["final"]


def test_the_budget_is_that_of_the_others(people: Interactions) -> None:
    """Fewer people to hide among, and the same reports."""
    late, everybody = (result_of(CELLS[2], people, which) for which in ("late", "people"))
    spent = late["budget"]
    assert spent["local"] == everybody["budget"]["local"]
    fewer = hold_people(people, 16, seed=1).others
    assert spent == result_of(CELLS[2], fewer, "people")["budget"]


def test_dp_als_folds_late_people_in_as_it_does_its_own(people: Interactions) -> None:
    train = people.histories
    model = DPALS.fit(train, TRUSTED, seed=1, threads=1)
    folded = PublishedFactors(model.V, TRUSTED.alpha, TRUSTED.regularization).vectors(train)
    np.testing.assert_allclose(folded, model.X, rtol=1e-4, atol=1e-5)


# Everybody by fifths.


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_the_whole_is_as_everywhere_else(cell: Cell, people: Interactions) -> None:
    result = result_of(cell, people, "people")
    usual = run_cell(cell, CellContext(people, 1))
    assert {name: result["final"][name] for name in usual["final"]} == usual["final"]
    assert result.get("budget") == usual.get("budget")


def test_the_whole_is_that_of_the_simulation(people: Interactions) -> None:
    plan = Simulation(replace(SETTINGS, seed=1), evaluate_every=0, tags=False, time=False)
    final = result_of(CELLS[2], people, "people")["final"]
    assert simulate(people, plan).final.items() <= final.items()


def test_fifths_are_means_over_those_in_them(people: Interactions) -> None:
    split = leave_one_out(people, "random", 1)
    candidates = sample_candidates(split, 30, 1)
    rng = np.random.default_rng(0)
    V = rng.normal(size=(50, 3)).astype(np.float32)
    model = PublishedFactors(V, 1.0, 0.1)
    found = measure_people(model, candidates)
    hit = hits(rank_factors(model.vectors(split.train), V, candidates), 10)
    lengths = np.diff(split.train.indptr)
    quiet = np.argsort(lengths, kind="stable")[:16]
    assert found["final"][fifth_name("history", 0)] == pytest.approx(hit[quiet].mean())
    assert found["fifths"]["history"][0] == (lengths.min(), lengths[quiet].max())
    counts = split.train.popularity()
    order = np.argsort(counts, kind="stable")
    middle = np.cumsum(counts[order]) - counts[order] / 2
    popular = order[middle >= 0.8 * counts.sum()]
    asked = np.isin(split.test, popular)
    assert found["final"][fifth_name("item", 4)] == pytest.approx(hit[asked].mean())
    assert found["fifths"]["item"][4] == len(popular)
    assert sum(found["fifths"]["item"]) == 50


def test_a_fifth_without_a_test_item_has_no_number() -> None:
    """One item has nearly all interactions: two fifths are of nothing."""
    lists = [[0, 1 + user % 3] for user in range(30)]
    data = Interactions("one", Histories.from_lists(lists, 9), np.arange(30), np.arange(9))
    final = result_of(CELLS[0], data, "people")["final"]
    known = [fifth for fifth in range(FIFTHS) if fifth_name("item", fifth) in final]
    assert known
    assert len(known) < FIFTHS
    assert all(fifth_name("history", fifth) in final for fifth in range(FIFTHS))
