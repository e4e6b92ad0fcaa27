"""Tests of the least budget for a quality."""

from dataclasses import replace
from pathlib import Path

from lab.tests.paper.helpers import SMOKE, list_cells_of
from sottovoce.training import Settings
from sottovoce_lab.paper import Cell, CellStore, Grid, Size
from sottovoce_lab.paper.cells import TRAINED_METHODS
from sottovoce_lab.paper.frontier import (
    BudgetPoint,
    Frontier,
    Option,
    choose_options,
    find_frontier,
    find_min_budget,
    list_options,
)
from sottovoce_lab.paper.grid import TUNING_SEED


def make_point(
    local: float, central: float, quality: float, method: str = "loudest"
) -> BudgetPoint:
    settings = Settings.preset(method, learning_rate=local)
    cell = Cell.from_settings(method, Size(), settings, TUNING_SEED)  # type: ignore[arg-type]
    return BudgetPoint(Option(cell), local, central, quality)


def test_quality_rises_along_the_frontier() -> None:
    points = [
        make_point(10, 1, 0.5),
        make_point(1, 9, 0.3),
        make_point(5, 8, 0.3),  # costs more than the one before and is no better
        make_point(20, 2, 0.45),  # worse than a cheaper one
        make_point(10, 3, 0.4),  # costs as much as a better one
        make_point(50, 5, 0.7),
    ]
    assert [point.local for point in find_frontier(points, "local")] == [1, 10, 50]
    assert [point.central for point in find_frontier(points, "central")] == [1, 5]
    assert find_frontier([], "local") == []


def test_min_budget_of_a_method() -> None:
    points = [make_point(1, 9, 0.3), make_point(10, 1, 0.5), make_point(2, 2, 0.9, "paper")]
    assert find_min_budget(points, "loudest", "local", 0.3) == 1
    assert find_min_budget(points, "loudest", "local", 0.4) == 10
    assert find_min_budget(points, "loudest", "central", 0.3) == 1
    assert find_min_budget(points, "loudest", "local", 0.6) is None


def test_options_are_chosen_and_reported_on_different_splits(tmp_path: Path) -> None:
    # More epochs are better on the split for choosing, and worse on the others.
    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for option in list_options(grid):
        if option.tuning_cell.options["reports"] > 1 or option.method not in TRAINED_METHODS:
            continue
        settings = option.tuning_cell.settings
        spent = {"local": settings.epsilon * settings.epochs, "central": settings.epochs / 10}
        for seed in (TUNING_SEED, 0, 1):
            by_epochs = {1: 0.4, 2: 0.6} if seed == TUNING_SEED else {1: 0.5 + seed / 10, 2: 0.3}
            quality = by_epochs[settings.epochs] if settings.epsilon == 1.0 else 0.1
            store.put(option.make_cell(seed), {"final": {"hr@10": quality}, "budget": spent}, 0.0)
    chosen = [
        option.describe() for option in choose_options(grid, store) if option.method == "loudest"
    ]
    assert [(setting["epsilon"], setting["epochs"]) for setting in chosen] == [(1.0, 1), (1.0, 2)]
    points, targets = Frontier(grid, store).build_tables()
    ours = [record for record in points.records if record["method"] == "loudest"]
    assert [record["mean"] for record in ours] == [0.55, 0.3]
    assert [record["local"] for record in ours] == [1.0, 2.0]
    central = {
        record["hr@10"]: record["budget"]
        for record in targets.records
        if (record["method"], record["view"]) == ("loudest", "central")
    }
    assert central == {0.4: 0.1, 0.5: 0.1}
    assert {cell.seed for cell in Frontier(grid, store).list_next_cells()} == {0, 1}


def test_no_option_is_chosen_without_results(tmp_path: Path) -> None:
    grid = Grid.from_about(replace(SMOKE, scale=1.0, users=60_000, items=9_781))
    assert choose_options(grid, CellStore.create(tmp_path, grid.about)) == []
    # Large: 4 epsilons, 3 ks, 2 trainings. Small: 5 epsilons, 5 numbers of epochs, 2 trainings.
    # Counting: 5 epsilons, 6 numbers of reports; by name 6 epsilons, 5 numbers of reports.
    assert len(list_cells_of(Frontier, grid)) == 4 * 3 * 2 + 5 * 5 * 2 + 5 * 6 + 6 * 5
