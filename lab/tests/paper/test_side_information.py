"""Tests of what tags and time on the device are worth."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import list_cells_of
from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.simulation import Simulation, simulate
from sottovoce.simulation.evaluation.metrics import summarize_ranks
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce.training import Settings
from sottovoce_lab.baselines import DPLCF
from sottovoce_lab.baselines.models import rank_scores
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Grid, Runner, Size, Table
from sottovoce_lab.paper.cells import SideKind
from sottovoce_lab.paper.grid import DPLCF_NEIGHBOURS
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell
from sottovoce_lab.paper.side_information import SideInformationExperiment

METHODS = (
    "popularity", "MF-NP", "loudest, budget 10", "loudest, budget 100", "loudest, k 20",
)  # fmt: skip
DPLCF_LABEL = "DPLCF, 2.5 an item"
KINDS: tuple[SideKind, ...] = ("tags", "time", "both")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def compute_experiment(
    folder: Path, people: Interactions, seeds: int = 1
) -> SideInformationExperiment:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=seeds)
    store, grid = CellStore.create(folder, about), Grid.from_about(about)
    Runner(people, store, 1).run(list_cells_of(SideInformationExperiment, grid))
    return SideInformationExperiment(grid, store)


def get_numbers(table: Table) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the four numbers of each method and split."""
    return {(row[0], row[1]): row[2:6] for row in table.rows}


def test_every_method_has_a_row_with_what_it_can_use(tmp_path: Path, people: Interactions) -> None:
    experiment = compute_experiment(tmp_path, people, seeds=2)
    (table,) = experiment.build_tables()
    assert table.name == "known"
    assert table.headings == (
        "method", "left out", "alone", "with tags", "with time", "with both", "local budget",
        "central budget",
    )  # fmt: skip
    rows = get_numbers(table)
    assert [method for method, split in rows if split == "random"] == [*METHODS]
    assert [method for method, split in rows if split == "latest"] == [
        *METHODS[:2], DPLCF_LABEL, *METHODS[2:],
    ]  # fmt: skip
    for (method, split), (unaided, tags, time, both) in rows.items():
        assert unaided != "-"
        assert (tags == "-") is (method == DPLCF_LABEL)
        assert (time == "-") is (split == "random")
        assert (both == "-") is (split == "random" or method == DPLCF_LABEL)
    n_numbers = sum(number != "-" for numbers in rows.values() for number in numbers)
    assert len(table.records) == n_numbers == 5 * 2 + 5 * 4 + 2
    assert all(len(record["values"].split()) == 2 for record in table.records)
    assert {record["known"] for record in table.records} == {"alone", *KINDS}
    figure = Figure()
    experiment.draw(figure)
    assert len(figure.axes[0].get_yticks()) == len(rows)


@pytest.mark.parametrize("missing", ["timestamps", "tags"])
def test_data_without_times_or_tags(tmp_path: Path, people: Interactions, missing: str) -> None:
    if missing == "timestamps":
        data = replace(people, timestamps=None)
    else:
        data = replace(people, tags=None)
    (table,) = compute_experiment(tmp_path, data).build_tables()
    if missing == "timestamps":
        assert {split for _, split in get_numbers(table)} == {"random"}
    else:
        assert all(tags == both == "-" for _, tags, _, both in get_numbers(table).values())
        assert {record["known"] for record in table.records} == {"alone", "time"}


def test_training_equals_its_simulation(people: Interactions) -> None:
    settings = Settings.preset("loudest", epochs=2, reports=10, factors=2)
    cell = Cell.from_settings("loudest", Size(), settings, 0, split="latest")
    result = run_cell(replace(cell, side_information=KINDS), CellContext(people, 1))
    assert {*result["known"]} == {*KINDS}
    for kind, tags, time in (("tags", True, False), ("time", False, True), ("both", True, True)):
        plan = Simulation(settings, "latest", evaluate_every=0, tags=tags, time=time)
        run = simulate(people, plan)
        assert result["known"][kind] == run.final
        assert result["final"] == run.model_only
    assert "known" not in run_cell(cell, CellContext(people, 1))


def test_dplcf_uses_only_time(people: Interactions) -> None:
    parameters: dict[str, Any] = {"epsilon": 2.5, "neighbours": DPLCF_NEIGHBOURS}
    cell = Cell.from_parameters("dplcf", Size(), 0, split="latest", **parameters)
    result = run_cell(replace(cell, side_information=KINDS), CellContext(people, 1))
    split = leave_one_out(people, "latest", 0)
    weights = SideInformation.from_split(people, split, tags=False, time=True).weights
    model = replace(DPLCF.fit(split.train, **parameters, seed=0), weights=weights)
    ranks = rank_scores(model, sample_candidates(split, 99, 0))
    assert {*result["known"]} == {"time"}
    assert result["known"]["time"] == pytest.approx(summarize_ranks(ranks))
    assert result["known"]["time"] != result["final"]
