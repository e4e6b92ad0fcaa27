"""The experiment: cells, their JSON, tables, sentences and the picture."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.tests.paper.helpers import cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce_lab.paper import QUICK, About, Cell, CellStore, Runner, Scale
from sottovoce_lab.paper.liars import ATTACKED, LiarsShown
from sottovoce_lab.paper.lying import DEFENCES
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell

BANDS = ("cold", "middling", "popular")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def about(people: Interactions) -> About:
    return About.of(people, "synthetic", min_interactions=0, scale=QUICK, seeds=2)


def made_up(cell: Cell, _: CellContext) -> dict[str, Any]:
    """Caps help a little, and only `loudest`; the second split is worse than the first."""
    named = cell.named
    rise = 0.0 if named["attacker"] == "nobody" else 0.5 + 0.1 * cell.seed
    if (named["defence"], named["attacked"]) == ("caps", "loudest"):
        rise /= 2
    exposed = {f"exposure@10 {band}": 0.1 + rise * (band == named["pushed"]) for band in BANDS}
    quality = 0.7 - 0.1 * (named["defence"] == "medians")
    return {"final": {"hr@10": quality, **exposed}, "liars": 4, "people": 80}


@pytest.fixture
def known(tmp_path: Path, people: Interactions) -> tuple[Scale, CellStore]:
    store = CellStore.start(tmp_path, about(people))
    scale = Scale.of(store.about)
    Runner(people, store, 1, made_up).run(cells_of(LiarsShown, scale))
    return scale, store


def test_the_strongest_attack_meets_every_defence(people: Interactions) -> None:
    scale = Scale.of(replace(about(people), scale=1.0, users=75_040, items=9_781, seeds=3))
    cells = cells_of(LiarsShown, scale)
    assert (
        len({cell.key for cell in cells})
        == len(cells)
        == 3 * (11 + 2 * 3 * 3 * 3 * 3 + 3 * (2 + 2 + 1))
    )
    assert {cell.size.users for cell in cells} == {10_000}
    assert {cell.size.items for cell in cells} == {1_000}
    assert not [c for c in cells if (c.named["attacked"], c.named["defence"]) == ("fcf", "caps")]
    assert {(c.named["epsilon"], c.named["reports"]) for c in cells if _ours(c)} == {(2.5, 100)}


def _ours(cell: Cell) -> bool:
    return bool(cell.named["attacked"] != "fcf")


def test_tables_and_sentences(known: tuple[Scale, CellStore]) -> None:
    exposure, cost = LiarsShown(*known).tables()
    assert len(exposure.rows) == 3 * 3 * 3
    assert len(exposure.records) == 2 * (2 * 3 * 3 * 3 + (2 + 2 + 1))
    first = exposure.rows[0]
    assert first[:4] == ("preset paper", "invented history", "cold", "5.0%")
    assert first[4].startswith("0.1000")
    assert first[5].startswith("0.6500")
    assert {row[6] for row in exposure.rows if row[0].startswith("FCF")} == {"-"}
    said = [note for note in exposure.notes if note.startswith("loudest, defence")]
    assert said[:2] == [
        "loudest, defence none: 4 of 84 tokens moved exposure by at most 0.6000.",
        "loudest, defence caps: 4 of 84 tokens moved exposure by at most 0.3000.",
    ]
    assert [row[:2] for row in cost.rows[:4]] == [("preset paper", each) for each in DEFENCES]
    assert cost.rows[3][3].startswith("-0.1000")
    assert len(cost.records) == 4 + 4 + 3


@pytest.mark.parametrize("attacked", ATTACKED)
@pytest.mark.parametrize("attacker", ["nobody", "history", "reports", "adaptive"])
def test_a_cell_gives_json(people: Interactions, attacked: str, attacker: str) -> None:
    cells = [
        cell
        for cell in cells_of(LiarsShown, Scale.of(about(people)))
        if (cell.named["attacked"], cell.named["attacker"]) == (attacked, attacker)
    ]
    cell = cells[0]
    result = run_cell(cell, CellContext(people, 1))
    assert json.loads(json.dumps(result)) == result
    assert {*result} == {"final", "liars", "people"}
    assert result["people"] == 80
    assert result["liars"] == (0 if attacker == "nobody" else 4)
    assert all(0 <= result["final"][f"exposure@10 {band}"] <= 1 for band in BANDS)
    assert 0 < result["final"]["hr@10"] <= 1
    assert run_cell(cell, CellContext(people, 1)) == result
