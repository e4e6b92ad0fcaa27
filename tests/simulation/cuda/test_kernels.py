"""The kernels of the cuda engine at the limits that only large populations reach.

`tests/simulation/test_engine.py` has the contract of engines. Here the same kernels are compiled
for the processor, and work is divided into small pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce.core import MECHANISMS, Histories, draw_initial_items
from sottovoce.errors import SettingsError
from sottovoce.simulation import build_engine
from sottovoce.simulation.cuda import engine as engine_module
from sottovoce.simulation.cuda import memory as setup
from sottovoce.simulation.cuda.engine import CudaEngine
from sottovoce.simulation.cuda.kernels import loudest
from sottovoce.simulation.population import Part, People
from sottovoce.training import Settings
from tests.kernels import computes
from tests.people import random_people
from tests.simulation.cuda.emulated import EmulatedCard, size_of

if TYPE_CHECKING:
    from sottovoce.simulation import Engine

mechanisms = pytest.mark.parametrize(
    "mechanism", [name for name in MECHANISMS if computes("cuda", name)]
)


def build_on_card(
    h: Histories, plan: Settings, *, shared: int = 227 << 10, **people: Any
) -> Engine:
    return CudaEngine(Part(People(h, **people)), plan, EmulatedCard(shared))


def check_against_cpu(
    engine: Engine, h: Histories, plan: Settings, resample: int | None = None
) -> None:
    """Check that reports, sums and vectors are those of the cpu engine."""
    V = draw_initial_items(h.n_items, plan.factors, 0.2, 5)
    with build_engine("cpu", h, plan, resample=resample) as cpu:
        assert np.array_equal(engine.list_reports(V, 1), cpu.list_reports(V, 1))
        assert np.array_equal(engine.collect(V, 1).sums, cpu.collect(V, 1).sums)
        assert np.array_equal(engine.solve_user_vectors(V), cpu.solve_user_vectors(V))


@mechanisms
@pytest.mark.parametrize("resample", [None, 70])
def test_people_in_pieces(
    mechanism: str, resample: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "MAX_PEOPLE_ON_CARD", 7)
    monkeypatch.setattr(loudest, "MAX_PREDICTED_NUMBERS", 3 * 64)
    monkeypatch.setattr(loudest, "MAX_SORTED_ENTRIES", 10)
    h = random_people(40, 60, seed=1)
    plan = Settings.preset(mechanism, factors=3, reports=9, epsilon=2.5)
    check_against_cpu(build_on_card(h, plan, resampled=resample), h, plan, resample)


def test_rows_that_do_not_fit_into_shared_memory() -> None:
    h = random_people(20, 3000, seed=1, most=200)
    plan = Settings.preset("loudest", factors=3, reports=9)
    built = build_on_card(h, plan, shared=32 << 10)
    assert built._memory.numbers["rows_on_card"]  # type: ignore[attr-defined]
    check_against_cpu(built, h, plan)


@pytest.mark.parametrize("epsilon", [0.5, 6.0])
@pytest.mark.parametrize(("near", "close", "tied"), [(1, 1, 1), (40, 2, 1)])
def test_more_directions_near_the_border_than_are_listed(
    epsilon: float, near: int, close: int, tied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MAX_NEAR", near), ("MAX_CLOSE", close), ("MAX_TIED", tied)):
        monkeypatch.setattr(setup, name, value)
    h = random_people(30, 500, seed=1, most=100)
    plan = Settings.preset("loudest", factors=4, reports=30, epsilon=epsilon)
    check_against_cpu(build_on_card(h, plan), h, plan)


@mechanisms
def test_more_factors_than_threads(mechanism: str) -> None:
    h = random_people(9, 80, seed=1)
    plan = Settings.preset(mechanism, factors=33, reports=9)
    check_against_cpu(build_on_card(h, plan), h, plan)


@pytest.mark.parametrize("factors", [1, 5, 33, 100])
def test_structs_have_the_computed_sizes(factors: int) -> None:
    source = setup.render_source(factors, loudest.SOURCE)
    assert size_of("Setup", source) == setup.SETUP_TYPE.itemsize
    scratch = size_of("Scratch", source)
    assert scratch <= setup.compute_scratch_bytes(factors) < scratch + 256
    assert size_of("Equations", source) <= setup.compute_solve_bytes(factors)


def test_factors_that_do_not_fit_a_card_are_refused() -> None:
    with pytest.raises(SettingsError):
        build_on_card(random_people(3, 5), Settings(factors=50), shared=8 << 10)
