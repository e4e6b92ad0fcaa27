"""Engines side by side, and on more threads: equal results first, then ratios."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.data import synthetic_people
from sottovoce.errors import SottovoceError
from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.engines import (
    RULE,
    EnginesPlan,
    check_equal,
    run_engines,
    stored_parts,
)
from sottovoce.experiments.bench.scaling import ScalingPlan, run_scaling
from sottovoce.simulation.interface import Collected
from sottovoce.simulation.parted import PartedEngine
from sottovoce.simulation.parts import Whole
from sottovoce.simulation.reference.engine import ReferenceEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.engines import EnginesResult
    from sottovoce.experiments.bench.scaling import ScalingResult

PEOPLE = 120


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=PEOPLE, n_items=60, seed=0)


@pytest.fixture(scope="module")
def alone() -> Iterator[pytest.MonkeyPatch]:
    """A machine without Ray and without a card: both take long to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        patch.setitem(sys.modules, "cupy", None)
        yield patch


@pytest.fixture(scope="module")
def found(people: Interactions, alone: pytest.MonkeyPatch) -> EnginesResult:
    return run_engines(people, EnginesPlan(reports=5, repeats=2, reference_users=6, parts=3))


@pytest.fixture(scope="module")
def scaled(people: Interactions, alone: pytest.MonkeyPatch) -> ScalingResult:
    return run_scaling(people, ScalingPlan(("coordinate",), reports=5, repeats=2))


def test_every_engine_is_timed_or_named_with_the_reason(found: EnginesResult) -> None:
    threads = checked_threads(None)
    names = {"cpu, 1 thread", "streamed, 3 parts", "streamed, 3 shards", "reference"}
    names.add("cpu, 1 thread" if threads == 1 else f"cpu, {threads} threads")
    assert [each.mechanism for each in found.mechanisms] == list(found.plan.mechanisms)
    for each in found.mechanisms:
        assert {way.name for way in each.ways} == names
        assert set(each.left_out) == {"ray", "cuda"}
        assert "pip install 'sottovoce[ray]'" in each.left_out["ray"]
        assert "CuPy" in each.left_out["cuda"]


def test_ratios_rates_and_a_million_people_agree(found: EnginesResult) -> None:
    cpu = f"cpu, {found.threads} thread{'' if found.threads == 1 else 's'}"
    for each in found.mechanisms:
        ways = {way.name: way for way in each.ways}
        assert (ways[cpu].over_cpu.low, ways[cpu].over_cpu.high) == (1.0, 1.0)
        for way in each.ways:
            assert len(way.seconds) == 2
            ratios = np.divide(way.seconds, ways[cpu].seconds)
            assert way.over_cpu.low == pytest.approx(ratios.min())
            assert way.over_cpu.high == pytest.approx(ratios.max())
            assert way.seconds_per_million.low == pytest.approx(
                1e6 / way.client_epochs_per_second.high
            )
            assert way.client_epochs_per_second.high == pytest.approx(PEOPLE / min(way.seconds))


@pytest.mark.parametrize(
    ("engine", "named"), [(PartedEngine, "streamed, 3 parts"), (ReferenceEngine, "reference")]
)
def test_an_engine_with_other_sums_is_not_timed(
    people: Interactions,
    alone: pytest.MonkeyPatch,
    engine: type[PartedEngine],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = engine._collect

    def wrong(self: PartedEngine, V: np.ndarray, epoch: int) -> Collected:
        collected = right(self, V, epoch)
        collected.sums[0] += 2
        return collected

    monkeypatch.setattr(engine, "_collect", wrong)
    plan = EnginesPlan(("coordinate",), reports=5, repeats=1, reference_users=6, parts=3)
    with pytest.raises(SottovoceError, match=f"{named}: the sums"):
        run_engines(people, plan)


def test_sums_and_numbers_of_reports_are_compared() -> None:
    one = Collected(np.array([1, -1]), 2)
    check_equal("same", Collected(np.array([1, -1]), 2), one)
    for other in (Collected(np.array([1, 1]), 2), Collected(np.array([1, -1]), 4)):
        with pytest.raises(SottovoceError, match="other: the sums"):
            check_equal("other", other, one)


def test_shards_on_disk_hold_everybody(people: Interactions, tmp_path: Path) -> None:
    bare = replace(people, titles=None, tags=None)
    stored, whole = stored_parts(bare, tmp_path / "shards", 3), Whole.of(bare, RULE)
    assert len(stored) == 3
    lengths = [len(part.people) for part in stored]
    assert sum(lengths) == PEOPLE
    assert max(lengths) - min(lengths) <= 1
    joined = np.concatenate([part.histories.indices for part in stored])
    assert np.array_equal(joined, whole[0].histories.indices)


def test_efficiency_is_that_of_one_alone_over_that_of_each(scaled: ScalingResult) -> None:
    most = checked_threads(None)
    assert {(each.over, each.kind) for each in scaled.scalings} == {
        ("threads", "strong"),
        ("threads", "weak"),
    }
    for scaling in scaled.scalings:
        first, last = scaling.points[0], scaling.points[-1]
        assert (first.count, last.count, last.people) == (1, most, PEOPLE)
        assert first.people == (PEOPLE if scaling.kind == "strong" else PEOPLE // most)
        assert (first.efficiency.low, first.efficiency.high) == (1.0, 1.0)
        each = np.divide(first.seconds, last.seconds)
        each = each / most if scaling.kind == "strong" else each
        assert last.efficiency.high == pytest.approx(each.max())
        assert last.speedup == pytest.approx(float(np.median(each)) * most)


def test_the_largest_run_is_shared_by_both_kinds(scaled: ScalingResult) -> None:
    strong, weak = scaled.scalings
    assert strong.points[-1].seconds == weak.points[-1].seconds


def test_scaling_without_ray_says_so(scaled: ScalingResult) -> None:
    assert "sottovoce[ray]" in scaled.left_out["ray workers"]


def test_results_round_trip_through_json(found: EnginesResult, scaled: ScalingResult) -> None:
    for result in (found, scaled):
        content = result.as_dict()
        assert json.loads(json.dumps(content)) == content
        assert content["data"]["users"] == PEOPLE
