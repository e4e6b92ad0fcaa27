"""The law: fitted, inverted, checked on what it has not seen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from lab.tests.paper.helpers import WHOLE, cells_of
from sottovoce.core.loudest import estimate_gain
from sottovoce.data import synthetic_people
from sottovoce.errors import DataError
from sottovoce.privacy import DEFAULT_DELTA, central_epsilon
from sottovoce_lab.paper import QUICK_SCALE, About, CellStore, Scale
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.law import Law, LawExperiment, Measurement
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell
from sottovoce_lab.paper.scale import TUNING_SEED

TRUE = Law(
    knots=(3.4, 5.8, 8.2, 10.6, 13.0, 15.4),
    heights=(0.68, 0.72, 0.78, 0.83, 0.86, 0.875),
    few=40_000.0,
    power=0.8,
)


def people_of(cell: Cell) -> int:
    return cell.resample or cell.size.users or WHOLE.users


def truth(cell: Cell) -> float:
    """What it would be if the law held."""
    settings = cell.settings
    reports = people_of(cell) * settings.reports * settings.turns
    z = reports * estimate_gain(settings.epsilon, WHOLE.items) ** 2 / WHOLE.items
    return TRUE.quality(z, reports)


def filled(folder: Path, wrong: float = 0.0) -> tuple[Scale, CellStore]:
    """As the law says, but for what is reported of large populations."""
    scale = replace(Scale.from_about(WHOLE), max_people=10**9)
    store = CellStore.create(folder, WHOLE)
    for cell in cells_of(LawExperiment, scale):
        if cell.method == "loudest":
            off = wrong if people_of(cell) > 1_000_000 and cell.seed < TUNING_SEED else 0.0
            quality = truth(cell) + off
        else:
            quality = {"popularity": 0.72, "mf": 0.80}[cell.method]
        store.put(cell, {"final": {"hr@10": quality}}, 0.0)
    return scale, store


def test_a_law_is_found_again() -> None:
    points = [
        Measurement(z, reports, TRUE.quality(z, reports))
        for z in np.logspace(1.5, 6.6, 12)
        for reports in (2e4, 2e5, 1e9)
    ]
    found = Law.fitted(points)
    for z in np.logspace(2, 6.4, 9):
        for reports in (3e4, 1e6):
            true = TRUE.quality(z, reports)
            assert found.quality(z, reports) == pytest.approx(true, abs=0.003)


def test_a_law_needs_as_many_points_as_it_has_numbers() -> None:
    with pytest.raises(DataError):
        Law.fitted([Measurement(1.0, 1.0, 0.5)] * 7)


@given(st.floats(0.69, 0.88), st.sampled_from([2e4, 1e6, 1e9]))
def test_what_is_needed_is_just_enough(quality: float, reports: float) -> None:
    needed = TRUE.needed(quality, reports)
    if needed is None:
        assert TRUE.quality(1e15, reports) < quality
    else:
        assert TRUE.quality(needed, reports) >= quality
        assert TRUE.quality(0.999 * needed, reports) < quality


def test_what_is_checked_was_not_fitted() -> None:
    cells = cells_of(LawExperiment, replace(Scale.from_about(WHOLE), max_people=10**9))
    trained = [cell for cell in cells if cell.method == "loudest"]
    fitted = {cell for cell in trained if cell.seed >= TUNING_SEED}
    checked = set(trained) - fitted
    seen, unseen = (
        {(people_of(cell), cell.settings.epsilon) for cell in some} for some in (fitted, checked)
    )
    assert {people for people, _ in seen}.isdisjoint(people for people, _ in unseen)
    once = [
        {cell.settings.epsilon for cell in some if cell.settings.reports == 1}
        for some in (fitted, checked)
    ]
    assert once[0].isdisjoint(once[1])
    assert max(people for people, _ in unseen) == 100_000_000


def test_a_law_that_holds_is_said_to_hold(tmp_path: Path) -> None:
    scale, store = filled(tmp_path)
    checks, budgets = LawExperiment(scale, store).build_tables()
    assert f"in {len(checks.rows)} of {len(checks.rows)} cells" in checks.notes[1]
    needed = [row[1] for row in budgets.rows if row[1] != "not reached"]
    assert needed == sorted(needed, key=float, reverse=True), "more people need less"
    figure = Figure()
    LawExperiment(scale, store).draw(figure)
    assert figure.axes[0].get_xlabel() == "people"


def test_a_law_that_does_not_hold_is_said_not_to(tmp_path: Path) -> None:
    scale, store = filled(tmp_path, wrong=-0.02)
    checks, _ = LawExperiment(scale, store).build_tables()
    large = sum(int(row[0].replace(",", "")) > 1_000_000 for row in checks.rows)
    assert f"in {len(checks.rows) - large} of {len(checks.rows)} cells" in checks.notes[1]


def test_who_takes_turns_hides_in_the_crowd_of_an_epoch() -> None:
    people = synthetic_people(n_users=200, n_items=40, seed=0)
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=1)
    cell = next(cell for cell in cells_of(LawExperiment, Scale.from_about(about)) if cell.resample)
    result = run_cell(cell, CellContext(people, 1))
    settings = cell.settings
    assert settings.turns < settings.epochs
    crowd = settings.estimate_crowd(400)
    assert result["budget"]["central"] == central_epsilon(settings.event(40), crowd, DEFAULT_DELTA)
