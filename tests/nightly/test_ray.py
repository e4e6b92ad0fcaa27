"""The engine for a cluster: real processes of Ray, and lost machines."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce.data import Interactions
from sottovoce.data.loading import shard
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import DataError, DivergedError, SettingsError
from sottovoce.simulation import Simulation, build_engine, simulate
from sottovoce.simulation.engines import ENGINE_MODULES
from sottovoce.simulation.holdout import HoldoutRule
from sottovoce.simulation.population import Part, People, StoredParts, WholeParts
from sottovoce.training import Settings, make_first_items
from tests.kernels import COMPILED
from tests.lacking import leave_out
from tests.people import random_people
from tests.processes import free_port, wait_until
from tests.simulation import test_engine as contract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sottovoce.simulation.interface import LocalEngine, ReportSums

try:
    import ray

    from sottovoce.simulation.ray.engine import SUMS_PER_STEP
except ImportError:
    leave_out("the engine for a cluster: Ray is not installed")

pytestmark = pytest.mark.slow
PEOPLE = random_people(300, 60, seed=9, most=40)
PLAN = Settings.preset("loudest", factors=3, reports=4, seed=5)
V = make_first_items(PLAN, 60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster on this machine that Ray takes for two machines."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Names of sockets must be short.
        patch.setenv("RAY_TMPDIR", "/tmp")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield cluster
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def check_connected(cluster: Any) -> None:
    assert ray.is_initialized()


def build_on_ray(workers: int) -> Any:
    return build_engine("ray", PEOPLE, PLAN, ray_workers=workers)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("mechanism", COMPILED)
def test_any_number_of_workers_gives_the_same(workers: int, mechanism: str) -> None:
    plan = Settings.preset(mechanism, factors=3, reports=4, seed=5)
    with (
        build_engine("ray", PEOPLE, plan, ray_workers=workers) as ours,
        build_engine("reference", PEOPLE, plan) as expected,
    ):
        assert ours.name == "ray"
        assert len({*ours.map_parts(lambda _: os.getpid())}) == workers
        assert os.getpid() not in ours.map_parts(lambda _: os.getpid())
        collected, wanted = ours.collect(V, 2), expected.collect(V, 2)
        assert np.array_equal(collected.sums, wanted.sums)
        assert collected.n_reports == wanted.n_reports
        assert np.array_equal(ours.list_reports(V, 2), expected.list_reports(V, 2))
        assert np.array_equal(ours.solve_user_vectors(V), expected.solve_user_vectors(V))


def test_answers_are_in_the_order_of_the_parts() -> None:
    """Give the first worker the first and the last of three parts."""
    parts = WholeParts(Part(People(PEOPLE))).cut(3)
    with build_engine("ray", parts, PLAN, ray_workers=2) as ours:
        assert [*ours.map_parts(lambda engine: engine.part.people.first)] == [0, 100, 200]


def test_the_contract_of_engines() -> None:
    """Test the parts of the contract that ask for other things than the reports of an epoch."""
    assert {*contract.QUICK, "ray"} == {*ENGINE_MODULES, contract.STREAMED}
    contract.test_shards_add_up_to_the_whole("ray", "coordinate")
    contract.test_an_engine_is_closed_by_its_block("ray")
    contract.test_ranks_are_those_of_the_user_vectors("ray", 7)
    contract.test_ranks_are_those_of_the_user_vectors("ray", 0)


def test_more_workers_than_people_and_more_than_are_added_at_once() -> None:
    for people in (PEOPLE.slice(0, 2), PEOPLE):
        with build_engine("ray", people, PLAN, ray_workers=SUMS_PER_STEP + 1) as ours:
            collected = ours.collect(V, 0)
        assert np.array_equal(collected.sums, build_engine("cpu", people, PLAN).collect(V, 0).sums)


def compute_expected() -> ReportSums:
    with build_engine("cpu", PEOPLE, PLAN) as engine:
        return engine.collect(V, 2)


def is_expected(collected: ReportSums) -> bool:
    wanted = compute_expected()
    return np.array_equal(collected.sums, wanted.sums) and collected.n_reports == wanted.n_reports


def kill_once(marker: Path, engine: LocalEngine) -> ReportSums:
    """Kill a worker in the middle of an epoch, the first time that it is asked."""
    try:
        # Only one worker can create the file.
        marker.touch(exist_ok=False)
    except FileExistsError:
        return engine.collect(V, 2)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    with build_on_ray(2) as engine:
        before = set(engine.map_parts(lambda _: os.getpid()))
        assert is_expected(engine.reporting.collect(partial(kill_once, tmp_path / "killed")))
        after = set(engine.map_parts(lambda _: os.getpid()))
        assert len(before & after) == 1
        assert len(after) == 2
        assert is_expected(engine.collect(V, 2))


def run_slowly(folder: Path, engine: LocalEngine) -> ReportSums:
    (folder / f"{ray.get_runtime_context().get_node_id()}-{time.time_ns()}").touch()
    time.sleep(2)
    return engine.collect(V, 2)


def test_a_machine_may_be_lost_in_the_middle_of_an_epoch(cluster: Any, tmp_path: Path) -> None:
    """Check that another machine takes its people, with the same results."""
    machine = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    with build_on_ray(2) as engine:
        where = {*engine.map_parts(lambda _: ray.get_runtime_context().get_node_id())}
        assert len(where) == 2
        results: list[ReportSums] = []
        thread = threading.Thread(
            target=lambda: results.append(engine.reporting.collect(partial(run_slowly, tmp_path)))
        )
        thread.start()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both to have begun")
        cluster.remove_node(machine, allow_graceful=False)
        thread.join(60)
        assert is_expected(results[0])
        calls = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
        assert len(calls) == 3, "one of them was called again"
        (lost,) = [node for node in where if calls.count(node) == 1]
        assert lost not in engine.map_parts(lambda _: ray.get_runtime_context().get_node_id())
        assert is_expected(engine.collect(V, 2))


def test_a_whole_run_from_shards(tmp_path: Path) -> None:
    """Compare with a run in memory: training, ranks with side information, popularity."""
    rng = np.random.default_rng(3)
    times = rng.integers(0, 1000, PEOPLE.n_interactions)
    data = Interactions("people", PEOPLE, np.arange(300), np.arange(60), times)
    with ShardWriter(tmp_path / "shards") as writer:
        for begin, end in ((0, 70), (70, 200), (200, 300)):
            writer.add(data.select(np.arange(begin, end), None))
        shards = writer.finish(data)
    plan = Simulation(Settings.preset("loudest", factors=2, reports=3, epochs=2), "latest", 20)
    expected = simulate(data, plan)
    on_ray = Simulation(plan.settings, "latest", 20, "ray", {"ray_workers": 2})
    for source in (data, shards):
        run = simulate(source, on_ray)
        assert np.array_equal(run.V, expected.V)
        assert run.final == expected.final
        assert run.popularity == expected.popularity
        assert run.informed_popularity == expected.informed_popularity
        assert run.side_information == expected.side_information == "time"


def test_errors_of_people_come_through() -> None:
    with build_on_ray(1) as engine:
        with pytest.raises(SettingsError):
            engine.compute_ranks(V)
        with pytest.raises(DivergedError):
            engine.collect(np.full_like(V, np.nan), 0)


def test_the_error_names_a_missing_shard(tmp_path: Path) -> None:
    shards = shard("synthetic:N=300,M=60", tmp_path / "shards", rows=5000)
    parts = StoredParts(shards, HoldoutRule())
    (tmp_path / "shards" / "part-00000.parquet").unlink()
    with (
        build_engine("ray", parts, PLAN, ray_workers=2) as engine,
        pytest.raises(DataError, match=r"part-00000\.parquet") as error,
    ):
        engine.collect(V, 0)
    assert "ray" not in str(error.value), "the message says what went wrong, not where"


def test_an_address_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(SettingsError, match=address):
        build_engine("ray", PEOPLE, PLAN, ray_address=address)
