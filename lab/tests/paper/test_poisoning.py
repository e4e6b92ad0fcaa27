"""Tests of the experiment with attackers who push an item: cells, results, tables and claims."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.tests.paper.helpers import list_cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Grid, Runner
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.poisoning.defences import DEFENCES
from sottovoce_lab.paper.poisoning.experiment import ATTACKED_METHODS, PoisoningExperiment
from sottovoce_lab.paper.runner import run_cell

BANDS = ("cold", "middling", "popular")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def describe_data(people: Interactions) -> About:
    return About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=2)


def invent_result(cell: Cell, _: CellContext) -> dict[str, Any]:
    """Return a result in which caps help only `loudest`, and seed 1 is worse than seed 0."""
    options = cell.options
    rise = 0.0 if options["attacker"] == "nobody" else 0.5 + 0.1 * cell.seed
    if (options["defence"], options["attacked"]) == ("caps", "loudest"):
        rise /= 2
    exposures = {f"exposure@10 {band}": 0.1 + rise * (band == options["pushed"]) for band in BANDS}
    quality = 0.7 - 0.1 * (options["defence"] == "medians")
    return {"final": {"hr@10": quality, **exposures}, "attackers": 4, "people": 80}


def test_the_strongest_attack_meets_every_defence(people: Interactions) -> None:
    about = replace(describe_data(people), scale=1.0, users=75_040, items=9_781, seeds=3)
    cells = list_cells_of(PoisoningExperiment, Grid.from_about(about))
    n_cells = 3 * (11 + 2 * 3 * 3 * 3 * 3 + 3 * (2 + 2 + 1))
    assert len({cell.key for cell in cells}) == len(cells) == n_cells
    assert {(cell.size.users, cell.size.items) for cell in cells} == {(10_000, 1_000)}
    options = [cell.options for cell in cells]
    assert not [o for o in options if (o["attacked"], o["defence"]) == ("fcf", "caps")]
    private = [o for o in options if o["attacked"] != "fcf"]
    assert {(o["epsilon"], o["reports"]) for o in private} == {(2.5, 100)}


def test_tables_and_claims(tmp_path: Path, people: Interactions) -> None:
    store = CellStore.create(tmp_path, describe_data(people))
    grid = Grid.from_about(store.about)
    Runner(people, store, 1, invent_result).run(list_cells_of(PoisoningExperiment, grid))
    exposure, cost = PoisoningExperiment(grid, store).build_tables()
    assert len(exposure.rows) == 3 * 3 * 3
    assert len(exposure.records) == 2 * (2 * 3 * 3 * 3 + (2 + 2 + 1))
    first = exposure.rows[0]
    assert first[:4] == ("preset paper", "invented history", "cold", "5.0%")
    assert first[4].startswith("0.1000")
    assert first[5].startswith("0.6500")
    assert {row[6] for row in exposure.rows if row[0].startswith("FCF")} == {"-"}
    claims = [note for note in exposure.notes if note.startswith("loudest, defence")]
    assert claims[:2] == [
        "loudest, defence none: 4 of 84 tokens moved exposure by at most 0.6000.",
        "loudest, defence caps: 4 of 84 tokens moved exposure by at most 0.3000.",
    ]
    assert [row[:2] for row in cost.rows[:4]] == [("preset paper", name) for name in DEFENCES]
    assert cost.rows[3][3].startswith("-0.1000")
    assert len(cost.records) == 4 + 4 + 3


@pytest.mark.parametrize("attacked", ATTACKED_METHODS)
@pytest.mark.parametrize("strategy", ["nobody", "history", "reports", "adaptive"])
def test_result_is_json_and_reproducible(
    people: Interactions, attacked: str, strategy: str
) -> None:
    cell = next(
        cell
        for cell in list_cells_of(PoisoningExperiment, Grid.from_about(describe_data(people)))
        if (cell.options["attacked"], cell.options["attacker"]) == (attacked, strategy)
    )
    result = run_cell(cell, CellContext(people, 1))
    assert json.loads(json.dumps(result)) == result
    assert {*result} == {"final", "attackers", "people"}
    assert result["people"] == 80
    assert result["attackers"] == (0 if strategy == "nobody" else 4)
    assert all(0 <= result["final"][f"exposure@10 {band}"] <= 1 for band in BANDS)
    assert 0 < result["final"]["hr@10"] <= 1
    assert run_cell(cell, CellContext(people, 1)) == result
