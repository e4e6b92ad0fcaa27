"""Benchmarks with real processes of Ray, which take seconds to start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sottovoce.data import synthetic_people
from sottovoce.experiments.bench.engines import EnginesPlan, run_engines
from sottovoce.experiments.bench.scaling import ScalingPlan, run_scaling
from sottovoce.experiments.bench.timing import let_ray_compete
from sottovoce.simulation.engines import build_engine
from sottovoce.training import Settings

if TYPE_CHECKING:
    from sottovoce.data import Interactions

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=60, seed=0)


def test_ray_takes_part_where_it_is_installed(people: Interactions) -> None:
    plan = EnginesPlan(
        ("coordinate",), reports=5, repeats=1, reference_users=6, parts=2, ray_workers=1
    )
    (each,) = run_engines(people, plan).mechanisms
    assert "ray, 1 worker" in [way.name for way in each.ways]
    assert "ray" not in each.left_out


def test_processes_of_ray_do_not_step_back(people: Interactions) -> None:
    let_ray_compete()
    settings = Settings.preset("coordinate", reports=5)
    with build_engine("ray", people.histories, settings, ray_workers=1) as engine:
        assert list(engine.each(lambda _: os.nice(0))) == [os.nice(0)]


def test_scaling_over_processes(people: Interactions) -> None:
    plan = ScalingPlan(("coordinate",), reports=5, repeats=1, threads=1, ray_workers=2)
    found = run_scaling(people, plan)
    counts = {(each.over, each.kind): [p.count for p in each.points] for each in found.scalings}
    assert counts["ray workers", "strong"] == counts["ray workers", "weak"] == [1, 2]
    assert counts["threads", "strong"] == [1]
    assert found.left_out == {}
