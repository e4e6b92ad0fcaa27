from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sottovoce.training import Settings
from sottovoce_lab.paper import About, Cell, CellStore, Scale, Size, frontier
from sottovoce_lab.paper.cells import TRAINED
from sottovoce_lab.paper.options import BudgetPoint, Option, best, choose, least_budget, options
from sottovoce_lab.paper.scale import CHOOSING

ABOUT = About("f" * 64, "x", "x", 400, 150, 9000, True, True, 0, quick=True, seeds=2)


def point(local: float, central: float, quality: float, method: str = "loudest") -> BudgetPoint:
    settings = Settings.preset(method, learning_rate=local)
    cell = Cell.training(method, Size(), settings, CHOOSING)  # type: ignore[arg-type]
    return BudgetPoint(Option(cell), local, central, quality)


def test_the_frontier_rises_step_by_step() -> None:
    points = [
        point(10, 1, 0.5),
        point(1, 9, 0.3),
        point(5, 8, 0.3),  # dearer than the one before and no better
        point(20, 2, 0.45),  # worse than a cheaper one
        point(10, 3, 0.4),  # as dear as a better one
        point(50, 5, 0.7),
    ]
    assert [p.local for p in best(points, "local")] == [1, 10, 50]
    assert [p.central for p in best(points, "central")] == [1, 5]
    assert best([], "local") == []


def test_least_budget() -> None:
    points = [point(1, 9, 0.3), point(10, 1, 0.5), point(2, 2, 0.9, "paper")]
    assert least_budget(points, "loudest", "local", 0.3) == 1
    assert least_budget(points, "loudest", "local", 0.4) == 10
    assert least_budget(points, "loudest", "central", 0.3) == 1
    assert least_budget(points, "loudest", "local", 0.6) is None


def test_chosen_on_some_splits_and_reported_on_others(tmp_path: Path) -> None:
    """Made-up results: on the split for choosing more epochs are better, on the others worse."""
    scale, store = Scale.of(ABOUT), CellStore.start(tmp_path, ABOUT)
    for option in options(scale):
        if option.chosen_by.named["reports"] > 1 or option.method not in TRAINED:
            continue
        settings = option.chosen_by.settings
        spent = {"local": settings.epsilon * settings.epochs, "central": settings.epochs / 10}
        for seed in (CHOOSING, 0, 1):
            rising = {1: 0.4, 2: 0.6} if seed == CHOOSING else {1: 0.5 + seed / 10, 2: 0.3}
            quality = rising[settings.epochs] if settings.epsilon == 1.0 else 0.1
            result = {"final": {"hr@10": quality}, "budget": spent}
            store.put(option.cell(seed), result, 0.0)
    chosen = [each for each in choose(scale, store) if each.method == "loudest"]
    assert [(each.about()["epsilon"], each.about()["epochs"]) for each in chosen] == [
        (1.0, 1),
        (1.0, 2),
    ]
    points, targets = frontier.tables(scale, store)
    mine = [record for record in points.records if record["method"] == "loudest"]
    assert [record["mean"] for record in mine] == [0.55, 0.3]
    assert [record["local"] for record in mine] == [1.0, 2.0]
    reached = {r["hr@10"]: r["budget"] for r in targets.records if r["method"] == "loudest"}
    assert reached == {0.4: 0.1, 0.5: 0.1}  # the central view is the last
    cells = frontier.reported(scale, store)
    assert {cell.seed for cell in cells} == {0, 1}


def test_nothing_is_chosen_before_anything_is_known(tmp_path: Path) -> None:
    scale = Scale.of(replace(ABOUT, quick=False, users=60_000, items=9_781))
    store = CellStore.start(tmp_path, scale.about)
    assert choose(scale, store) == []
    assert not any(table.filled for table in frontier.tables(scale, store))
    # Large: 4 epsilons, 3 ks, 2 trainings. Small: 5 epsilons, 5 numbers of epochs, 2 trainings.
    # Counting: 5 epsilons, 6 numbers of reports; by name 6 epsilons, 5 numbers of reports.
    assert len(frontier.cells(scale)) == 4 * 3 * 2 + 5 * 5 * 2 + 5 * 6 + 6 * 5
