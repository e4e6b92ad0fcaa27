"""Tests of the law: its fit, and its check on other populations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import FULL, list_cells_of
from sottovoce.core.loudest import estimate_gain
from sottovoce.data import synthetic_people
from sottovoce.errors import DataError
from sottovoce.privacy import DEFAULT_DELTA, central_epsilon
from sottovoce_lab.paper import QUICK_SCALE, About, CellStore, Grid
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.grid import TUNING_SEED
from sottovoce_lab.paper.law import Law, Measurement
from sottovoce_lab.paper.law_experiment import LawExperiment
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell

TRUE_LAW = Law(
    knots=(3.4, 5.8, 8.2, 10.6, 13.0, 15.4),
    heights=(0.68, 0.72, 0.78, 0.83, 0.86, 0.875),
    few=40_000.0,
    power=0.8,
)


def count_people(cell: Cell) -> int:
    return cell.resample or cell.size.users or FULL.users


def predict_quality(cell: Cell) -> float:
    settings = cell.settings
    reports = count_people(cell) * settings.reports * settings.turns
    z = reports * estimate_gain(settings.epsilon, FULL.items) ** 2 / FULL.items
    return TRUE_LAW.predict_quality(z, reports)


def fill_store(folder: Path, error: float = 0.0) -> tuple[Grid, CellStore]:
    """Store results that obey the law, with an error in reported splits of large populations."""
    grid = replace(Grid.from_about(FULL), max_people=10**9)
    store = CellStore.create(folder, FULL)
    for cell in list_cells_of(LawExperiment, grid):
        if cell.method == "loudest":
            has_error = count_people(cell) > 1_000_000 and cell.seed < TUNING_SEED
            quality = predict_quality(cell) + (error if has_error else 0.0)
        else:
            quality = {"popularity": 0.72, "mf": 0.80}[cell.method]
        store.put(cell, {"final": {"hr@10": quality}}, 0.0)
    return grid, store


def test_fit_recovers_a_law() -> None:
    points = [
        Measurement(z, reports, TRUE_LAW.predict_quality(z, reports))
        for z in np.logspace(1.5, 6.6, 12)
        for reports in (2e4, 2e5, 1e9)
    ]
    law = Law.fit(points)
    for z in np.logspace(2, 6.4, 9):
        for reports in (3e4, 1e6):
            expected = TRUE_LAW.predict_quality(z, reports)
            assert law.predict_quality(z, reports) == pytest.approx(expected, abs=0.003)


def test_fit_needs_as_many_points_as_numbers() -> None:
    with pytest.raises(DataError):
        Law.fit([Measurement(1.0, 1.0, 0.5)] * 7)


def test_checked_populations_and_budgets_were_not_fitted() -> None:
    cells = list_cells_of(LawExperiment, replace(Grid.from_about(FULL), max_people=10**9))
    trained = [cell for cell in cells if cell.method == "loudest"]
    fitted, checked = (
        [cell for cell in trained if (cell.seed >= TUNING_SEED) is is_fitted]
        for is_fitted in (True, False)
    )
    fitted_people, checked_people = (
        {count_people(cell) for cell in part} for part in (fitted, checked)
    )
    assert fitted_people.isdisjoint(checked_people)
    fitted_epsilons, checked_epsilons = (
        {cell.settings.epsilon for cell in part if cell.settings.reports == 1}
        for part in (fitted, checked)
    )
    assert fitted_epsilons.isdisjoint(checked_epsilons)
    assert max(checked_people) == 100_000_000


def test_tables_of_results_that_obey_the_law(tmp_path: Path) -> None:
    grid, store = fill_store(tmp_path)
    (checks,) = LawExperiment(grid, store).build_tables()
    assert f"in {len(checks.rows)} of {len(checks.rows)} cells" in checks.notes[1]
    figure = Figure()
    LawExperiment(grid, store).draw(figure)
    assert figure.axes[0].get_xlabel() == "people"


def test_table_of_results_that_break_the_law(tmp_path: Path) -> None:
    grid, store = fill_store(tmp_path, error=-0.02)
    (checks,) = LawExperiment(grid, store).build_tables()
    large = sum(int(row[0].replace(",", "")) > 1_000_000 for row in checks.rows)
    assert f"in {len(checks.rows) - large} of {len(checks.rows)} cells" in checks.notes[1]


def test_central_budget_counts_the_crowd_of_one_epoch() -> None:
    people = synthetic_people(n_users=200, n_items=40, seed=0)
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=1)
    cells = list_cells_of(LawExperiment, Grid.from_about(about))
    cell = next(cell for cell in cells if cell.resample)
    result = run_cell(cell, CellContext(people, 1))
    settings = cell.settings
    assert settings.turns < settings.epochs
    crowd = settings.estimate_crowd(400)
    assert result["budget"]["central"] == central_epsilon(settings.event(40), crowd, DEFAULT_DELTA)
