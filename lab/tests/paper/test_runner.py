"""Tests of how cells are computed and stored."""

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


def create_store(folder: Path, people: Interactions, *, scale: float = QUICK_SCALE) -> CellStore:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=scale, seeds=2)
    return CellStore.create(folder, about)


def make_cells() -> list[Cell]:
    cells = []
    for seed in (0, 1):
        for users in (40, None):
            size = Size(users, 30)
            for mechanism in ("paper", "loudest"):
                settings = Settings.preset(mechanism, epochs=2, reports=5)
                cells.append(Cell.from_settings(mechanism, size, settings, seed, curve=seed == 0))
            cells.append(Cell.from_parameters("popularity", size, seed))
    return cells


def read_results(folder: Path) -> dict[str, Any]:
    paths = (folder / "cells").iterdir()
    return {path.name: json.loads(path.read_text())["result"] for path in paths}


def test_interrupted_run_resumes(tmp_path: Path, people: Interactions) -> None:
    cells = make_cells()
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    Runner(people, create_store(whole, people), 1).run(cells)
    computed: list[Cell] = []

    def stop_after_five(cell: Cell, context: CellContext) -> dict[str, Any]:
        if len(computed) == 5:
            raise KeyboardInterrupt
        computed.append(cell)
        return run_cell(cell, context)

    with pytest.raises(KeyboardInterrupt):
        Runner(people, create_store(parts, people), 1, stop_after_five).run(cells)
    assert len(read_results(parts)) == 5
    resumed: list[Cell] = []
    runner = Runner(people, create_store(parts, people), 1)
    assert runner.run(cells, resumed.append) == len(cells) - 5
    assert not set(resumed) & set(computed)
    assert read_results(parts) == read_results(whole)
    assert Runner(people, create_store(parts, people), 1).run(cells) == 0


def test_every_engine_gives_the_same_results(
    tmp_path: Path, people: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each engine is built by its name and gets only the options that it takes.
    cells, built = make_cells()[:3], []

    def record_build(name: str, *args: Any, **options: Any) -> Engine:
        built.append((name, options["threads"] if name == "cpu" else None))
        return build_engine(name, *args, **options)

    monkeypatch.setattr("sottovoce.simulation.run.build_engine", record_build)
    for engine in ("cpu", "reference"):
        store = create_store(tmp_path / engine, people)
        Runner(people, store, 1, engine=engine, card=0).run(cells)
    assert read_results(tmp_path / "cpu") == read_results(tmp_path / "reference")
    assert built == [("cpu", 1)] * 2 + [("reference", None)] * 2


def test_invalid_result_is_computed_again(tmp_path: Path, people: Interactions) -> None:
    cell = make_cells()[0]
    create_store(tmp_path, people).put(cell, {"final": {"hr@10": 0.5}}, 1.0)
    path = tmp_path / "cells" / f"{cell.key}.json"
    of_other_data = json.loads(path.read_text()) | {"data": "0" * 64}
    path.write_text(json.dumps(of_other_data))
    assert create_store(tmp_path, people).get(cell) is None
    path.write_text("{ not json")
    store = create_store(tmp_path, people)
    assert store.get(cell) is None
    Runner(people, store, 1).run([cell])
    result = create_store(tmp_path, people).get(cell)
    assert result is not None
    assert len(result["curve"]) == 2


def test_folder_of_other_data_or_scale_is_rejected(tmp_path: Path, people: Interactions) -> None:
    create_store(tmp_path, people)
    with pytest.raises(SettingsError):
        create_store(tmp_path, synthetic_people(n_users=80, n_items=50, seed=1))
    with pytest.raises(SettingsError):
        create_store(tmp_path, people, scale=1.0)
    create_store(tmp_path / "tenth", people, scale=0.1)
    with pytest.raises(SettingsError):
        create_store(tmp_path / "tenth", people, scale=0.2)


def test_largest_number_of_splits_is_stored(tmp_path: Path, people: Interactions) -> None:
    about = create_store(tmp_path, people).about
    assert CellStore.create(tmp_path, replace(about, seeds=5)).about.seeds == 5
    assert CellStore.create(tmp_path, replace(about, seeds=1)).about.seeds == 5


def test_curve_ends_with_the_final_result(people: Interactions) -> None:
    settings = Settings.preset("loudest", epsilon=1.0, epochs=3, reports=2, factors=1)
    cell = Cell.from_settings("loudest", Size(), settings, 0, curve=True)
    result = run_cell(cell, CellContext(people, 1))
    assert result["budget"]["local"] == 6.0
    assert 0 < result["budget"]["central"] <= 6.0
    assert result["curve"][-1]["hr@10"] == result["final"]["hr@10"]


def test_random_method_is_chance(people: Interactions) -> None:
    result = run_cell(Cell.from_parameters("random", Size(), 0), CellContext(people, 1))
    # Nobody has 99 untouched items among 50, so chance is above 0.1, and the same for all.
    assert 0.1 < result["final"]["hr@10"] < 1
    assert result["final"]["hr@10"] == pytest.approx(5 * result["final"]["hr@2"])


def test_budget_of_a_trusted_party_is_only_central(people: Interactions) -> None:
    settings = asdict(TrustedSettings.choose(2.0, people=80, items=50))
    cell = Cell.from_parameters("dp-als", Size(), 0, **settings)
    result = run_cell(cell, CellContext(people, 1))
    assert result["budget"] == {"local": None, "central": 2.0}
    assert 0 < result["final"]["hr@10"] < 1
    assert run_cell(cell, CellContext(people, 1)) == result
    assert str(cell) == "dp-als, eps 2, all users x all items, seed 0"
