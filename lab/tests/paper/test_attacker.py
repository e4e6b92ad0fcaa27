"""Tests of the attacker at every preset: bounds, cells, and sentences about the bounds."""

from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import FULL, list_cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce.privacy import central_epsilon
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import list_presets
from sottovoce_lab.audit import AttackPlan, run_attack
from sottovoce_lab.paper import QUICK_SCALE, CellStore, Grid, Size
from sottovoce_lab.paper.attacker import ATTACK_PARAMETERS, AttackerExperiment, compute_max_auc
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell

# The cell of preset crowd, question history, seed 1: each training has two questions, two seeds.
CHANGED_CELL = 19
LABELS = ["paper, coordinate", "loudest", "named", "strong", "crowd", "budget 50"]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=40, seed=0)


@pytest.fixture(scope="module")
def grid() -> Grid:
    return Grid.from_about(replace(FULL, users=400, items=150, scale=QUICK_SCALE))


def fill_store(folder: Path, grid: Grid, **changes: float) -> CellStore:
    """Store equal results for all cells, with changes in `CHANGED_CELL`."""
    store = CellStore.create(folder, grid.about)
    usual = {"linked": 0.9, "unlinked": 0.55, "linked error": 0.01, "unlinked error": 0.01}
    for index, cell in enumerate(list_cells_of(AttackerExperiment, grid)):
        result = {
            "final": {**usual, **(changes if index == CHANGED_CELL else {})},
            "bounds": {"linked": 1.0, "unlinked": 0.6, "gaussian": 0.58},
            "budget": {"local": 10.0, "central": 1.0},
        }
        store.put(cell, result, 0.0)
    return store


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (1.0, 0.05), (3.0, 0.3)])
def test_bound_is_the_area_below_both_lines(epsilon: float, delta: float) -> None:
    x = np.linspace(0, 1, 200_001)
    y = np.minimum(exp(epsilon) * x + delta, 1 - exp(-epsilon) * (1 - delta - x))
    expected = np.trapezoid(np.minimum(y, 1), x)
    assert compute_max_auc(epsilon, delta) == pytest.approx(expected, abs=1e-8)


def test_every_preset_is_attacked_with_both_questions() -> None:
    cells = list_cells_of(AttackerExperiment, Grid.from_about(FULL))
    assert {cell.size for cell in cells} == {Size(5_000, 1_000)}
    assert {(cell.seed, cell.draw) for cell in cells} == {(0, 0), (1, 0)}
    assert len({cell.key for cell in cells}) == len(cells) == 2 * 2 * len(LABELS)
    assert ", ".join(LABELS).split(", ") == [*list_presets(), "budget 50"]
    assert sum(bool(cell.options["lifetime"]) for cell in cells) == 4


def test_cell_is_an_attack_with_its_bounds(grid: Grid, people: Interactions) -> None:
    planned = next(
        cell
        for cell in list_cells_of(AttackerExperiment, grid)
        if cell.options["question"] == "history"
    )
    changes = {"reports": 2, "epochs": 3, "lifetime": 1, "trials": 40, "epsilon": 0.5}
    options = {**planned.options, **changes}
    cell = replace(planned, seed=3, parameters=tuple(options.items()))
    result = run_cell(cell, CellContext(people, 1))
    attack = {name: options.pop(name) for name in ATTACK_PARAMETERS}
    settings = replace(cell, parameters=tuple(options.items())).settings
    plan = AttackPlan(**attack, points=((2, 3),), seed=3, threads=1)
    (point,) = run_attack(people.histories, settings, plan).points
    assert result["final"] == {
        "linked": point.linked.value,
        "unlinked": point.unlinked.value,
        "linked error": point.linked.error,
        "unlinked error": point.unlinked.error,
    }
    crowd = settings.estimate_crowd(people.n_users)
    central = central_epsilon(settings.event(40), crowd, DEFAULT_DELTA)
    assert result["budget"] == {"local": 1.0, "central": central}
    bounds = result["bounds"]
    assert bounds["linked"] == compute_max_auc(1.0)
    assert bounds["gaussian"] == point.bound
    assert point.bound < bounds["unlinked"] < compute_max_auc(central, DEFAULT_DELTA)


def test_table_and_picture(tmp_path: Path, grid: Grid) -> None:
    store = fill_store(tmp_path, grid)
    (table,) = AttackerExperiment(grid, store).build_tables()
    assert table.notes[0] == "Under the bound in 24 of 24 cells."
    assert list(dict.fromkeys(row[0] for row in table.rows)) == LABELS
    assert table.rows[0][5:] == (
        "10", "1", "0.9000 ± 0.0000", "1.0000", "0.5500 ± 0.0000", "0.6000", "0.5800",
    )  # fmt: skip
    assert len(table.records) == 2 * len(table.rows)
    bounds = {(record["guess"], record["bound"]) for record in table.records}
    assert bounds == {("linked", 1.0), ("unlinked", 0.6)}
    figure = Figure()
    AttackerExperiment(grid, store).draw(figure)
    assert len(figure.axes[0].get_yticks()) == len(table.rows)
    assert [np.size(line.get_xdata()) for line in figure.axes[0].lines] == [12] * 4


# 4.9 standard errors of 0.01 beyond 0.6 are no chance.
@pytest.mark.parametrize(("unlinked", "is_over"), [(0.648, False), (0.65, True)])
def test_guess_over_the_bound_is_named(
    tmp_path: Path, grid: Grid, unlinked: float, is_over: bool
) -> None:
    store = fill_store(tmp_path, grid, unlinked=unlinked)
    (table,) = AttackerExperiment(grid, store).build_tables()
    over = "23 of 24 cells; over it: crowd, history, seed 1 (unlinked 0.6500 over 0.6000)."
    assert table.notes[0] == f"Under the bound in {over if is_over else '24 of 24 cells.'}"
