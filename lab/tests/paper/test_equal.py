"""Equal budgets, and Table 5 by what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from sottovoce.core.coin import MAX_EPSILON
from sottovoce_lab.paper import About, CellStore, Scale, benchmarks, equal, known
from sottovoce_lab.paper.cells import Cell

ABOUT = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, quick=True, seeds=2)
FULL = replace(ABOUT, quick=False, users=75_040, items=9_781)


def filled(folder: Path, experiment: ModuleType) -> tuple[Scale, CellStore]:
    """Made-up results: seeds differ, so does what is left out; time helps by 0.01."""
    scale, store = Scale.of(ABOUT), CellStore.start(folder, ABOUT)
    for cell in experiment.cells(scale):
        quality = 0.2 + 0.1 * cell.seed + 0.05 * (cell.split == "date")
        final = {f"hr@{cutoff}": quality for cutoff in (2, 5, 10)}
        result = {"final": final, "budget": {"local": 7.0, "central": None}}
        if cell.known:
            result["known"] = {"time": {"hr@10": quality + 0.01}}
        store.put(cell, result, 0.0)
    return scale, store


def spent(cell: Cell, items: int) -> float:
    """The local budget of a person."""
    named = cell.named
    if cell.method == "dplcf":
        return float(named["epsilon"] * items)
    if cell.method == "private-popularity":
        return float(named["epsilon"] * named["reports"])
    return cell.settings.event(items).pure


def test_every_method_of_a_row_has_the_budget_of_the_row() -> None:
    scale = Scale.of(FULL)
    counted = {"loudest": 0, "dplcf": 0, "private-popularity": 0, "dp-als": 0}
    for cell in equal.cells(scale):
        if cell.method in counted:
            counted[cell.method] += 1
        if cell.method == "dp-als":
            assert cell.named["epsilon"] in scale.central
        elif cell.method in counted and spent(cell, 9_781) not in (5_000.0, 500.0, 50.0, 10.0):
            local = spent(cell, 9_781)
            near = min(scale.lifetimes, key=lambda each: abs(each - local))
            is_central = cell.method == "loudest" and cell.settings.epsilon == 4.0
            assert is_central or 0.95 * near <= local <= near * (1 + 1e-9)
    budgets, seeds = len(scale.lifetimes), len(scale.seeds)
    assert counted == {
        "loudest": seeds * (budgets + len(scale.central)),
        "dplcf": seeds * budgets,
        "private-popularity": seeds * budgets,
        "dp-als": seeds * len(scale.central),
    }


def test_what_is_computed_for_one_table_serves_the_other() -> None:
    scale = Scale.of(FULL)
    of_random = {cell for cell in known.cells(scale) if cell.split == "random"}
    mine, theirs = ({cell.trained_as for cell in some} for some in (equal.cells(scale), of_random))
    assert {cell.method for cell in mine & theirs} == {"loudest", "mf", "popularity"}


def test_every_budget_can_be_spent() -> None:
    for cell in equal.cells(Scale.of(FULL)):
        assert cell.method == "dp-als" or cell.named.get("epsilon", 1.0) <= MAX_EPSILON


def test_two_tables_and_a_panel_for_each(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, equal)
    local, central = equal.tables(scale, store)
    assert (local.name, central.name) == ("equal-local", "equal-central")
    assert [row[0] for row in local.rows] == ["10", "100"]
    assert [row[0] for row in central.rows] == ["1", "10"]
    for table in (local, central):
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(record["mean"] == pytest.approx(0.25) for record in table.records)
    assert len(local.records) == 2 * 5
    assert len(central.records) == 2 * 2
    figure = Figure()
    equal.draw(scale, store, figure)
    assert [len(axes.lines) for axes in figure.axes] == [5 + 2, 2 + 2]


def test_table_5_by_what_is_left_out(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, benchmarks)
    usual, by_time = benchmarks.tables(scale, store)
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
    scale = Scale.of(replace(ABOUT, timestamps=False))
    assert {cell.split for cell in benchmarks.cells(scale)} == {"random"}
    _, by_time = benchmarks.tables(scale, CellStore.start(tmp_path, scale.about))
    assert by_time.headings == ("method", "random", "random, with time")
