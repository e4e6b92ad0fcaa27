"""Tests of the main table."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.tests.paper.helpers import FULL, SMOKE, list_cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation import Popularity
from sottovoce.simulation.evaluation.metrics import hit_ratio, summarize_ranks
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce_lab.baselines import rank
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Grid, Runner, run_experiments
from sottovoce_lab.paper.cells import Size
from sottovoce_lab.paper.grid import compute_delta
from sottovoce_lab.paper.main_table import MainTable
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell

CHEAP_METHODS = ["random", "popularity", "mf", "ease"]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=50, seed=0)


def ignore_progress(_: int) -> Any:
    return nullcontext(lambda *_: None)


def test_both_rankings_equal_the_separate_ones(people: Interactions) -> None:
    cell = Cell.from_parameters("popularity", Size(), 1)
    tagged = replace(cell, side_information=("tags",))
    both = run_cell(replace(tagged, measured="catalogue"), CellContext(people, 1))
    sampled = run_cell(tagged, CellContext(people, 1))
    assert both["final"]["hr@10"] == sampled["final"]["hr@10"]
    assert both["known"]["tags"]["hr@10"] == sampled["known"]["tags"]["hr@10"]
    split = CellContext(people, 1).prepare_test(cell).candidates.split
    full = rank(Popularity.fit(split.train), sample_candidates(split, 0, 1))
    assert both["final"]["hr@10 all"] == hit_ratio(full, 10)
    assert both["final"]["ndcg@100 all"] == summarize_ranks(full, ["ndcg@100"])["ndcg@100"]
    assert np.mean(both["draws"]["tags hr@10 all"]) == pytest.approx(
        both["known"]["tags"]["hr@10 all"], abs=0.01
    )


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_engines_give_the_same_ranks(people: Interactions, engine: str) -> None:
    cell = Grid.from_about(SMOKE).build_mf(Size())(0)
    result = run_cell(replace(cell, measured="catalogue"), CellContext(people, 1, engine))
    expected = run_cell(cell, CellContext(people, 1))
    assert result["final"]["hr@10"] == expected["final"]["hr@10"]


def test_small_table(tmp_path: Path, people: Interactions) -> None:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=2)
    store = CellStore.create(tmp_path, about)
    grid, runner = Grid.from_about(about), Runner(people, store, 1)
    run_experiments([MainTable], grid, runner, CHEAP_METHODS, ignore_progress)
    for table in MainTable(grid, store).build_tables():
        rows = {row[0]: row[1:] for row in table.rows}
        # Nobody has 99 untouched items among 50, so chance is above 0.1.
        assert rows["random"][0].startswith("0.2")
        assert rows["popularity"][1] == rows["popularity, tags"][1] == "-"
        assert set(rows["ours, budget 10"][:6]) == {"-"}
        ease = next(record for record in table.records if record["method"].startswith("EASE"))
        assert ease["low"] <= ease["difference"] <= ease["high"]
    assert run_experiments([MainTable], grid, runner, CHEAP_METHODS, ignore_progress) == 0


def test_cells_have_reported_seeds_and_side_information() -> None:
    cells = list_cells_of(MainTable, Grid.from_about(FULL))
    assert {cell.seed for cell in cells} == {0, 1}
    side_information = {
        (cell.split, cell.side_information)
        for cell in cells
        if cell.method == "loudest" and cell.side_information
    }
    assert side_information == {("random", ("tags",)), ("latest", ("tags", "both"))}
    trusted = {(cell.split, cell.options["epsilon"]) for cell in cells if cell.method == "dp-als"}
    assert trusted == {("random", 1.0), ("latest", 1.0)}


def test_delta_is_below_one_in_the_number_of_people() -> None:
    assert compute_delta(75_040) == compute_delta(100_000) == 1e-6
    assert compute_delta(10_000_000) == pytest.approx(1e-8)
