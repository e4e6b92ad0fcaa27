"""Benchmarks of an epoch: right ratios, and only of engines with equal results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import SettingsError, SottovoceError
from sottovoce.simulation import build_engine
from sottovoce.simulation.evaluation.kernels import check_threads
from sottovoce.simulation.interface import LocalEngine, PartedEngine, ReportSums
from sottovoce.simulation.population import WholeParts
from sottovoce.simulation.reference import ReferenceEngine
from sottovoce.training import Settings
from sottovoce_lab.bench.epoch import (
    ALS_NAME,
    COMPILED_MECHANISMS,
    HOLDOUT_RULE,
    BenchPlan,
    BenchResult,
    ReferenceEpoch,
    TimedEpoch,
    run_bench,
    write_parts,
)
from sottovoce_lab.bench.timing import Contender, Spread, compute_ratio, take_turns

N_PEOPLE = 120


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=N_PEOPLE, n_items=60, seed=0)


@contextmanager
def hide_slow_engines() -> Iterator[None]:
    """Hide Ray and the card, which take long to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        patch.setitem(sys.modules, "cupy", None)
        yield


def test_contenders_take_turns_in_a_rotating_order() -> None:
    ran: list[str] = []

    def make_contender(name: str) -> Contender:
        def run() -> float:
            ran.append(name)
            return float(len(ran))

        return Contender(name, run)

    seconds = take_turns([make_contender(name) for name in "abc"], 4, lambda _what: None)
    rounds = ["".join(ran[at : at + 3]) for at in range(0, 12, 3)]
    assert rounds == ["abc", "bca", "cab", "abc"]
    assert all(len(times) == 4 for times in seconds.values())


def test_ratios_are_of_times_in_the_same_round() -> None:
    # The second round ran on a machine ten times slower; the ratio is the same.
    seconds = {"ours": [1.0, 10.0], "theirs": [4.0, 40.0]}
    assert compute_ratio(seconds, "theirs", "ours") == Spread(4.0, 4.0, 4.0)


@pytest.mark.parametrize("mechanism", COMPILED_MECHANISMS)
def test_the_reference_is_timed_on_a_sample_and_extrapolated(
    people: Interactions, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.preset(mechanism, reports=5)
    epoch = TimedEpoch.begin(people.histories, build_engine("cpu", people.histories, settings))
    engines: list[LocalEngine] = []

    def fake_parts(_: TimedEpoch, engine: LocalEngine) -> tuple[float, float]:
        engines.append(engine)
        return 3.0, 0.5

    monkeypatch.setattr(TimedEpoch, "measure_parts", fake_parts)
    reference = ReferenceEpoch.draw(epoch, 30, seed=0)
    assert len({*reference.users}) == 30
    assert reference.run() == 3.0 * N_PEOPLE / 30 + 0.5
    assert (engines[0].name, engines[0].histories.n_users) == ("reference", 30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mechanisms": ("louder",)},
        {"mechanisms": ("named",)},
        {"mechanisms": ()},
        {"repeats": 0},
        {"reference_users": 0},
    ],
)
def test_a_wrong_plan_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        BenchPlan(**wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result(people: Interactions) -> BenchResult:
    with hide_slow_engines():
        return run_bench(people, BenchPlan(reports=5, repeats=2, reference_users=6, parts=3))


def test_every_engine_is_timed_or_listed_as_left_out(result: BenchResult) -> None:
    threads = check_threads(None)
    names = {"cpu, 1 thread", "streamed, 3 parts", "streamed, 3 shards", "reference", ALS_NAME}
    names.add("cpu, 1 thread" if threads == 1 else f"cpu, {threads} threads")
    assert [comparison.mechanism for comparison in result.mechanisms] == list(COMPILED_MECHANISMS)
    for comparison in result.mechanisms:
        assert {timing.name for timing in comparison.timings} == names
        assert set(comparison.left_out) == {"ray", "cuda"}


def test_ratios_rates_and_times_for_a_million_people_agree(result: BenchResult) -> None:
    cpu = f"cpu, {result.threads} thread{'' if result.threads == 1 else 's'}"
    for comparison in result.mechanisms:
        timings = {timing.name: timing for timing in comparison.timings}
        assert (timings[cpu].over_cpu.low, timings[cpu].over_cpu.high) == (1.0, 1.0)
        for timing in comparison.timings:
            assert len(timing.seconds) == 2
            ratios = np.divide(timing.seconds, timings[cpu].seconds)
            assert timing.over_cpu.low == pytest.approx(ratios.min())
            assert timing.over_cpu.high == pytest.approx(ratios.max())
            fastest = timing.client_epochs_per_second.high
            assert timing.seconds_per_million.low == pytest.approx(1e6 / fastest)
            assert fastest == pytest.approx(N_PEOPLE / min(timing.seconds))


@pytest.mark.parametrize(
    ("engine", "name"), [(PartedEngine, "streamed, 3 parts"), (ReferenceEngine, "reference")]
)
def test_an_engine_with_other_sums_is_not_timed(
    people: Interactions, engine: type[PartedEngine], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = engine.collect

    def wrong(self: PartedEngine, V: np.ndarray, epoch: int) -> ReportSums:
        collected = right(self, V, epoch)
        collected.sums[0] += 2
        return collected

    monkeypatch.setattr(engine, "collect", wrong)
    plan = BenchPlan(("coordinate",), reports=5, repeats=1, reference_users=6, parts=3)
    with hide_slow_engines(), pytest.raises(SottovoceError, match=name):
        run_bench(people, plan)


def test_shards_on_disk_contain_everybody(people: Interactions, tmp_path: Path) -> None:
    bare = replace(people, titles=None, tags=None)
    stored = write_parts(bare, tmp_path / "shards", 3)
    whole = WholeParts.from_data(bare, HOLDOUT_RULE)
    assert len(stored) == 3
    lengths = [len(part.people) for part in stored]
    assert sum(lengths) == N_PEOPLE
    assert max(lengths) - min(lengths) <= 1
    joined = np.concatenate([part.histories.indices for part in stored])
    assert np.array_equal(joined, whole[0].histories.indices)


@pytest.mark.slow  # real processes of Ray take seconds to start
def test_ray_takes_part_where_it_is_installed(people: Interactions) -> None:
    pytest.importorskip("ray")
    plan = BenchPlan(
        ("coordinate",), reports=5, repeats=1, reference_users=6, parts=2, ray_workers=1
    )
    (comparison,) = run_bench(people, plan).mechanisms
    assert "ray, 1 worker" in [timing.name for timing in comparison.timings]
    assert "ray" not in comparison.left_out
