"""What tags and time are worth to every method: cells, rows and records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.simulation import SimulationPlan, simulate
from sottovoce.simulation.evaluation import Known, rank_scores, sample_candidates, summary
from sottovoce.training import Settings
from sottovoce_lab.baselines import DPLCF
from sottovoce_lab.paper import About, Cell, CellStore, Runner, Scale, Size, Table, known
from sottovoce_lab.paper.cells import Way
from sottovoce_lab.paper.methods import CellContext, run_cell
from sottovoce_lab.paper.rules import MF, NEIGHBOURS

METHODS = (
    "popularity", "MF-NP", "loudest, budget 10", "loudest, budget 100", "loudest, k 20",
)  # fmt: skip
NEIGHBOURLY = "DPLCF, 2.5 an item"
WAYS: tuple[Way, ...] = ("tags", "time", "both")


class Unwatched:
    def begin(self, cell: Cell) -> None: ...

    def advance(self, work: float) -> None: ...


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def computed(folder: Path, people: Interactions, seeds: int = 1) -> tuple[Scale, CellStore]:
    about = About.of(people, "synthetic", min_interactions=0, quick=True, seeds=seeds)
    store, scale = CellStore.start(folder, about), Scale.of(about)
    Runner(people, store, 1).run(known.cells(scale), Unwatched())
    return scale, store


def filled(table: Table) -> dict[tuple[str, str], tuple[str, ...]]:
    """By method and split: its four numbers."""
    return {(row[0], row[1]): row[2:6] for row in table.rows}


def test_every_method_has_a_row_and_every_number_a_record(
    tmp_path: Path, people: Interactions
) -> None:
    scale, store = computed(tmp_path, people, seeds=2)
    (table,) = known.tables(scale, store)
    assert table.name == "known"
    assert table.headings == (
        "method", "left out", "alone", "with tags", "with time", "with both", "local budget",
        "central budget",
    )  # fmt: skip
    rows = filled(table)
    assert [method for method, split in rows if split == "random"] == [*METHODS]
    assert [method for method, split in rows if split == "latest"] == [
        *METHODS[:2], NEIGHBOURLY, *METHODS[2:],
    ]  # fmt: skip
    for (method, split), (alone, tags, time, both) in rows.items():
        assert alone != "-"
        assert (tags == "-") is (method == NEIGHBOURLY)
        assert (time == "-") is (split == "random")
        assert (both == "-") is (split == "random" or method == NEIGHBOURLY)
    shown = sum(number != "-" for numbers in rows.values() for number in numbers)
    assert len(table.records) == shown == 5 * 2 + 5 * 4 + 2
    assert all(record["runs"] == 2 for record in table.records)
    assert {record["known"] for record in table.records} == {"alone", *WAYS}
    figure = Figure()
    known.draw(scale, store, figure)
    assert len(figure.axes[0].get_yticks()) == len(rows)


def test_what_is_known_costs_nothing(tmp_path: Path, people: Interactions) -> None:
    scale, store = computed(tmp_path, people)
    (table,) = known.tables(scale, store)
    for method in (*METHODS, NEIGHBOURLY):
        budgets = {(r["local"], r["central"]) for r in table.records if r["method"] == method}
        assert len(budgets) == 1
    planned = {r["method"]: r["local"] for r in table.records if "budget" in r["method"]}
    assert len(planned) == 2
    assert all(0 < local <= float(name.split()[-1]) for name, local in planned.items())


@pytest.mark.parametrize("lacking", ["timestamps", "tags"])
def test_data_that_lacks_something_has_fewer_rows_or_numbers(
    tmp_path: Path, people: Interactions, lacking: str
) -> None:
    data = (
        replace(people, timestamps=None) if lacking == "timestamps" else replace(people, tags=None)
    )
    (table,) = known.tables(*computed(tmp_path, data))
    if lacking == "timestamps":
        assert {split for _, split in filled(table)} == {"random"}
    else:
        assert all(tags == both == "-" for _, tags, _, both in filled(table).values())
        assert {record["known"] for record in table.records} == {"alone", "time"}


def test_before_anything_is_computed_the_table_is_empty(
    tmp_path: Path, people: Interactions
) -> None:
    about = About.of(people, "synthetic", min_interactions=0, quick=True, seeds=1)
    (table,) = known.tables(Scale.of(about), CellStore.start(tmp_path, about))
    assert not table.filled
    assert {*sum(filled(table).values(), ())} == {"-"}


# Cells.


def result_of(cell: Cell, people: Interactions) -> dict[str, Any]:
    return run_cell(replace(cell, known=WAYS), CellContext(people, 1))


def test_a_training_is_ranked_as_its_simulation_with_the_same_knowledge(
    people: Interactions,
) -> None:
    settings = Settings.preset("loudest", epochs=2, reports=10, factors=2)
    cell = Cell.training("loudest", Size(), settings, 0, split="latest")
    result = result_of(cell, people)
    assert {*result["known"]} == {*WAYS}
    for way, tags, time in (("tags", True, False), ("time", False, True), ("both", True, True)):
        plan = SimulationPlan(settings, "latest", evaluate_every=0, tags=tags, time=time)
        run = simulate(people, plan)
        assert result["known"][way] == run.final
        assert result["final"] == run.without
    assert "known" not in run_cell(cell, CellContext(people, 1))


def test_dplcf_takes_the_order_alone(people: Interactions) -> None:
    named: dict[str, Any] = {"epsilon": 2.5, "neighbours": NEIGHBOURS}
    result = result_of(Cell.make("dplcf", Size(), 0, split="latest", **named), people)
    split = leave_one_out(people, "latest", 0)
    order = Known.of(people, split, tags=False, time=True).weights
    model = replace(DPLCF.fit(split.train, **named, seed=0), weights=order)
    ranks = rank_scores(model, sample_candidates(split, 99, 0))
    assert {*result["known"]} == {"time"}
    assert result["known"]["time"] == pytest.approx(summary(ranks))
    assert result["known"]["time"] != result["final"]


def test_methods_without_vectors_make_nothing_of_it(people: Interactions) -> None:
    assert result_of(Cell.make("random", Size(), 0), people).get("known") is None


def test_matrix_factorisation_has_a_number_of_each_way(people: Interactions) -> None:
    named = {**MF, "iterations": 1}
    result = result_of(Cell.make("mf", Size(), 3, **named), people)
    assert {*result["known"]} == {*WAYS}
    assert len({tuple(np.round([*each.values()], 9)) for each in result["known"].values()}) == 3
