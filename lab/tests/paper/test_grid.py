"""Tests of runs with a share of the people: sizes, labels, and the paper's numbers."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.paper.helpers import FULL, SMOKE, list_cells_of
from sottovoce_lab.paper import EXPERIMENTS, CellStore, Grid, Size
from sottovoce_lab.paper.attacker import AttackerExperiment
from sottovoce_lab.paper.figures import Figure3, Table4
from sottovoce_lab.paper.paper_numbers import TABLE4
from sottovoce_lab.paper.poisoning.experiment import PoisoningExperiment

TENTH = replace(FULL, scale=0.1)


def test_only_populations_are_scaled() -> None:
    full, tenth = Grid.from_about(FULL), Grid.from_about(TENTH)
    assert (tenth.users, tenth.curve_users) == ((100, 1_000, 5_000), (1_000, 5_000))
    assert (tenth.people, tenth.full) == (7_504, Size(7_504))
    assert (full.people, full.full) == (75_040, Size())
    assert [10 * people for people in tenth.fitted_people] == list(full.fitted_people)
    assert [10 * people for people in tenth.checked_people] == list(full.checked_people)
    assert 10 * tenth.max_people == full.max_people
    names = {"users", "curve_users", "people", "full"}
    names |= {"fitted_people", "checked_people", "max_people"}
    assert replace(tenth, about=FULL, **{name: getattr(full, name) for name in names}) == full


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ("cost", "frontier")])
def test_scaled_run_has_as_many_cells(name: str) -> None:
    full, tenth = (
        list_cells_of(EXPERIMENTS[name], Grid.from_about(about)) for about in (FULL, TENTH)
    )
    # The law leaves out crowds that are too small to learn anything.
    assert len(tenth) == len(full) or name == "law"
    assert max(cell.size.users or 0 for cell in tenth) <= 7_504
    assert all(cell.size.users for cell in tenth)


def test_smallest_crowd_stands_for_the_largest_of_the_paper() -> None:
    grid = Grid.from_about(replace(FULL, scale=0.01))
    assert grid.users == (100, 500)
    sizes = [grid.make_small_size(users) for users in grid.users]
    assert [grid.find_paper_users(size) for size in sizes] == [10_000, 50_000]
    assert not set(grid.fitted_people) & set(grid.checked_people)


def test_data_with_few_people_has_small_crowds() -> None:
    few = replace(FULL, users=6_040, items=3_706)
    assert Grid.from_about(few).users == (1_000,)
    tenth = Grid.from_about(replace(few, scale=0.1))
    assert (tenth.users, tenth.people) == ((100, 1_000, 5_000), 604)
    assert {cell.size.users for cell in list_cells_of(PoisoningExperiment, tenth)} == {1_000}
    assert {cell.size.users for cell in list_cells_of(AttackerExperiment, tenth)} == {500}


def test_tables_show_the_papers_numbers_and_sizes(tmp_path: Path) -> None:
    grid, store = Grid.from_about(TENTH), CellStore.create(tmp_path, TENTH)
    (table,) = Table4(grid, store).build_tables()
    column = table.headings.index("paper")
    assert [row[column] for row in table.rows] == [f"{number:.4f}" for number in TABLE4.values()]
    assert [row[0] for row in table.rows[::3]] == [
        "100 (paper: 1,000)", "1,000 (paper: 10,000)", "5,000 (paper: 50,000)"
    ]  # fmt: skip
    (curves,) = Figure3(grid, store).build_tables()
    assert [row[3:] for row in curves.rows if row[2] == "paper"][-1] == ("-", "0.65", "-", "0.70")
    assert "Scale 0.1" in TENTH.describe()


def test_table_without_numbers_of_the_paper_has_no_column_for_them(tmp_path: Path) -> None:
    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for cell in list_cells_of(Table4, grid):
        store.put(cell, {"final": {"hr@10": 0.5}}, 1.0)
    (table,) = Table4(grid, store).build_tables()
    assert "paper" in table.headings
    assert "paper" not in table.visible_rows[0]
    assert "preset paper" in table.visible_rows[0]
    assert {len(row) for row in table.visible_rows} == {len(table.headings) - 1}
    (curves,) = Figure3(grid, store).build_tables()
    assert "paper" not in {row[2] for row in curves.rows}
