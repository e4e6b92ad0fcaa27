import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.simulation import Engine, build_engine
from sottovoce.training import Settings
from sottovoce_lab.baselines import TrustedSettings
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Runner, Size
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def store_of(folder: Path, people: Interactions, *, scale: float = QUICK_SCALE) -> CellStore:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=scale, seeds=2)
    return CellStore.create(folder, about)


def some_cells() -> list[Cell]:
    cells = []
    for seed in (0, 1):
        for users in (40, None):
            size = Size(users, 30)
            for mechanism in ("paper", "loudest"):
                settings = Settings.preset(mechanism, epochs=2, reports=5)
                cells.append(Cell.from_settings(mechanism, size, settings, seed, curve=seed == 0))
            cells.append(Cell.from_parameters("popularity", size, seed))
    return cells


def results(folder: Path) -> dict[str, Any]:
    contents = {path.name: json.loads(path.read_text()) for path in (folder / "cells").iterdir()}
    return {name: content["result"] for name, content in contents.items()}


def test_stopped_and_started_again_it_goes_on(tmp_path: Path, people: Interactions) -> None:
    cells = some_cells()
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    Runner(people, store_of(whole, people), 1).run(cells)
    computed: list[Cell] = []

    def dies(cell: Cell, context: CellContext) -> dict[str, Any]:
        if len(computed) == 5:
            raise KeyboardInterrupt
        computed.append(cell)
        return run_cell(cell, context)

    with pytest.raises(KeyboardInterrupt):
        Runner(people, store_of(parts, people), 1, dies).run(cells)
    assert len(results(parts)) == 5
    again: list[Cell] = []
    runner = Runner(people, store_of(parts, people), 1)
    assert runner.run(cells, lambda cell, _: again.append(cell)) == len(cells) - 5
    assert not set(again) & set(computed)
    assert results(parts) == results(whole)
    assert Runner(people, store_of(parts, people), 1).run(cells) == 0


def test_every_engine_gives_the_same_results(
    tmp_path: Path, people: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is asked for by its name; threads and card are for whoever knows them."""
    cells, asked = some_cells()[:3], []

    def build(name: str, *given: Any, **options: Any) -> Engine:
        asked.append((name, options["threads"] if name == "cpu" else None))
        return build_engine(name, *given, **options)

    monkeypatch.setattr("sottovoce.simulation.run.build_engine", build)
    for engine in ("cpu", "reference"):
        store = store_of(tmp_path / engine, people)
        Runner(people, store, 1, engine=engine, card=0).run(cells)
    assert results(tmp_path / "cpu") == results(tmp_path / "reference")
    assert asked == [("cpu", 1)] * 2 + [("reference", None)] * 2


def test_a_result_of_other_data_is_computed_anew(tmp_path: Path, people: Interactions) -> None:
    cell = some_cells()[0]
    store = store_of(tmp_path, people)
    store.put(cell, {"final": {"hr@10": 0.5}}, 1.0)
    path = tmp_path / "cells" / f"{cell.key}.json"
    foreign = json.loads(path.read_text()) | {"data": "0" * 64}
    path.write_text(json.dumps(foreign))
    assert store_of(tmp_path, people).get(cell) is None
    path.write_text("{ not json")
    fresh = store_of(tmp_path, people)
    assert fresh.get(cell) is None
    Runner(people, fresh, 1).run([cell])
    found = store_of(tmp_path, people).get(cell)
    assert found is not None
    assert len(found["curve"]) == 2


def test_a_folder_of_other_data_or_scale_is_refused(tmp_path: Path, people: Interactions) -> None:
    store_of(tmp_path, people)
    with pytest.raises(SettingsError):
        store_of(tmp_path, synthetic_people(n_users=80, n_items=50, seed=1))
    with pytest.raises(SettingsError):
        store_of(tmp_path, people, scale=1.0)
    store_of(tmp_path / "tenth", people, scale=0.1)
    with pytest.raises(SettingsError):
        store_of(tmp_path / "tenth", people, scale=0.2)


def test_more_splits_are_remembered(tmp_path: Path, people: Interactions) -> None:
    about = store_of(tmp_path, people).about
    assert CellStore.create(tmp_path, replace(about, seeds=5)).about.seeds == 5
    assert CellStore.create(tmp_path, replace(about, seeds=1)).about.seeds == 5


def test_a_curve_ends_where_its_training_does(people: Interactions) -> None:
    settings = Settings.preset("loudest", epsilon=1.0, epochs=3, reports=2, factors=1)
    cell = Cell.from_settings("loudest", Size(), settings, 0, curve=True)
    result = run_cell(cell, CellContext(people, 1))
    assert result["budget"]["local"] == 6.0
    assert 0 < result["budget"]["central"] <= 6.0
    assert result["curve"][-1]["hr@10"] == result["final"]["hr@10"]


def test_random_is_chance(people: Interactions) -> None:
    result = run_cell(Cell.from_parameters("random", Size(), 0), CellContext(people, 1))
    # Of 50 items nobody has 99 untouched ones, so chance is above a tenth, and the same for all.
    assert 0.1 < result["final"]["hr@10"] < 1
    assert result["final"]["hr@10"] == pytest.approx(5 * result["final"]["hr@2"])


def test_a_trusted_partys_budget_is_central_alone(people: Interactions) -> None:
    settings = asdict(TrustedSettings.choose(2.0, people=80, items=50))
    cell = Cell.from_parameters("dp-als", Size(), 0, **settings)
    result = run_cell(cell, CellContext(people, 1))
    assert result["budget"] == {"local": None, "central": 2.0}
    assert 0 < result["final"]["hr@10"] < 1
    assert run_cell(cell, CellContext(people, 1)) == result
    assert str(cell) == "dp-als, eps 2, all users x all items, seed 0"
