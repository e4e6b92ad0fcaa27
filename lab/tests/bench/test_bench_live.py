"""The benchmark of the live system, small and real."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import SettingsError
from sottovoce.server import InProcessOpener
from sottovoce_lab.bench.live.bench_server import PROXY, BenchServer, OpensNothing, measure_counting
from sottovoce_lab.bench.live.live_bench import (
    LiveBenchPlan,
    LiveBenchResult,
    UnitCosts,
    run_live_bench,
)
from sottovoce_lab.bench.live.opening import DECRYPT, PARSED, RAW, SERVER
from sottovoce_lab.bench.timing import cpu_seconds, most_resident, resident

PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc, as on Linux")
TINY = LiveBenchPlan(repeats=2, processes=2, chunk=300, batches=40, reports=10, items=20)


@pytest.fixture(scope="module")
def measured() -> LiveBenchResult:
    return run_live_bench(TINY)


@PROC
@pytest.mark.slow
def test_everything_is_measured(measured: LiveBenchResult) -> None:
    found = {(rate.what, rate.processes) for rate in measured.opening}
    assert found == {(what, p) for what in (RAW, PARSED, DECRYPT, SERVER) for p in (1, 2)}
    for rate in measured.opening:
        assert len(rate.seconds) == TINY.repeats
        assert 0 < rate.per_second.low <= rate.per_second.high
        assert rate.of_raw.median == 1.0 or rate.what != RAW
    intake = measured.intake
    assert (intake.batches, intake.reports_each) == (40, 10)
    assert 0 < intake.per_second.median < 1e6
    assert 1 <= intake.per_sync.median <= 40
    for memory in (*intake.memory, measured.counting.memory):
        assert 1e6 < memory.start <= memory.most < 1e9
    assert (measured.counting.reports, measured.counting.opened_for_real) == (600, False)
    units = measured.units
    assert (units.reports, units.items) == (10, 20)
    assert units.up == 56 + 52 * 10
    assert units.opening == 1 / measured.core.per_second.median
    assert 0 < measured.core.of_raw.median < 1.5
    assert 0 < units.intake < 1
    assert 0 < units.mixing < 1
    assert units.dummy == 1 / measured.dummies.median
    assert 1e-6 < units.dummy < 1e-2


def test_what_an_epoch_costs() -> None:
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
    found = units.of(1_000_000)
    assert found.reports == 100_000_000
    assert found.server_core_hours == pytest.approx(2.5)
    assert found.proxy_core_hours == pytest.approx(1 / 12)
    assert (found.up, found.down) == (5_256_000_000, 21_000_000_000)
    assert (found.proxy_disk, found.server_disk) == (11_590_000_000, 800_000_000)


@PROC
@pytest.mark.slow
def test_a_full_epoch_is_sealed_and_opened(tmp_path: Path) -> None:
    bench = BenchServer.make(tmp_path / "bench", items=20, reports=10)
    found = measure_counting(
        bench,
        tmp_path,
        reports=250,
        chunk_reports=100,
        processes=1,
        for_real=True,
        watch=lambda _: None,
    )
    assert (found.reports, found.opened_for_real) == (300, True)
    assert found.opener is not None
    assert found.opener > 1e6


@pytest.mark.parametrize("for_real", [True, False])
def test_what_is_counted_is_what_was_made(tmp_path: Path, for_real: bool) -> None:
    bench = BenchServer.make(tmp_path / "bench", items=20, reports=10)
    chunk = bench.chunk(os.urandom(52 * 30))
    if for_real:
        (chunk,) = bench.sealed_chunks(1, 30, 1)
    opener = InProcessOpener() if for_real else OpensNothing()
    for name in ("first", "second"):
        with bench.fresh_server(tmp_path / name, opener) as server:
            assert server.take_chunk(PROXY, chunk.epoch, chunk.name, chunk.encode())
            (epoch,) = server.list_epochs()
            assert (epoch.reports, epoch.undecodable) == (30, 0)


@PROC
def test_a_process_is_read_from_proc() -> None:
    me = os.getpid()
    assert abs(cpu_seconds(me) - time.process_time()) < 1.0
    assert 1e6 < resident(me) <= most_resident(me)
    with pytest.raises(SettingsError):
        cpu_seconds(2**30)


@pytest.mark.parametrize("changes", [{"repeats": 0}, {"batches": 0}, {"chunk": 20_001}])
def test_a_plan_that_measures_nothing_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        LiveBenchPlan(**changes)
