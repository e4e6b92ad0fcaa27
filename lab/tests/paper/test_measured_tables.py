"""Tests of the report's tables that are made of an experiment's numbers."""

from pathlib import Path
from typing import Any

import pytest

from lab.tests.paper.helpers import FULL
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper import CellStore, Grid, Table
from sottovoce_lab.paper.main_table import MainTable
from sottovoce_lab.paper.measured_tables import (
    PIVOTS,
    build_measured_tables,
    find_measured,
    list_replay_rows,
)
from sottovoce_lab.paper.tables import make_records

VALUES = {"popularity": [0.5, 0.6, 0.7], "ours, budget 10": [0.7, 0.7, 0.7]}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with one file of the main table."""
    budgets = {"local": 10.0, "central": 123.0}
    records = [
        record | ({"difference": 0.1, "low": -0.05, "high": 0.25} if "ours" in method else {})
        for method, values in VALUES.items()
        for metric in ("hr@10", "ndcg@100 all")
        for record in make_records(
            Interval.from_values(values), method=method, split="random", metric=metric,
            **(budgets if "ours" in method else {"local": None, "central": None}),
        )
    ]  # fmt: skip
    text = Table("main-random", "", ("",), [], records).to_csv()
    (tmp_path / "main-random.csv").write_text(text)
    return tmp_path


def take(results: Path, data: str) -> Path:
    folder = results / "cells"
    folder.mkdir()
    for name, path in find_measured(results, data).items():
        (folder / name).write_bytes(path.read_bytes())
    return folder


def test_main_table_has_means_with_intervals_and_budgets(results: Path) -> None:
    tables = build_measured_tables(take(results, "netflix-75k"))
    assert sorted(tables) == ["adds-netflix-75k-random", "main-netflix-75k"]
    headings, popularity, ours = tables["main-netflix-75k"].visible_rows
    assert headings == (
        "method", "local", "central", "random: HR@10, 99 others", "random: NDCG@100, all",
    )  # fmt: skip
    assert popularity == ("popularity", "", "", "0.6000 ± 0.2484", "0.6000 ± 0.2484")
    assert ours == ("ours, budget 10", "10", "above 100", "0.7000 ± 0.0000", "0.7000 ± 0.0000")


def test_what_reports_add_has_own_rows_only(results: Path) -> None:
    tables = build_measured_tables(take(results, "netflix-75k"))
    assert tables["adds-netflix-75k-random"].rows == [
        (
            "ours, budget 10",
            *(["+0.1000 (-0.0500 to +0.2500)", "-"]),
            "+0.1000 (-0.0500 to +0.2500)",
        )
    ]


def test_main_table_of_other_data_is_not_taken(results: Path) -> None:
    assert find_measured(results, "other") == {}
    assert list(find_measured(results, "netflix-fresh-40k")) == [
        "main-netflix-fresh-40k-random.csv"
    ]


def test_files_have_the_names_of_the_tables_of_the_experiments(tmp_path: Path) -> None:
    main = MainTable(Grid.from_about(FULL), CellStore.create(tmp_path, FULL))
    names = {
        f"{table.name}.csv".replace("main-", "main-netflix-75k-") for table in main.build_tables()
    }
    assert names <= {file for pivot in PIVOTS.values() for file in pivot.files}


def test_frontier_has_the_least_budget_of_each_method(tmp_path: Path) -> None:
    points = [("loudest", 1, 0.1, 0.55), ("loudest", 5, 0.05, 0.71), ("named-counts", 8, 8, 0.72)]
    lines = ["method,local,central,mean", *(",".join(map(str, point)) for point in points)]
    (tmp_path / "frontier.csv").write_text("\n".join(lines) + "\n")
    table = build_measured_tables(tmp_path)["frontier"]
    assert table.headings == ("HR@10", "ours", "by name, counted")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["0.50"] == ("1 (0.05)", "8")
    assert rows["0.70"] == ("5 (0.05)", "8")
    assert rows["0.72"] == ("-", "8")
    assert rows["0.74"] == ("-", "-")


def test_numbers_of_a_replay_are_means_of_its_later_periods() -> None:
    def make_period(epochs: int, ratio: float, tested: int = 5) -> dict[str, Any]:
        quality = {"model": {"hr@10": ratio}} if tested else {}
        return {"epochs": epochs, "tested": tested, "quality": quality}

    runs = [
        {"periods": [make_period(2, 0.9), make_period(3, ratio), make_period(4, 0.4)]}
        for ratio in (0.2, 0.4)
    ]
    runs[1]["periods"].append(make_period(5, 0.9, tested=0))
    later = {"model": {"hr@10": {"mean": 0.35, "interval95": None}}}
    settings = {"periods": 5, "mechanism": "named", "epsilon": 12.5, "reports": 1, "lifetime": 4}
    difference = {"difference": 0.1, "low": -0.1, "high": 0.3}
    replay = {
        "settings": {**settings, "dummies": 0},
        "runs": runs,
        "later": later,
        "differences": {"models": [{"model": "model", "metric": "hr@10", **difference}]},
    }
    fewer_seeds = {**replay, "runs": runs[:1]}
    (row,) = list_replay_rows([fewer_seeds, replay])
    assert (row["plan"], row["model"]) == ("names: 4 reports of eps 12.5", "model")
    assert row["values"] == "0.300000 0.400000"
    assert row["mean"] == pytest.approx(0.35)
    assert difference.items() <= row.items()
