"""`auto`: the reference for small work, compiled loops for more, and the same numbers from both."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from sottovoce import FederatedMF
from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation import Simulation, build_engine, simulate
from sottovoce.simulation import engines as registry
from sottovoce.simulation.engines import AUTO, is_for_the_reference, reference_seconds
from sottovoce.simulation.evaluation import kernels, ranking
from sottovoce.training import Settings, planned
from tests.people import random_people


@pytest.mark.parametrize("grown", ["people", "items", "epochs", "reports"])
def test_the_more_there_is_to_do_the_longer_it_is_thought_to_take(grown: str) -> None:
    def seconds(people: int, items: int, epochs: int, reports: int) -> float:
        plan = Settings.preset("loudest", epochs=epochs, reports=reports, loud=10, block=1)
        return reference_seconds(people, items, plan)

    small = {"people": 100, "items": 100, "epochs": 3, "reports": 5}
    assert seconds(**small) < seconds(**small | {grown: 1000 * small[grown]})


@pytest.mark.parametrize(
    ("people", "items", "preset", "small"),
    [
        (566, 1286, "strong", True),
        (6_000, 3_400, "strong", False),
        (566, 1286, "coordinate", True),
        (100_000, 1286, "coordinate", False),
    ],
)
def test_small_work_is_for_the_reference_and_larger_work_for_compiled_loops(
    people: int, items: int, preset: str, small: bool
) -> None:
    plan = planned(people, items, preset=preset, epochs=6, reports=1, history=100)
    assert is_for_the_reference(people, items, plan) == small


def test_the_engine_is_what_the_rule_says(monkeypatch: pytest.MonkeyPatch) -> None:
    h, plan = random_people(20, 10), Settings(factors=2)
    assert build_engine(AUTO, h, plan, threads=1).name == "reference"
    assert build_engine(AUTO, h, plan, resample=10_000_000).name == "cpu"
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    assert build_engine(AUTO, h, plan, resample=10_000_000).name == "reference"


def people() -> Interactions:
    return synthetic_people(90, 150, seed=2)


def test_the_choice_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything compiled, and nothing: matrices to the bit, and every metric."""
    data = people()
    plan = planned(90, 150, history=20, budget=None, preset="strong", epochs=2, reports=3)
    runs = []
    for seconds, engine in ((0.0, "cpu"), (1e9, "reference")):
        monkeypatch.setattr(ranking, "NUMPY_FIRST", seconds)
        full = Simulation(plan, negatives=0, engine=engine, coverage=True)
        runs += [
            simulate(data, asked) for asked in (full, replace(full, split="latest", negatives=99))
        ]
    for one, other in zip(runs[:2], runs[2:], strict=True):
        assert np.array_equal(one.V, other.V)
        for name in ("final", "without", "popularity", "informed_popularity"):
            assert getattr(one, name) == getattr(other, name)


def test_the_default_is_auto() -> None:
    assert FederatedMF().engine == Simulation(Settings()).engine == AUTO


def test_numpy_ranks_for_some_seconds_before_a_loop_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pace, one = ranking.Pace(), ranking.STEPS_PER_SECOND
    assert [pace.is_worth_compiling(one) for _ in range(5)] == [False] * 3 + [True] * 2
    assert ranking.Pace().is_worth_compiling(10 * one)
    monkeypatch.setattr(ranking, "find_spec", lambda _: None)
    assert not pace.is_worth_compiling(10 * one)


def test_compiling_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    listener = kernels.SaidOnce()
    with caplog.at_level(logging.WARNING):
        listener.on_start(None)
        listener.on_start(None)
    assert len(caplog.records) == 1


def test_small_work_loads_no_compiler() -> None:
    asked = (
        "import sys; from scipy import sparse; from sottovoce import FederatedMF;"
        "h = sparse.random_array((30, 20), density=0.3, format='csr', rng=1) > 0;"
        "m = FederatedMF(budget=10).fit(h); m.recommend(0, h[[0]]);"
        "assert 'numba' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(registry.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", asked], check=True, env=environment)
    assert util.find_spec("numba")


def test_an_error_on_any_thread_is_raised() -> None:
    def fails(begin: int, _end: int, _thread: int) -> None:
        if begin == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        kernels.share_out(20, fails, 1)
