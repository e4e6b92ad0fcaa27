"""Tests of how baselines are tuned."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lab.tests.paper.helpers import FULL, SMOKE, list_cells_of
from sottovoce.data import synthetic_people
from sottovoce_lab.paper import Cell, CellStore, Grid, Runner, run_experiments
from sottovoce_lab.paper.grid import ALS_BY_METRIC, EASE_RIDGE_BY_METRIC, TUNING_SEED
from sottovoce_lab.paper.main_table import METRIC_LABELS, TUNING_METRICS
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.tuning import (
    GRID_STARTS,
    PARAMETER_GRIDS,
    Tuning,
    is_on_edge,
    list_neighbours,
)


def test_search_ends_where_no_neighbour_is_better(tmp_path: Path) -> None:
    # One method's best setting is inside its grid, and the other's on the edge.
    best = {"factors": 96, "regularization": 30.0, "alpha": 3.0, "ridge": 32_000.0}

    def invent_result(cell: Cell, _: CellContext) -> dict[str, Any]:
        grid = PARAMETER_GRIDS[cell.method]
        distance = sum(
            abs(values.index(cell.options[name]) - values.index(best[name]))
            for name, values in grid.items()
        )
        return {"final": dict.fromkeys(METRIC_LABELS, 1 - 0.1 * distance)}

    grid, store = Grid.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    people = synthetic_people(n_users=20, n_items=20, seed=0)
    runner = Runner(people, store, 1, invent_result)
    run_experiments([Tuning], grid, runner, [], lambda _: nullcontext(lambda *_: None))
    (table,) = Tuning(grid, store).build_tables()
    chosen = {record["method"]: record for record in table.records if record["best"]}
    assert chosen["mf"]["factors"] == 96
    assert not chosen["mf"]["edge"]
    assert chosen["ease"]["ridge"] == 32_000.0
    assert chosen["ease"]["edge"]
    assert "at the grid's edge" in table.rows[-1][-1]
    tried = [record for record in table.records if record["method"] == "mf"]
    setting = {name: chosen["mf"][name] for name in PARAMETER_GRIDS["mf"]}
    neighbours = list_neighbours("mf", setting)
    assert len(neighbours) == 2 * 3 + 4
    for neighbour in neighbours:
        assert any(neighbour.items() <= record.items() for record in tried)


def test_used_settings_are_inside_the_grids() -> None:
    *_, second_largest, largest = PARAMETER_GRIDS["mf"]["factors"]
    for method, start in GRID_STARTS.items():
        assert not is_on_edge(method, start)
    for metric in TUNING_METRICS:
        setting = dict(ALS_BY_METRIC[metric])
        # The report says that more factors do not fit into a card's processor.
        if setting["factors"] == largest:
            setting["factors"] = second_largest
        assert not is_on_edge("mf", setting)
        assert not is_on_edge("ease", {"ridge": EASE_RIDGE_BY_METRIC[metric]})


def test_settings_are_chosen_on_a_split_that_is_not_reported() -> None:
    assert {cell.seed for cell in list_cells_of(Tuning, Grid.from_about(FULL))} == {TUNING_SEED}
