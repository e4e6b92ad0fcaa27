"""The benchmark of the live system, with real processes and small numbers."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.options import Learn
from sottovoce.errors import SettingsError
from sottovoce.server import InProcessOpener
from sottovoce.training import Settings
from sottovoce_lab.bench.live.bench_server import PROXY_NAME, BenchServer
from sottovoce_lab.bench.live.counting import FakeOpener, measure_counting
from sottovoce_lab.bench.live.learning import compare_kinds
from sottovoce_lab.bench.live.live_bench import (
    LiveBenchPlan,
    LiveBenchResult,
    UnitCosts,
    run_live_bench,
)
from sottovoce_lab.bench.live.opening import (
    HPKE_DECRYPT,
    PARSED_EXCHANGE,
    RAW_EXCHANGE,
    WHOLE_SERVER,
)
from sottovoce_lab.bench.timing import (
    read_cpu_seconds,
    read_max_resident_bytes,
    read_resident_bytes,
)

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="reads /proc, as on Linux"
)
TRAINING = Settings.preset("loudest", reports=10)
SMALL_PLAN = LiveBenchPlan(repeats=2, processes=2, chunk=300, batches=40, reports=10, items=20)


@pytest.fixture(scope="module")
def result() -> LiveBenchResult:
    return run_live_bench(SMALL_PLAN)


@needs_proc
@pytest.mark.slow
def test_everything_is_measured(result: LiveBenchResult) -> None:
    contenders = (RAW_EXCHANGE, PARSED_EXCHANGE, HPKE_DECRYPT, WHOLE_SERVER)
    rates = {(rate.what, rate.processes) for rate in result.opening}
    assert rates == {(what, processes) for what in contenders for processes in (1, 2)}
    for rate in result.opening:
        assert len(rate.seconds) == SMALL_PLAN.repeats
        assert 0 < rate.per_second.low <= rate.per_second.high
        assert rate.of_raw.median == 1.0 or rate.what != RAW_EXCHANGE
    intake = result.intake
    assert (intake.batches, intake.reports_each) == (40, 10)
    assert 0 < intake.per_second.median < 1e6
    assert 1 <= intake.per_sync.median <= 40
    for memory in (*intake.memory, result.counting.memory):
        assert 1e6 < memory.start <= memory.peak < 1e9
    assert (result.counting.reports, result.counting.opened_for_real) == (600, False)
    units = result.units
    assert (units.reports, units.items) == (10, 20)
    assert units.up == 56 + 52 * 10
    assert units.opening == 1 / result.core.per_second.median
    assert 0 < result.core.of_raw.median < 1.5
    assert 0 < units.intake < 1
    assert 0 < units.mixing < 1
    assert units.dummy == 1 / result.dummies.median
    assert 1e-6 < units.dummy < 1e-2


def test_costs_of_an_epoch() -> None:
    units = UnitCosts(
        reports=100,
        items=1000,
        opening=9e-5,
        intake=2e-4,
        mixing=1e-4,
        dummy=1e-4,
        up=5256,
        down=21_000,
        catalogue=50_000,
    )
    costs = units.compute_epoch(1_000_000)
    assert costs.reports == 100_000_000
    assert costs.server_core_hours == pytest.approx(2.5)
    assert costs.proxy_core_hours == pytest.approx(1 / 12)
    assert (costs.up, costs.down) == (5_256_000_000, 21_000_000_000)
    assert (costs.proxy_disk, costs.server_disk) == (11_590_000_000, 800_000_000)


@needs_proc
@pytest.mark.slow
def test_a_full_epoch_is_sealed_and_opened(tmp_path: Path) -> None:
    bench = BenchServer.make(tmp_path / "bench", items=20, training=TRAINING)
    counting = measure_counting(
        bench,
        tmp_path,
        reports=250,
        chunk_reports=100,
        processes=1,
        for_real=True,
        watch=lambda _: None,
    )
    assert (counting.reports, counting.opened_for_real) == (300, True)
    assert counting.opener is not None
    assert counting.opener > 1e6


@pytest.mark.parametrize("for_real", [True, False])
def test_a_fresh_server_counts_every_report_of_a_chunk(tmp_path: Path, for_real: bool) -> None:
    bench = BenchServer.make(tmp_path / "bench", items=20, training=TRAINING)
    chunk = bench.make_chunk(os.urandom(52 * 30))
    if for_real:
        (chunk,) = bench.seal_chunks(1, 30, 1)
    opener = InProcessOpener() if for_real else FakeOpener()
    for name in ("first", "second"):
        with bench.open_fresh_server(tmp_path / name, opener) as server:
            assert server.take_chunk(PROXY_NAME, chunk.epoch, chunk.name, chunk.encode())
            (epoch,) = server.list_epochs()
            assert (epoch.reports, epoch.undecodable) == (30, 0)


@needs_proc
@pytest.mark.slow
def test_an_epoch_of_names_is_compared_with_one_of_taste() -> None:
    plans: dict[Learn, Settings] = {
        "names": Settings.preset("named", half_life=1.0),
        "taste": Settings.preset("loudest", reports=1, factors=4, half_life=1.0),
    }
    compared = compare_kinds(plans, items=50, people=40, rounds=1)
    # Reports of both kinds have the same size. The model of names has one column instead of four.
    assert compared["a device sends, bytes"][2].median == 1
    names, taste, _ = compared["a device fetches, bytes"]
    assert taste - names == pytest.approx(50 * 4 * 3, rel=0.2)
    assert compared["all, seconds"][0] > compared["server, seconds to count"][0] > 0


@needs_proc
def test_time_and_memory_of_a_process_are_read_from_proc() -> None:
    me = os.getpid()
    assert abs(read_cpu_seconds(me) - time.process_time()) < 1.0
    assert 1e6 < read_resident_bytes(me) <= read_max_resident_bytes(me)
    with pytest.raises(SettingsError):
        read_cpu_seconds(2**30)


@pytest.mark.parametrize("changes", [{"repeats": 0}, {"batches": 0}, {"chunk": 20_001}])
def test_a_wrong_plan_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        LiveBenchPlan(**changes)
