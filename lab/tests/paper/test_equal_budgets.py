"""Tests of every method at equal budgets."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE, list_cells_of
from sottovoce.core.coin import MAX_EPSILON
from sottovoce_lab.paper import Cell, CellStore, Grid
from sottovoce_lab.paper.equal_budgets import EqualBudgets
from sottovoce_lab.paper.side_information import SideInformationExperiment

GRID = Grid.from_about(replace(SMOKE, scale=1.0, users=75_040, items=9_781))


def compute_local_budget(cell: Cell, items: int) -> float:
    options = cell.options
    if cell.method == "dplcf":
        return float(options["epsilon"] * items)
    if cell.method == "private-popularity":
        return float(options["epsilon"] * options["reports"])
    return cell.settings.event(items).pure


def test_every_method_has_the_budget_of_its_row() -> None:
    methods = ("loudest", "dplcf", "private-popularity", "dp-als")
    cells = [cell for cell in list_cells_of(EqualBudgets, GRID) if cell.method in methods]
    for cell in cells:
        if cell.method == "dp-als":
            assert cell.options["epsilon"] in GRID.central_budgets
            continue
        local = compute_local_budget(cell, 9_781)
        if local not in (5_000.0, 500.0, 50.0, 10.0):
            nearest = min(GRID.local_budgets, key=lambda budget: abs(budget - local))
            is_central = cell.method == "loudest" and cell.settings.epsilon == 4.0
            assert is_central or 0.95 * nearest <= local <= nearest * (1 + 1e-9)
    n_local, n_central = len(GRID.local_budgets), len(GRID.central_budgets)
    seeds = len(GRID.seeds)
    assert Counter(cell.method for cell in cells) == {
        "loudest": seeds * (n_local + n_central),
        "dplcf": seeds * n_local,
        "private-popularity": seeds * n_local,
        "dp-als": seeds * n_central,
    }


def test_trainings_are_shared_with_the_side_information_experiment() -> None:
    random_cells = [
        cell for cell in list_cells_of(SideInformationExperiment, GRID) if cell.split == "random"
    ]
    ours, theirs = (
        {cell.training_cell for cell in cells}
        for cells in (list_cells_of(EqualBudgets, GRID), random_cells)
    )
    assert {cell.method for cell in ours & theirs} == {"loudest", "mf", "popularity"}


def test_every_epsilon_is_possible() -> None:
    for cell in list_cells_of(EqualBudgets, GRID):
        assert cell.method == "dp-als" or cell.options.get("epsilon", 1.0) <= MAX_EPSILON


def test_tables_and_panels(tmp_path: Path) -> None:
    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for cell in list_cells_of(EqualBudgets, grid):
        result = {"final": {"hr@10": 0.2 + 0.1 * cell.seed}, "budget": {"local": 7.0}}
        store.put(cell, result, 0.0)
    local, central = EqualBudgets(grid, store).build_tables()
    assert (local.name, central.name) == ("equal-local", "equal-central")
    assert [row[0] for row in local.rows] == ["10", "100"]
    assert [row[0] for row in central.rows] == ["1", "10"]
    for table in (local, central):
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(record["mean"] == pytest.approx(0.25) for record in table.records)
    assert len(local.records) == 2 * 5
    assert len(central.records) == 2 * 2
    figure = Figure()
    EqualBudgets(grid, store).draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [5 + 2, 2 + 2]
