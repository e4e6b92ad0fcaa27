"""Benchmarks of an epoch: they measure what they say, and only what gives equal results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core import MECHANISMS
from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import SettingsError, SottovoceError
from sottovoce.simulation import build_engine
from sottovoce.simulation.evaluation.kernels import check_threads
from sottovoce.simulation.interface import LocalEngine, PartedEngine, ReportSums
from sottovoce.simulation.population import WholeParts
from sottovoce.simulation.reference import ReferenceEngine
from sottovoce.training import Settings
from sottovoce_lab.bench import Spread
from sottovoce_lab.bench.epoch import (
    RULE,
    BenchPlan,
    BenchResult,
    ReferenceEpoch,
    TimedEpoch,
    run_bench,
    stored_parts,
)
from sottovoce_lab.bench.timing import Contender, ratio, take_turns

PEOPLE = 120
ALS = "implicit, one iteration of ALS"


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=PEOPLE, n_items=60, seed=0)


@contextmanager
def alone() -> Iterator[None]:
    """A machine without Ray and without a card: both take long to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        patch.setitem(sys.modules, "cupy", None)
        yield


def test_contenders_take_turns_in_a_rotating_order() -> None:
    ran: list[str] = []

    def contender(name: str) -> Contender:
        def run() -> float:
            ran.append(name)
            return float(len(ran))

        return Contender(name, run)

    seconds = take_turns([contender(name) for name in "abc"], 4, lambda _what: None)
    rounds = ["".join(ran[at : at + 3]) for at in range(0, 12, 3)]
    assert rounds == ["abc", "bca", "cab", "abc"]
    assert all(len(each) == 4 for each in seconds.values())


def test_ratios_are_taken_within_a_round() -> None:
    """The second round ran on a machine ten times slower; the ratio does not notice."""
    seconds = {"ours": [1.0, 10.0], "theirs": [4.0, 40.0]}
    assert ratio(seconds, "theirs", "ours") == Spread(4.0, 4.0, 4.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_reference_is_timed_on_a_sample_and_extrapolated(
    people: Interactions, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.preset(mechanism, reports=5)
    epoch = TimedEpoch.of(people.histories, build_engine("cpu", people.histories, settings))
    seen: list[LocalEngine] = []

    def parts(_: TimedEpoch, engine: LocalEngine) -> tuple[float, float]:
        seen.append(engine)
        return 3.0, 0.5

    monkeypatch.setattr(TimedEpoch, "parts", parts)
    reference = ReferenceEpoch.drawn(epoch, 30, seed=0)
    assert len({*reference.users}) == 30
    assert reference.run() == 3.0 * PEOPLE / 30 + 0.5
    assert (seen[0].name, seen[0].histories.n_users) == ("reference", 30)


@pytest.mark.parametrize(
    "wrong",
    [{"mechanisms": ("louder",)}, {"mechanisms": ()}, {"repeats": 0}, {"reference_users": 0}],
)
def test_a_plan_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        BenchPlan(**wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found(people: Interactions) -> BenchResult:
    with alone():
        return run_bench(people, BenchPlan(reports=5, repeats=2, reference_users=6, parts=3))


def test_every_engine_is_timed_or_left_out_with_the_reason(found: BenchResult) -> None:
    threads = check_threads(None)
    names = {"cpu, 1 thread", "streamed, 3 parts", "streamed, 3 shards", "reference", ALS}
    names.add("cpu, 1 thread" if threads == 1 else f"cpu, {threads} threads")
    assert [each.mechanism for each in found.mechanisms] == list(found.plan.mechanisms)
    for each in found.mechanisms:
        assert {way.name for way in each.ways} == names
        assert set(each.left_out) == {"ray", "cuda"}


def test_ratios_rates_and_a_million_people_agree(found: BenchResult) -> None:
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
    people: Interactions, engine: type[PartedEngine], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = engine.collect

    def wrong(self: PartedEngine, V: np.ndarray, epoch: int) -> ReportSums:
        collected = right(self, V, epoch)
        collected.sums[0] += 2
        return collected

    monkeypatch.setattr(engine, "collect", wrong)
    plan = BenchPlan(("coordinate",), reports=5, repeats=1, reference_users=6, parts=3)
    with alone(), pytest.raises(SottovoceError, match=named):
        run_bench(people, plan)


def test_shards_on_disk_hold_everybody(people: Interactions, tmp_path: Path) -> None:
    bare = replace(people, titles=None, tags=None)
    stored, whole = stored_parts(bare, tmp_path / "shards", 3), WholeParts.from_data(bare, RULE)
    assert len(stored) == 3
    lengths = [len(part.people) for part in stored]
    assert sum(lengths) == PEOPLE
    assert max(lengths) - min(lengths) <= 1
    joined = np.concatenate([part.histories.indices for part in stored])
    assert np.array_equal(joined, whole[0].histories.indices)


# With real processes of Ray, which take seconds to start.


@pytest.mark.slow
def test_ray_takes_part_where_it_is_installed(people: Interactions) -> None:
    pytest.importorskip("ray")
    plan = BenchPlan(
        ("coordinate",), reports=5, repeats=1, reference_users=6, parts=2, ray_workers=1
    )
    (each,) = run_bench(people, plan).mechanisms
    assert "ray, 1 worker" in [way.name for way in each.ways]
    assert "ray" not in each.left_out
