"""Equal budgets, the frontier, and Table 5 by what is left out."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE, cells_of
from sottovoce.core.coin import MAX_EPSILON
from sottovoce.training import Settings
from sottovoce_lab.paper import Cell, CellStore, Scale, Size
from sottovoce_lab.paper.budgets import (
    BudgetPoint,
    Equal,
    Frontier,
    Option,
    choose_options,
    find_frontier,
    find_min_budget,
    list_options,
)
from sottovoce_lab.paper.cells import TRAINED_METHODS
from sottovoce_lab.paper.people import SideInformationExperiment
from sottovoce_lab.paper.published import Table5
from sottovoce_lab.paper.scale import TUNING_SEED
from sottovoce_lab.paper.tables import Experiment

FULL = replace(SMOKE, scale=1.0, users=75_040, items=9_781)


def filled(folder: Path, experiment: type[Experiment]) -> tuple[Scale, CellStore]:
    """Made-up results: seeds differ, so does what is left out; time helps by 0.01."""
    scale, store = Scale.from_about(SMOKE), CellStore.create(folder, SMOKE)
    for cell in cells_of(experiment, scale):
        quality = 0.2 + 0.1 * cell.seed + 0.05 * (cell.split == "date")
        final = {f"hr@{cutoff}": quality for cutoff in (2, 5, 10)}
        result = {"final": final, "budget": {"local": 7.0, "central": None}}
        if cell.known:
            result["known"] = {"time": {"hr@10": quality + 0.01}}
        store.put(cell, result, 0.0)
    return scale, store


def spent(cell: Cell, items: int) -> float:
    """The local budget of a person."""
    named = cell.options
    if cell.method == "dplcf":
        return float(named["epsilon"] * items)
    if cell.method == "private-popularity":
        return float(named["epsilon"] * named["reports"])
    return cell.settings.event(items).pure


def test_every_method_of_a_row_has_the_budget_of_the_row() -> None:
    scale = Scale.from_about(FULL)
    counted = {"loudest": 0, "dplcf": 0, "private-popularity": 0, "dp-als": 0}
    for cell in cells_of(Equal, scale):
        if cell.method in counted:
            counted[cell.method] += 1
        if cell.method == "dp-als":
            assert cell.options["epsilon"] in scale.central_budgets
        elif cell.method in counted and spent(cell, 9_781) not in (5_000.0, 500.0, 50.0, 10.0):
            local = spent(cell, 9_781)
            near = min(scale.local_budgets, key=lambda each: abs(each - local))
            is_central = cell.method == "loudest" and cell.settings.epsilon == 4.0
            assert is_central or 0.95 * near <= local <= near * (1 + 1e-9)
    budgets, seeds = len(scale.local_budgets), len(scale.seeds)
    assert counted == {
        "loudest": seeds * (budgets + len(scale.central_budgets)),
        "dplcf": seeds * budgets,
        "private-popularity": seeds * budgets,
        "dp-als": seeds * len(scale.central_budgets),
    }


def test_what_is_computed_for_one_table_serves_the_other() -> None:
    scale = Scale.from_about(FULL)
    of_random = {
        cell for cell in cells_of(SideInformationExperiment, scale) if cell.split == "random"
    }
    mine, theirs = (
        {cell.training_cell for cell in some} for some in (cells_of(Equal, scale), of_random)
    )
    assert {cell.method for cell in mine & theirs} == {"loudest", "mf", "popularity"}


def test_every_budget_can_be_spent() -> None:
    for cell in cells_of(Equal, Scale.from_about(FULL)):
        assert cell.method == "dp-als" or cell.options.get("epsilon", 1.0) <= MAX_EPSILON


def test_two_tables_and_a_panel_for_each(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, Equal)
    local, central = Equal(scale, store).build_tables()
    assert (local.name, central.name) == ("equal-local", "equal-central")
    assert [row[0] for row in local.rows] == ["10", "100"]
    assert [row[0] for row in central.rows] == ["1", "10"]
    for table in (local, central):
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(record["mean"] == pytest.approx(0.25) for record in table.records)
    assert len(local.records) == 2 * 5
    assert len(central.records) == 2 * 2
    figure = Figure()
    Equal(scale, store).draw(figure)
    assert [len(axes.lines) for axes in figure.axes] == [5 + 2, 2 + 2]


def test_table_5_by_what_is_left_out(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, Table5)
    usual, by_time = Table5(scale, store).build_tables()
    assert by_time.headings == ("method", "latest", "latest, with time", "date", "date, with time")
    assert [row[0] for row in by_time.rows] == [row[0] for row in usual.rows]
    means = {
        (record["method"], record["split"], record["known"]): record["mean"]
        for record in by_time.records
    }
    ours = "loudest, k 20"
    assert means[ours, "latest", "alone"] == pytest.approx(0.25)
    assert means[ours, "latest", "time"] == pytest.approx(0.26)
    assert means[ours, "date", "alone"] == pytest.approx(0.30)
    assert means[ours, "date", "time"] == pytest.approx(0.31)
    assert ("Random", "date", "time") not in means


def test_data_without_times_has_no_dates(tmp_path: Path) -> None:
    scale = Scale.from_about(replace(SMOKE, timestamps=False))
    assert {cell.split for cell in cells_of(Table5, scale)} == {"random"}
    _, by_time = Table5(scale, CellStore.create(tmp_path, scale.about)).build_tables()
    assert by_time.headings == ("method", "random", "random, with time")


def point(local: float, central: float, quality: float, method: str = "loudest") -> BudgetPoint:
    settings = Settings.preset(method, learning_rate=local)
    cell = Cell.from_settings(method, Size(), settings, TUNING_SEED)  # type: ignore[arg-type]
    return BudgetPoint(Option(cell), local, central, quality)


def test_the_frontier_rises_step_by_step() -> None:
    points = [
        point(10, 1, 0.5),
        point(1, 9, 0.3),
        point(5, 8, 0.3),  # dearer than the one before and no better
        point(20, 2, 0.45),  # worse than a cheaper one
        point(10, 3, 0.4),  # as dear as a better one
        point(50, 5, 0.7),
    ]
    assert [p.local for p in find_frontier(points, "local")] == [1, 10, 50]
    assert [p.central for p in find_frontier(points, "central")] == [1, 5]
    assert find_frontier([], "local") == []


def test_least_budget() -> None:
    points = [point(1, 9, 0.3), point(10, 1, 0.5), point(2, 2, 0.9, "paper")]
    assert find_min_budget(points, "loudest", "local", 0.3) == 1
    assert find_min_budget(points, "loudest", "local", 0.4) == 10
    assert find_min_budget(points, "loudest", "central", 0.3) == 1
    assert find_min_budget(points, "loudest", "local", 0.6) is None


def test_chosen_on_some_splits_and_reported_on_others(tmp_path: Path) -> None:
    """Made-up results: on the split for choosing more epochs are better, on the others worse."""
    scale, store = Scale.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for option in list_options(scale):
        if option.chosen_by.options["reports"] > 1 or option.method not in TRAINED_METHODS:
            continue
        settings = option.chosen_by.settings
        spent = {"local": settings.epsilon * settings.epochs, "central": settings.epochs / 10}
        for seed in (TUNING_SEED, 0, 1):
            rising = {1: 0.4, 2: 0.6} if seed == TUNING_SEED else {1: 0.5 + seed / 10, 2: 0.3}
            quality = rising[settings.epochs] if settings.epsilon == 1.0 else 0.1
            result = {"final": {"hr@10": quality}, "budget": spent}
            store.put(option.cell(seed), result, 0.0)
    chosen = [each for each in choose_options(scale, store) if each.method == "loudest"]
    assert [(each.about()["epsilon"], each.about()["epochs"]) for each in chosen] == [
        (1.0, 1),
        (1.0, 2),
    ]
    points, targets = Frontier(scale, store).build_tables()
    mine = [record for record in points.records if record["method"] == "loudest"]
    assert [record["mean"] for record in mine] == [0.55, 0.3]
    assert [record["local"] for record in mine] == [1.0, 2.0]
    reached = {r["hr@10"]: r["budget"] for r in targets.records if r["method"] == "loudest"}
    assert reached == {0.4: 0.1, 0.5: 0.1}  # the central view is the last
    cells = Frontier(scale, store).list_next_cells()
    assert {cell.seed for cell in cells} == {0, 1}


def test_nothing_is_chosen_before_anything_is_known(tmp_path: Path) -> None:
    scale = Scale.from_about(replace(SMOKE, scale=1.0, users=60_000, items=9_781))
    store = CellStore.create(tmp_path, scale.about)
    assert choose_options(scale, store) == []
    assert not any(table.has_numbers for table in Frontier(scale, store).build_tables())
    # Large: 4 epsilons, 3 ks, 2 trainings. Small: 5 epsilons, 5 numbers of epochs, 2 trainings.
    # Counting: 5 epsilons, 6 numbers of reports; by name 6 epsilons, 5 numbers of reports.
    assert len(cells_of(Frontier, scale)) == 4 * 3 * 2 + 5 * 5 * 2 + 5 * 6 + 6 * 5
