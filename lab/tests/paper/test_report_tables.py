"""Tests of the search for the initial scale, and of the report's tables that cells make."""

import csv
import io
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lab.tests.paper.helpers import FULL
from sottovoce.data import synthetic_people
from sottovoce.training import Settings
from sottovoce_lab.paper import Cell, CellStore, Grid, Runner, run_experiments
from sottovoce_lab.paper.cell_rows import (
    format_csv,
    list_cell_rows,
    read_csv,
    read_metric,
    select_rows,
)
from sottovoce_lab.paper.initial_scale import InitialScaleSearch
from sottovoce_lab.paper.paper_numbers import TABLE4
from sottovoce_lab.paper.report_tables import (
    CELLS,
    MARK,
    PRESET_SCALE,
    REPORT,
    SOURCES,
    build_report_tables,
    write_report_tables,
)


def invent_result(cell: Cell) -> dict[str, Any]:
    """Return the paper's number, and an error that is least at the initial scale 0.2."""
    number = TABLE4.get((cell.size.users, cell.size.items), 0.5)
    error = abs(float(cell.options["initial_scale"]) - 0.2)
    metrics = {"hr@2": 0.0, "hr@5": 0.0, "hr@10": number + error + cell.seed * 1e-9}
    curve = [{"epoch": n + 1, "hr@10": n / 30} for n in range(30)] if cell.curve else None
    return {"final": metrics, "budget": {"local": 1.0, "central": None}} | (
        {"curve": curve} if curve else {}
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> InitialScaleSearch:
    """Return a search whose cells have invented results."""
    store = CellStore.create(tmp_path_factory.mktemp("search"), FULL)
    grid = Grid.from_about(FULL)
    search = InitialScaleSearch(grid, store)
    for cell in search.list_cells():
        store.put(cell, invent_result(cell), 0.0)
    return search


def test_the_search_finds_the_scale_with_the_least_distance(searched: InitialScaleSearch) -> None:
    search, table4, figure2, figure3, full, others = searched.build_tables()
    distances = {row[0]: float(row[1]) for row in search.rows}
    assert distances == pytest.approx(
        {f"{value:g}": abs(value - 0.2) for value in searched.grid.initial_scales}, abs=1e-4
    )
    assert [row[:3] for row in table4.rows[:2]] == [
        ("1,000", "1,000", "0.1160"),
        ("1,000", "5,000", "0.1010"),
    ]
    assert len(table4.rows) == 9
    assert len(figure2.rows) == 3 * 4 * 4
    assert {row[2] for row in figure3.rows} == {"1", "5", "10", "20", "30"}
    assert [row[2] for row in full.rows] == [
        "0.2163",
        "0.3755",
        "0.5131",
        "0.2315",
        "0.3980",
        "0.5384",
    ]
    assert [row[:2] for row in others.rows] == [
        ("learning_rate", "0.0005"), ("learning_rate", "0.001"), ("learning_rate", "0.002"),
        ("alpha", "1"), ("alpha", "4"), ("alpha", "40"),
    ]  # fmt: skip


def test_the_preset_begins_at_the_scale_that_the_search_chooses() -> None:
    search = build_report_tables()["initial-scale"]
    chosen = min(search.rows, key=lambda row: float(row[1]))
    assert float(chosen[0]) == PRESET_SCALE == Settings.preset("paper").initial_scale
    assert float(chosen[1]) < 0.05


def test_tables_of_the_report_are_those_of_its_cells() -> None:
    assert REPORT.read_text(encoding="utf-8") == write_report_tables()


def test_every_table_of_cells_stands_in_the_report_with_its_source() -> None:
    marks = [mark[1] for mark in MARK.finditer(REPORT.read_text(encoding="utf-8"))]
    sources = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    assert sorted(marks) == sorted(sources) == sorted(build_report_tables())
    files = {name for source in sources.values() for name in source["files"]}
    assert files == {file.name for file in CELLS.glob("*.csv")}


def test_rows_have_each_cell_with_its_seed_setting_and_metrics(
    searched: InitialScaleSearch, tmp_path: Path
) -> None:
    cells = [cell for cell in searched.list_cells() if not cell.curve]
    rows = list_cell_rows(cells, searched.store)
    assert len(rows) == len(cells)
    (tmp_path / "rows.csv").write_text(format_csv(rows))
    assert (
        read_csv(tmp_path / "rows.csv")
        == rows
        == list(csv.DictReader(io.StringIO(format_csv(rows))))
    )
    # Settings that are equal everywhere are no columns.
    assert "initial_scale" in rows[0]
    assert "factors" not in rows[0]
    own = select_rows(rows, users=1_000, items=None, seed=range(2), initial_scale=0.2, alpha=1.0)
    assert {row["seed"] for row in own} == {"0", "1"}
    interval = read_metric(own)
    assert interval is not None
    assert interval.mean == pytest.approx(0.109, abs=1e-4)
    assert read_metric(own, "no such metric") is None


def test_a_quick_search_runs(tmp_path: Path) -> None:
    people = synthetic_people(n_users=400, n_items=150, seed=0)
    about = FULL.from_data(people, "s", min_interactions=0, scale=0.0, seeds=1)
    store = CellStore.create(tmp_path, about)
    grid = Grid.from_about(about)
    runner = Runner(people, store, 1, engine="reference")
    run_experiments([InitialScaleSearch], grid, runner, [], lambda _: nullcontext(lambda *_: None))
    search, *_ = InitialScaleSearch(grid, store).build_tables()
    assert [row[0] for row in search.rows] == ["0.01", "0.3"]
    assert all(0 < float(row[2]) < 1 for row in search.rows)
