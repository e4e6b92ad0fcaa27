"""Tests of what the model is worth to people who never reported."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE, list_cells_of
from sottovoce.core import solve_user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import DataError
from sottovoce.simulation import build_engine
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings
from sottovoce_lab.baselines import DPALS, MatrixFactorization, TrustedSettings
from sottovoce_lab.paper import Cell, CellStore, Grid, Size
from sottovoce_lab.paper.grid import MF_PARAMETERS, make_settings
from sottovoce_lab.paper.late_people import (
    LatePeople,
    LatePeopleExperiment,
    count_late_people,
    hold_out_people,
    measure_late_people,
)
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.published_models import PublishedFactors
from sottovoce_lab.paper.runner import run_cell

SMALL_MF = {**MF_PARAMETERS, "iterations": 2, "factors": 3}
SETTINGS = Settings.preset("loudest", epochs=2, reports=10, factors=2, ridge=0.5)
CELLS = [
    replace(cell, measured="late")
    for cell in (
        Cell.from_parameters("popularity", Size(), 1),
        Cell.from_parameters("mf", Size(), 1, **SMALL_MF),
        Cell.from_settings("loudest", Size(), SETTINGS, 1),
        Cell.from_settings("paper", Size(), Settings.preset("paper", epochs=2, reports=10), 1),
    )
]
_, MF_CELL, TRAINING_CELL, _ = CELLS


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def test_at_most_one_person_in_five_is_late() -> None:
    counts = [count_late_people(people) for people in (75_040, 25_000, 24_999, 400)]
    assert counts == [5_000, 5_000, 4_999, 80]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_every_method_is_measured_with_and_without_tags(cell: Cell, people: Interactions) -> None:
    result = run_cell(cell, CellContext(people, 1))
    metrics = {"recall@20", "recall@50", "ndcg@100"}
    assert {*result["final"]} == {*result["known"]["tags"]} == metrics
    assert all(0 < value <= 1 for value in result["final"].values())
    assert result["known"]["tags"] != result["final"]
    untagged = run_cell(cell, CellContext(replace(people, tags=None), 1))
    assert untagged["final"] == result["final"]
    assert untagged["known"] == {}


def join_histories(late: LatePeople) -> list[tuple[int, ...]]:
    users = range(late.visible.n_users)
    assert late.hidden.n_users == len(users)
    return [
        tuple(sorted([*late.visible[user].tolist(), *late.hidden[user].tolist()])) for user in users
    ]


def test_late_people_and_others_are_everybody(people: Interactions) -> None:
    late = hold_out_people(people, 16, seed=1)
    others = [tuple(late.others.histories[user].tolist()) for user in range(64)]
    everybody = [tuple(people.histories[user].tolist()) for user in range(80)]
    assert sorted(join_histories(late) + others) == sorted(everybody)
    hidden, visible = np.diff(late.hidden.indptr), np.diff(late.visible.indptr)
    assert np.array_equal(hidden, (hidden + visible) // 5)
    assert hidden.min() >= 1


def test_people_with_few_items_are_never_late() -> None:
    data = Interactions.from_lists("few", [[0, 1, 2, 3], [0, 1, 2, 3, 4], [5]], n_items=6)
    assert join_histories(hold_out_people(data, 1)) == [(0, 1, 2, 3, 4)]
    for people in (0, 2):
        with pytest.raises(DataError):
            hold_out_people(data, people)


def test_hidden_items_are_in_no_training(people: Interactions) -> None:
    # The result is that of a model of the others, with vectors of the visible items.
    late = hold_out_people(people, 16, seed=1)
    V = MatrixFactorization.fit(late.others.histories, **SMALL_MF, seed=1, threads=1).V
    solving = {name: SMALL_MF[name] for name in ("alpha", "regularization")}
    X = solve_user_vectors(V, late.visible, **solving)
    recalls = []
    for user in range(16):
        scores = V @ X[user]
        scores[late.visible[user]] = -np.inf
        hidden = {*late.hidden[user].tolist()}
        hits = hidden & {*np.argsort(-scores)[:20].tolist()}
        recalls.append(len(hits) / min(20, len(hidden)))
    result = run_cell(MF_CELL, CellContext(people, 1))
    assert result["final"]["recall@20"] == pytest.approx(np.mean(recalls), abs=1e-3)


def test_devices_use_the_ridge_of_the_training(people: Interactions) -> None:
    # The training equals that of the others to the bit.
    late = hold_out_people(people, 16, seed=1)
    settings = replace(SETTINGS, seed=1)
    with build_engine("reference", late.others.histories, settings) as engine:
        *_, last = train(settings, engine, start_training(settings, people.n_items))
    model = PublishedFactors(last.V, settings.alpha, settings.compute_user_ridge(last.V))
    expected = run_cell(TRAINING_CELL, CellContext(people, 1))
    assert measure_late_people(model, late)["final"] == expected["final"]


def test_dp_als_solves_the_vectors_of_late_people_like_its_own(people: Interactions) -> None:
    settings = TrustedSettings(epsilon=5.0, factors=2, steps=2)
    model = DPALS.fit(people.histories, settings, seed=1, threads=1)
    published = PublishedFactors(model.V, settings.alpha, settings.regularization)
    X = published.solve_vectors(people.histories)
    np.testing.assert_allclose(X, model.X, rtol=1e-4, atol=1e-5)


METHODS = (
    "popularity", "MF-NP", "FCF", "DP-ALS, central 1", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip
METRICS = ("recall@20", "recall@50", "ndcg@100")


@pytest.mark.parametrize("tags", [True, False])
def test_every_method_has_a_row_and_every_number_a_record(tmp_path: Path, tags: bool) -> None:
    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for cell in list_cells_of(LatePeopleExperiment, grid):
        final = {metric: 0.1 * (cell.seed + place) for place, metric in enumerate(METRICS, 1)}
        tagged = {metric: value + 0.05 for metric, value in final.items()}
        store.put(cell, {"final": final, "known": {"tags": tagged} if tags else {}}, 0.0)
    (table,) = LatePeopleExperiment(grid, store).build_tables()
    assert [row[0] for row in table.rows] == [*METHODS]
    assert table.headings[1:7] == (
        "Recall@20", "Recall@50", "NDCG@100", "Recall@20, tags", "Recall@50, tags",
        "NDCG@100, tags",
    )  # fmt: skip
    assert len(table.records) == len(METHODS) * (6 if tags else 3)
    means = [record["mean"] for record in table.records if record["method"] == "MF-NP"]
    assert means == pytest.approx([0.15, 0.25, 0.35] + [0.2, 0.3, 0.4] * tags)
    assert ("-" in table.rows[0][1:7]) is not tags
    assert "80 people" in table.notes[0]
    assert "the 320 others" in table.notes[0]
    figure = Figure()
    LatePeopleExperiment(grid, store).draw(figure)
    assert [axes.get_xlabel() for axes in figure.axes] == ["Recall@20", "NDCG@100"]
    top, bottom = figure.axes[0].get_ylim()
    assert top > bottom, "the first row is on top"


def test_settings_are_for_the_people_who_report() -> None:
    about = replace(SMOKE, scale=1.0, users=20_000, items=9_781)
    cells = list_cells_of(LatePeopleExperiment, Grid.from_about(about))
    assert {cell.measured for cell in cells} == {"late"}
    planned = make_settings("loudest", 2.5, 100, 20, users=15_000, items=9_781)
    ours = [cell.settings for cell in cells if cell.method == "loudest" and cell.seed == 0]
    assert planned in ours
    assert len(ours) == 3
