from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from sottovoce_lab.paper import About, CellStore, Scale, people
from sottovoce_lab.paper.measures import FIFTHS, fifth_name

METHODS = (
    "popularity", "MF-NP", "MF-NP, 5 factors", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip
ABOUT = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, quick=True, seeds=2)


def filled(folder: Path, seeds: int = 2) -> tuple[Scale, CellStore]:
    """Made-up results: MF-NP has twice as much in the first fifth, all the same in the last."""
    scale, store = Scale.of(ABOUT, seeds), CellStore.start(folder, ABOUT)
    for cell in people.cells(scale):
        best = cell.method == "mf" and cell.named["factors"] != 5
        base = 0.2 + 0.1 * cell.seed
        by_fifth = {
            fifth_name(kind, fifth): base * (2 if best and fifth == 0 else 1)
            for kind in ("history", "item")
            for fifth in range(FIFTHS)
        }
        if not best:
            del by_fifth[fifth_name("item", 4)]
        final = {"hr@10": base, **by_fifth, "coverage@10": 0.5, "gini@10": 0.25}
        parts = {"history": [[1, 2]] * 4 + [[3, 1000]], "item": [90, 30, 20, 7, 3]}
        store.put(cell, {"final": final, "fifths": parts}, 0.0)
    return scale, store


def test_every_method_is_in_every_table(tmp_path: Path) -> None:
    scale, store = filled(tmp_path)
    tables = people.tables(scale, store)
    assert [table.name for table in tables] == [
        "people-history", "people-history-kept", "people-item", "people-item-kept",
        "people-exposure",
    ]  # fmt: skip
    for table in tables:
        assert [row[0] for row in table.rows] == [*METHODS]
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(record["runs"] == 2 for record in table.records)
    history, kept, item, *_ = tables
    assert history.headings[2:7] == ("1: 1 to 2", "2: 1 to 2", "3: 1 to 2", "4: 1 to 2",
                                     "5: 3 to 1,000")  # fmt: skip
    assert item.headings[2] == "1: 90 items"
    assert [record["fifth"] for record in history.records[:6]] == ["all", 1, 2, 3, 4, 5]
    assert len(history.records) == len(METHODS) * 6
    assert len(kept.records) == len(METHODS) * 5
    assert len(item.records) == len(METHODS) * 6 - (len(METHODS) - 1)


def test_what_is_kept_is_divided_split_by_split(tmp_path: Path) -> None:
    _, kept, *_ = people.tables(*filled(tmp_path))
    ours = [record for record in kept.records if record["method"] == "loudest, k 20"]
    assert [record["mean"] for record in ours] == pytest.approx([0.5, 1, 1, 1, 1])
    assert [record["half_width95"] for record in ours] == pytest.approx([0] * 5)
    itself = [record["mean"] for record in kept.records if record["method"] == "MF-NP"]
    assert itself == [1.0] * 5


def test_the_answer_is_a_sentence_for_every_private_method(tmp_path: Path) -> None:
    _, kept, _, items, _ = people.tables(*filled(tmp_path / "two"))
    assert [note.split(":")[0] for note in kept.notes] == [*METHODS[3:]]
    assert kept.notes[1] == (
        "loudest, k 20: the least active fifth keeps 50.0% of what MF-NP gives it, the most active "
        "100.0% (+50.0 ± 0.0 points)."
    )
    assert items.notes == [], "a fifth without a number has no answer"
    _, once, *_ = people.tables(*filled(tmp_path / "one", seeds=1))
    assert once.notes[1].endswith("100.0% (+50.0 points).")


def test_the_picture_has_a_panel_for_people_and_one_for_items(tmp_path: Path) -> None:
    figure = Figure()
    people.draw(*filled(tmp_path), figure)
    left, right = figure.axes
    assert len(left.lines) == len(right.lines) == len(METHODS)
    assert "people" in left.get_xlabel()
    assert "items" in right.get_xlabel()


def test_before_anything_is_computed_all_is_empty(tmp_path: Path) -> None:
    tables = people.tables(Scale.of(ABOUT), CellStore.start(tmp_path, ABOUT))
    assert not any(table.filled or table.notes for table in tables if "kept" in table.name)
    assert not any(table.filled for table in tables)


def test_the_cells_are_of_the_random_split_and_ask_who_gets_what() -> None:
    cells = people.cells(Scale.of(ABOUT))
    assert {(cell.measured, cell.split, cell.negatives) for cell in cells} == {
        ("people", "random", 99)
    }
