"""Tests of Table 5 by what is left out."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.paper.helpers import SMOKE, list_cells_of
from sottovoce_lab.paper import CellStore, Grid
from sottovoce_lab.paper.table5 import Table5


def test_table_by_time_has_every_split_with_and_without_time(tmp_path: Path) -> None:
    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for cell in list_cells_of(Table5, grid):
        quality = 0.2 + 0.1 * cell.seed + 0.05 * (cell.split == "date")
        final = {f"hr@{length}": quality for length in (2, 5, 10)}
        side = {"known": {"time": {"hr@10": quality + 0.01}}} if cell.side_information else {}
        spent = {"local": 7.0, "central": None}
        store.put(cell, {"final": final, "budget": spent, **side}, 0.0)
    usual, by_time = Table5(grid, store).build_tables()
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


def test_data_without_times_is_split_at_random(tmp_path: Path) -> None:
    grid = Grid.from_about(replace(SMOKE, timestamps=False))
    assert {cell.split for cell in list_cells_of(Table5, grid)} == {"random"}
    _, by_time = Table5(grid, CellStore.create(tmp_path, grid.about)).build_tables()
    assert by_time.headings == ("method", "random", "random, with time")
