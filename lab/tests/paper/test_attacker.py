"""The attacker at every preset: bounds, cells, and what is said of those over their bounds."""

from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import WHOLE, cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce.privacy import central_epsilon
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import list_presets
from sottovoce_lab.audit import AttackPlan, run_attack
from sottovoce_lab.paper import QUICK_SCALE, CellStore, Scale, Size, attacker
from sottovoce_lab.paper.attacker import AttackerExperiment
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell

CHOSEN = 15
"""Of the cells: two seeds of two questions of five trainings."""
LABELS = ["paper, coordinate", "loudest", "strong", "crowd", "budget 50"]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=40, seed=0)


@pytest.fixture(scope="module")
def scale() -> Scale:
    return Scale.from_about(replace(WHOLE, users=400, items=150, scale=QUICK_SCALE))


def filled(folder: Path, scale: Scale, **final: float) -> CellStore:
    """Made up: the guesses of seed 1 about histories at `crowd` are as given."""
    cells, store = cells_of(AttackerExperiment, scale), CellStore.create(folder, scale.about)
    usual = {"linked": 0.9, "unlinked": 0.55, "linked error": 0.01, "unlinked error": 0.01}
    for place, cell in enumerate(cells):
        result = {
            "final": {**usual, **(final if place == CHOSEN else {})},
            "bounds": {"linked": 1.0, "unlinked": 0.6, "gaussian": 0.58},
            "budget": {"local": 10.0, "central": 1.0},
        }
        store.put(cell, result, 0.0)
    return store


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (1.0, 0.05), (3.0, 0.3)])
def test_the_bound_is_the_area_below_both_lines(epsilon: float, delta: float) -> None:
    x = np.linspace(0, 1, 200_001)
    y = np.minimum(exp(epsilon) * x + delta, 1 - exp(-epsilon) * (1 - delta - x))
    expected = np.trapezoid(np.minimum(y, 1), x)
    assert attacker.largest_area(epsilon, delta) == pytest.approx(expected, abs=1e-8)


def test_every_preset_is_attacked_in_both_ways() -> None:
    cells = cells_of(AttackerExperiment, Scale.from_about(WHOLE))
    assert {cell.size for cell in cells} == {Size(5_000, 1_000)}
    assert {(cell.seed, cell.draw) for cell in cells} == {(0, 0), (1, 0)}
    assert len({cell.key for cell in cells}) == len(cells) == 2 * 2 * len(LABELS)
    named = ", ".join(LABELS).split(", ")
    assert named == [*list_presets(), "budget 50"]
    takes_turns = [cell for cell in cells if cell.options["lifetime"]]
    assert len(takes_turns) == 4


def test_a_cell_is_an_attack_with_its_bounds(scale: Scale, people: Interactions) -> None:
    whole = next(
        cell
        for cell in cells_of(AttackerExperiment, scale)
        if cell.options["question"] == "history"
    )
    changes = {"reports": 2, "epochs": 3, "lifetime": 1, "trials": 40, "epsilon": 0.5}
    given = {**whole.options, **changes}
    cell = replace(whole, seed=3, parameters=tuple(given.items()))
    result = run_cell(cell, CellContext(people, 1))
    own = {name: given.pop(name) for name in attacker.OWN}
    settings = replace(cell, parameters=tuple(given.items())).settings
    plan = AttackPlan(**own, points=((2, 3),), seed=3, threads=1)
    (point,) = run_attack(people.histories, settings, plan).points
    assert result["final"] == {
        "linked": point.linked.value,
        "unlinked": point.unlinked.value,
        "linked error": point.linked.error,
        "unlinked error": point.unlinked.error,
    }
    crowd = settings.estimate_crowd(people.n_users)
    central = central_epsilon(settings.event(40), crowd, DEFAULT_DELTA)
    assert result["budget"] == {"local": 1.0, "central": central}
    bounds = result["bounds"]
    assert bounds["linked"] == attacker.largest_area(1.0)
    assert bounds["gaussian"] == point.bound
    assert point.bound < bounds["unlinked"] < attacker.largest_area(central, DEFAULT_DELTA)


def test_what_is_under_the_bound_is_said_to_be(tmp_path: Path, scale: Scale) -> None:
    store = filled(tmp_path, scale)
    (table,) = AttackerExperiment(scale, store).build_tables()
    assert table.notes[0] == "Under the bound in 20 of 20 cells."
    assert list(dict.fromkeys(row[0] for row in table.rows)) == LABELS
    assert table.rows[0][5:] == (
        "10", "1", "0.9000 ± 0.0000", "1.0000", "0.5500 ± 0.0000", "0.6000", "0.5800",
    )  # fmt: skip
    assert len(table.records) == 2 * len(table.rows)
    assert {(each["guess"], each["bound"]) for each in table.records} == {
        ("linked", 1.0),
        ("unlinked", 0.6),
    }
    figure = Figure()
    AttackerExperiment(scale, store).draw(figure)
    assert len(figure.axes[0].get_yticks()) == len(table.rows)
    assert [np.size(line.get_xdata()) for line in figure.axes[0].lines] == [10] * 4


@pytest.mark.parametrize(("unlinked", "is_over"), [(0.648, False), (0.65, True)])
def test_what_is_over_the_bound_is_named(
    tmp_path: Path, scale: Scale, unlinked: float, is_over: bool
) -> None:
    """Only by more than chance: 4.9 standard errors of 0.01 beyond 0.6."""
    store = filled(tmp_path, scale, unlinked=unlinked)
    (table,) = AttackerExperiment(scale, store).build_tables()
    over = "19 of 20 cells; over it: crowd, history, seed 1 (unlinked 0.6500 over 0.6000)."
    assert table.notes[0] == f"Under the bound in {over if is_over else '20 of 20 cells.'}"
