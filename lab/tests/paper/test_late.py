from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.tests.paper.test_runner import Watched
from sottovoce.data import synthetic_people
from sottovoce_lab.paper import About, CellStore, Runner, Scale, late
from sottovoce_lab.paper.rules import settings_of

METHODS = (
    "popularity", "MF-NP", "FCF", "DP-ALS, central 1", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip
METRICS = ("recall@20", "recall@50", "ndcg@100")
ABOUT = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, quick=True, seeds=2)


def filled(folder: Path, about: About = ABOUT, *, tags: bool = True) -> tuple[Scale, CellStore]:
    """Made-up results: quality by seed, more with tags."""
    scale, store = Scale.of(about), CellStore.start(folder, about)
    for cell in late.cells(scale):
        alone = {metric: 0.1 * (cell.seed + place) for place, metric in enumerate(METRICS, 1)}
        more = {metric: value + 0.05 for metric, value in alone.items()}
        known = {"tags": more} if tags else {}
        store.put(cell, {"final": alone, "known": known}, 0.0)
    return scale, store


@pytest.mark.parametrize("tags", [True, False])
def test_every_method_has_a_row_and_every_number_a_record(tmp_path: Path, tags: bool) -> None:
    scale, store = filled(tmp_path, tags=tags)
    (table,) = late.tables(scale, store)
    assert [row[0] for row in table.rows] == [*METHODS]
    assert table.headings[1:7] == (
        "Recall@20", "Recall@50", "NDCG@100", "Recall@20, tags", "Recall@50, tags",
        "NDCG@100, tags",
    )  # fmt: skip
    assert len(table.records) == len(METHODS) * (6 if tags else 3)
    means = [record["mean"] for record in table.records if record["method"] == "MF-NP"]
    assert means == pytest.approx([0.15, 0.25, 0.35] + [0.2, 0.3, 0.4] * tags)
    assert ("-" in table.rows[0][1:7]) is not tags
    assert "80 people" in table.notes[0]
    assert "the 320 others" in table.notes[0]
    figure = Figure()
    late.draw(scale, store, figure)
    assert [axes.get_xlabel() for axes in figure.axes] == ["Recall@20", "NDCG@100"]
    top, bottom = figure.axes[0].get_ylim()
    assert top > bottom, "the first row is on top"


def test_before_anything_is_computed_the_table_is_empty(tmp_path: Path) -> None:
    (table,) = late.tables(Scale.of(ABOUT), CellStore.start(tmp_path, ABOUT))
    assert not table.filled


def test_settings_are_for_those_who_report() -> None:
    about = replace(ABOUT, quick=False, users=20_000, items=9_781)
    cells = late.cells(Scale.of(about))
    assert {cell.measured for cell in cells} == {"late"}
    planned = settings_of("loudest", 2.5, 100, 20, users=15_000, items=9_781)
    mine = [cell for cell in cells if cell.method == "loudest" and cell.seed == 0]
    assert planned in [cell.settings for cell in mine]
    assert len(mine) == 3


@pytest.mark.slow  # every method, tiny
def test_in_small(tmp_path: Path) -> None:
    people = synthetic_people(n_users=80, n_items=50, seed=0)
    about = About.of(people, "synthetic", min_interactions=0, quick=True, seeds=1)
    scale, store = Scale.of(about), CellStore.start(tmp_path, about)
    assert Runner(people, store, 1).run(late.cells(scale), Watched()) == len(METHODS)
    (table,) = late.tables(scale, store)
    assert "-" not in {number for row in table.rows for number in row[1:7]}
    spent = {row[0]: row[7:] for row in table.rows}
    assert spent["popularity"] == spent["MF-NP"] == spent["FCF"] == ("-", "-")
    assert spent["DP-ALS, central 1"] == ("-", "1")
    assert spent["loudest, budget 100"][0] == "100"
