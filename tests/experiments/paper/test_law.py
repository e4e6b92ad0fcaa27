"""The law: fitted, inverted, checked on what it has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from sottovoce.data import synthetic_people
from sottovoce.errors import DataError
from sottovoce.experiments.paper import About, CellStore, Scale, law
from sottovoce.experiments.paper.methods import CellContext, run_cell
from sottovoce.experiments.paper.scale import CHOOSING
from sottovoce.experiments.paper.signal import Law, Measured
from sottovoce.mechanism.loudest import usual_gain
from sottovoce.privacy import Crowd, central_epsilon
from sottovoce.privacy.account import DELTA

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.experiments.paper.cells import Cell

ABOUT = About("f" * 64, "x", "x", 75_040, 9_781, 9_000_000, True, True, 0, quick=False, seeds=2)
TRUE = Law(0.72, 0.85, 1.0, 0.9, 8.5, 1.8, 2.0)


def people_of(cell: Cell) -> int:
    return cell.resample or cell.size.users or ABOUT.users


def truth(cell: Cell) -> float:
    """What it would be if the law held."""
    settings = cell.settings
    said = people_of(cell) * settings.reports * settings.turns
    z = said * usual_gain(settings.epsilon, ABOUT.items) ** 2 / ABOUT.items
    return TRUE.quality(z, min(people_of(cell), ABOUT.users))


def filled(folder: Path, wrong: float = 0.0) -> tuple[Scale, CellStore]:
    """As the law says, but for what is reported of large populations."""
    scale = replace(Scale.of(ABOUT), most_people=10**9)
    store = CellStore.start(folder, ABOUT)
    for cell in law.cells(scale):
        if cell.method == "loudest":
            off = wrong if people_of(cell) > 1_000_000 and cell.seed < CHOOSING else 0.0
            quality = truth(cell) + off
        else:
            quality = {"popularity": 0.72, "mf": 0.80}[cell.method]
        store.put(cell, {"final": {"hr@10": quality}}, 0.0)
    return scale, store


def test_a_law_is_found_again() -> None:
    points = [
        Measured(z, people, TRUE.quality(z, people))
        for z in np.logspace(-1, 6, 12)
        for people in (1_000.0, 75_040.0)
    ]
    found = Law.fitted(points)
    for z in np.logspace(-0.5, 5.5, 9):
        assert found.quality(z, 20_000.0) == pytest.approx(TRUE.quality(z, 20_000.0), abs=0.003)


def test_a_law_needs_as_many_points_as_it_has_numbers() -> None:
    with pytest.raises(DataError, match="needs 7 measurements at least, got 6"):
        Law.fitted([Measured(1.0, 1.0, 0.5)] * 6)


@given(st.floats(0.15, 0.84), st.sampled_from([1e3, 1e5, 1e9]))
def test_what_is_needed_is_just_enough(quality: float, people: float) -> None:
    needed = TRUE.needed(quality, people)
    if needed is None:
        assert TRUE.quality(1e15, people) < quality
    else:
        assert TRUE.quality(needed, people) >= quality
        assert TRUE.quality(0.999 * needed, people) < quality


@given(st.floats(0.01, 1e6), st.floats(1.01, 10.0))
def test_more_signal_is_never_worse(signal: float, times: float) -> None:
    assert TRUE.quality(signal * times) >= TRUE.quality(signal)
    assert TRUE.quality(signal, 1_000.0) <= TRUE.quality(signal, 1_000.0 * times)


def test_what_is_checked_was_not_fitted() -> None:
    cells = law.cells(replace(Scale.of(ABOUT), most_people=10**9))
    fitted = {cell for cell in cells if cell.seed == CHOOSING}
    assert len(fitted) == 5 * 4 + 3
    seen = {(people_of(cell), cell.settings.epsilon) for cell in fitted}
    unseen = {
        (people_of(cell), cell.settings.epsilon) for cell in cells if cell.method == "loudest"
    } - seen
    assert {people for people, _ in seen}.isdisjoint(people for people, _ in unseen)
    assert max(people for people, _ in unseen) == 100_000_000


def test_without_a_card_large_populations_are_left_out() -> None:
    cells = law.cells(Scale.of(ABOUT))
    assert max(people_of(cell) for cell in cells) == 1_500_000


def test_a_law_that_holds_is_said_to_hold(tmp_path: Path) -> None:
    scale, store = filled(tmp_path)
    checks, budgets = law.tables(scale, store)
    n_checked = sum(row[-1] == "checked" for row in checks.rows)
    assert n_checked == 5 * 4 + 2
    assert f"in {n_checked} of {n_checked} cells" in checks.notes[1]
    needed = [row[1] for row in budgets.rows if row[1] != "not reached"]
    assert needed == sorted(needed, key=float, reverse=True), "more people need less"
    assert len(budgets.rows) == 10
    figure = Figure()
    law.draw(scale, store, figure)
    assert figure.axes[0].get_xlabel() == "people"


def test_a_law_that_does_not_hold_is_said_not_to(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, wrong=-0.02)
    checks, _ = law.tables(scale, store)
    assert "in 10 of 22 cells" in checks.notes[1]


def test_nothing_is_said_before_anything_is_known(tmp_path: Path) -> None:
    scale, store = Scale.of(ABOUT), CellStore.start(tmp_path, ABOUT)
    checks, budgets = law.tables(scale, store)
    assert not checks.filled
    assert not budgets.filled
    assert {each for row in budgets.rows for each in row[1:]} == {"-"}
    law.draw(scale, store, Figure())


def test_who_takes_turns_hides_in_the_crowd_of_an_epoch() -> None:
    people = synthetic_people(n_users=200, n_items=40, seed=0)
    about = About.of(people, "synthetic", min_interactions=0, quick=True, seeds=1)
    cell = next(cell for cell in law.cells(Scale.of(about)) if cell.resample)
    result = run_cell(cell, CellContext(people, 1))
    settings = cell.settings
    assert settings.turns < settings.epochs
    crowd = Crowd.of(settings.crowd(400))
    assert crowd is not None
    (spent,) = result["budgets"].values()
    assert spent["central"] == central_epsilon(settings.event(40), crowd, DELTA)
