"""Tests of the experiment with attackers who push an item: cells, results, table and claims."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.tests.paper.helpers import list_cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Grid, Runner
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.poisoning.experiment import PoisoningExperiment
from sottovoce_lab.paper.runner import run_cell

BANDS = ("cold", "middling", "popular")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def describe_data(people: Interactions) -> About:
    return About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=2)


def invent_result(cell: Cell, _: CellContext) -> dict[str, Any]:
    """Return a result in which the defence helps, and seed 1 is worse than seed 0."""
    options = cell.options
    rise = 0.0 if options["attacker"] == "nobody" else 0.5 + 0.1 * cell.seed
    if options["defended"]:
        rise /= 2
    exposures = {f"exposure@10 {band}": 0.1 + rise * (band == options["pushed"]) for band in BANDS}
    return {"final": {"hr@10": 0.7, **exposures}, "attackers": 4, "people": 80}


def test_every_attack_meets_the_defence(people: Interactions) -> None:
    about = replace(describe_data(people), scale=1.0, users=75_040, items=9_781, seeds=3)
    cells = list_cells_of(PoisoningExperiment, Grid.from_about(about))
    assert len({cell.key for cell in cells}) == len(cells) == 3 * 2 * (1 + 3 * 3 * 3)
    assert {(cell.size.users, cell.size.items) for cell in cells} == {(10_000, 1_000)}
    assert {(cell.options["epsilon"], cell.options["reports"]) for cell in cells} == {(2.5, 100)}


def test_table_and_claims(tmp_path: Path, people: Interactions) -> None:
    store = CellStore.create(tmp_path, describe_data(people))
    grid = Grid.from_about(store.about)
    Runner(people, store, 1, invent_result).run(list_cells_of(PoisoningExperiment, grid))
    (table,) = PoisoningExperiment(grid, store).build_tables()
    assert len(table.rows) == 3 * 3 * 2
    # HR@10 of each training, exposure of each attack, and of its item without attackers.
    assert len(table.records) == 20 + 18 + 18
    first = table.rows[0]
    assert first[:4] == ("none", "invented history", "cold", "5.0%")
    assert first[4].startswith("0.1000")
    assert first[5].startswith("0.6500")
    assert table.notes[:2] == [
        "Defence none: 4 of 84 tokens moved exposure by at most 0.6000.",
        "Defence as by default: 4 of 84 tokens moved exposure by at most 0.3000.",
    ]


@pytest.mark.parametrize("strategy", ["nobody", "history", "reports", "adaptive"])
def test_result_is_json_and_reproducible(people: Interactions, strategy: str) -> None:
    cell = next(
        cell
        for cell in list_cells_of(PoisoningExperiment, Grid.from_about(describe_data(people)))
        if cell.options["attacker"] == strategy
    )
    result = run_cell(cell, CellContext(people, 1))
    assert json.loads(json.dumps(result)) == result
    assert {*result} == {"final", "attackers", "people"}
    assert result["people"] == 80
    assert result["attackers"] == (0 if strategy == "nobody" else 4)
    assert all(0 <= result["final"][f"exposure@10 {band}"] <= 1 for band in BANDS)
    assert 0 < result["final"]["hr@10"] <= 1
    assert run_cell(cell, CellContext(people, 1)) == result
