"""The roofline: kernels alone do what the engine does, counts are those of the algorithm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce.data import synthetic_people
from sottovoce.evaluation import kernels as evaluation
from sottovoce.experiments.bench.epoch import after_one_epoch
from sottovoce.experiments.bench.kernels import Kernel, sums_alone
from sottovoce.experiments.bench.limits import (
    CHAINS,
    VECTOR_BITS,
    Limits,
    fused_multiply_adds,
    multiply_adds,
)
from sottovoce.experiments.bench.roofline import RooflinePlan, least_seconds, point, run_roofline
from sottovoce.mechanism import MECHANISMS
from sottovoce.model import Histories
from sottovoce.simulation.cpu import Options
from sottovoce.simulation.cpu.engine import CpuEngine
from sottovoce.simulation.cpu.work import (
    Work,
    ranking_work,
    reporting_work,
    scored_work,
    solving_work,
)
from sottovoce.simulation.parts import LeaveOut, Whole
from sottovoce.training import Settings

if TYPE_CHECKING:
    from sottovoce.data import Interactions

LIMITS = Limits(copy_alone=5.0, copy=10.0, float64=100.0, float32=200.0, fused=400.0, words=4.0)


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=150, n_items=60, seed=0)


class Counted:
    """A number that counts what is done with numbers of its kind."""

    done = 0

    def __init__(self, value: float):
        self.value = value

    def _did(self, value: float) -> Counted:
        Counted.done += 1
        return Counted(value)

    def __add__(self, other: Counted) -> Counted:
        return self._did(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self._did(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self._did(self.value * other.value)

    def __truediv__(self, other: Counted) -> Counted:
        return self._did(self.value / other.value)

    def sqrt(self) -> Counted:
        return self._did(self.value**0.5)


def counted(values: Any) -> Any:
    return np.vectorize(Counted, otypes=[object])(values)


@pytest.mark.parametrize("factors", [1, 2, 5, 16])
def test_operations_of_solving_are_those_of_the_algorithm(factors: int) -> None:
    """Counted while it runs: the same decomposition, in another order."""
    histories = Histories.from_lists([[0, 2], [1, 2, 3]], n_items=4)
    work = solving_work(histories, factors)
    Counted.done = 0
    lower, right = counted(2.0 * np.eye(factors) + 1.0), counted(np.ones(factors))
    evaluation.solve_in_place.py_func(lower, right)
    triangle = factors * (factors + 1) // 2
    assert work.solving == 2 * (Counted.done + 2 * triangle + 2 * factors)
    assert work.products == 5 * triangle
    assert work.additions == 5 * (triangle + factors)


@pytest.mark.parametrize("factors", [1, 2, 5, 16])
def test_operations_of_a_prediction_are_those_of_the_algorithm(factors: int) -> None:
    Counted.done = 0
    evaluation.score.py_func(counted(np.ones(factors)), counted(np.ones(factors)))
    assert scored_work(3, rows=7, factors=factors).floats == 3 * Counted.done


def test_bytes_are_those_of_the_arrays(people: Interactions) -> None:
    settings = Settings.preset("loudest", factors=3, reports=4)
    histories, factors = people.histories, 3
    V, X = np.zeros((60, factors), np.float32), np.zeros((150, factors), np.float32)
    work = solving_work(histories, factors)
    assert work.least_bytes == histories.indices.nbytes + V.nbytes + X.nbytes
    looked_up = V[histories.indices].nbytes
    assert work.most_bytes == histories.indices.nbytes + looked_up + X.nbytes
    loudest = reporting_work(histories, settings)
    constants: Any = settings.build(60).constants(V)
    rotated = constants.item_rows_by_factor
    assert loudest.least_bytes == work.least_bytes + rotated.nbytes
    eights = -(-150 // 8)
    assert loudest.most_bytes == work.most_bytes + eights * rotated.nbytes
    left_out = Whole.of(people, LeaveOut())[0].left_out
    assert left_out is not None
    candidates = left_out.candidates
    ranked = ranking_work(candidates, factors)
    test = candidates.split.test
    assert ranked.least_bytes == candidates.items.nbytes + test.nbytes + V.nbytes + X.nbytes
    assert ranked.floats == (candidates.items.size + 150) * (2 * factors - 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_reports_alone_are_those_of_the_engine(
    people: Interactions, mechanism: str, threads: int
) -> None:
    settings = Settings.preset(mechanism, factors=3, reports=6, seed=4)
    engine = CpuEngine(Whole.of(people, LeaveOut())[0], settings, Options(1))
    V = after_one_epoch(engine)
    sums = sums_alone(engine, V, engine.user_vectors(V), threads, epoch=1)
    assert np.array_equal(sums, engine.collect(V, 1).sums)
    assert np.abs(sums).sum() > 0


@pytest.mark.parametrize("loop", [multiply_adds, fused_multiply_adds])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_chains_that_measure_arithmetic_compute(loop: Any, kind: type) -> None:
    lanes = CHAINS * VECTOR_BITS // (8 * np.dtype(kind).itemsize)
    out: Any = np.arange(2 * lanes, dtype=kind).reshape(2, lanes)
    expected = 8 * out
    loop(3, kind(1), out)
    assert np.array_equal(out, expected)


def test_what_is_longest_binds() -> None:
    work = Work(index_bytes=100, additions=900, steps=100, words=4)
    assert least_seconds(work, "float64", LIMITS, work.least_bytes) == {
        "memory": 10.0,
        "arithmetic": 10.0,
        "random words": 1.0,
    }
    assert least_seconds(work, "float32", LIMITS, 50)["arithmetic"] == 5.0
    assert least_seconds(work, "float32", LIMITS, 50)["memory"] == 5.0


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        (Work(index_bytes=200, additions=200), "memory"),
        (Work(index_bytes=10, additions=4000), "arithmetic"),
        (Work(index_bytes=10, words=80), "random words"),
    ],
)
def test_the_share_is_the_least_time_over_the_measured(work: Work, bound: str) -> None:
    """Twenty seconds at least, in every case; the second round took twice as long."""
    found = point(Kernel("one", work, "float32", lambda: None), [40.0, 80.0], [LIMITS, LIMITS])
    assert (found.bound, found.share.high, found.share.low) == (bound, 0.5, 0.25)
    assert found.attainable.median == pytest.approx(work.operations / 20)
    assert found.operations_per_second.high == pytest.approx(work.operations / 40)


def test_tables_that_fit_no_cache_cost_more() -> None:
    work = Work(index_bytes=5, table_bytes=5, looked_up_bytes=195, additions=400)
    found = point(Kernel("one", work, "float32", lambda: None), [40.0], [LIMITS])
    assert found.intensity == (2.0, 40.0)
    assert found.memory_share.median == 0.5
    assert (found.bound, found.share.median) == ("arithmetic", 2.0 / 40)


def test_limits_of_the_same_round_are_used() -> None:
    """The second round ran on a machine ten times slower; the share does not notice."""
    slow = Limits(**{name: value / 10 for name, value in vars(LIMITS).items()})
    work = Work(index_bytes=200, additions=200)
    found = point(Kernel("one", work, "float32", lambda: None), [40.0, 400.0], [LIMITS, slow])
    assert found.share.low == pytest.approx(found.share.high)


def test_every_kernel_has_a_place_under_the_roof(people: Interactions) -> None:
    result = run_roofline(people, RooflinePlan(reports=5, repeats=2, threads=1))
    assert [each.kernel for each in result.kernels] == ["solving", "ranking", *MECHANISMS]
    for each in result.kernels:
        assert len(each.seconds) == 2
        assert 0 < each.share.low <= each.share.high
        assert 0 < each.intensity[0] <= each.intensity[1]
    content = result.as_dict()
    assert json.loads(json.dumps(content)) == content
    assert all(value > 0 for value in content["limits"].values())
