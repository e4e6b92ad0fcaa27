"""The engine for a Ray cluster: its processes hold the people, get V, and return sums."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import ray
from numpy.typing import NDArray
from ray import ObjectRef
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sottovoce.errors import SettingsError, SottovoceError
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Engine, LocalEngine, PartedEngine, ReportSums, T
from sottovoce.simulation.population import Part, Parts, WholeParts
from sottovoce.training import Settings

# A reference to all people. It is in a list because Ray replaces a bare argument by its value, and
# would send all people with every call.
StoredParts = list[ObjectRef[Parts]]
# Number of results that one task of the cluster adds up.
SUMS_PER_STEP = 8
# A cluster must answer within this time. Ray itself would try for minutes.
CONNECT_SECONDS = 5.0


class Worker:
    """A process of the cluster that holds some parts and calls functions with their engines.

    All its state follows from its arguments, so another process can replace it.
    """

    def __init__(self, indices: list[int], settings: Settings):
        self._indices = indices
        self._settings = settings
        self._engines: dict[int, Engine] = {}

    def map_parts(
        self, stored: StoredParts, function: Callable[[LocalEngine], Any]
    ) -> list[tuple[int, Any]]:
        """Return the index and the result of each part."""
        # Engines are built at the first call. An error then reaches the caller; in `__init__` it
        # would kill the worker.
        if not self._engines:
            parts = ray.get(stored[0])
            self._engines = {
                index: _build_engine(parts[index], self._settings) for index in self._indices
            }
        return [
            (index, result)
            for index, engine in self._engines.items()
            for result in engine.map_parts(function)
        ]

    def collect(
        self, stored: StoredParts, function: Callable[[LocalEngine], ReportSums]
    ) -> ReportSums:
        """Add up the results of all parts."""
        return add_sums(*(sums for _, sums in self.map_parts(stored, function)))


def add_sums(*collected: ReportSums) -> ReportSums:
    """Add up the sums of several parts."""
    # Sums are whole numbers, so any order gives the same result.
    sums = np.sum([part.sums for part in collected], axis=0)
    return ReportSums(sums, sum(part.n_reports for part in collected))


def _build_engine(part: Part, settings: Settings) -> Engine:
    # Loops are compiled for writable arrays, but arrays from Ray's object store are read-only.
    part = part if part.histories.indices.flags.writeable else deepcopy(part)
    return build_engine("cpu", WholeParts(part), settings, threads=1)


class RayEngine(PartedEngine):
    """An engine that computes with the workers of a cluster.

    A lost worker is replaced, on another machine if its own is gone, and called again. The result
    is the same, because it depends only on the settings, the people, V and the epoch.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, parts: Parts, settings: Settings, cluster: Cluster, workers: int | None):
        super().__init__(parts.n_items, settings)
        self._cluster = cluster
        try:
            n_workers = workers or len(cluster.list_cores())
            data, resampled = parts, None
            if isinstance(parts, WholeParts):
                resampled = parts.cut(n_workers) if parts[0].people.resampled else None
                data = parts.drop_resampling().cut(n_workers)
            self._data = WorkerPool(cluster, data, settings, n_workers)
            self.reporting = self._data
            """The workers that hold the people who report."""
            if resampled:
                self.reporting = WorkerPool(cluster, resampled, settings, n_workers)
        except BaseException:
            cluster.close()
            raise

    def close(self) -> None:
        for pool in {self._data, self.reporting}:
            pool.stop()
        self._cluster.close()

    def map_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self._data.map_parts(function)

    def _map_reporting_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self.reporting.map_parts(function)

    def collect(self, V: NDArray[np.float32], epoch: int) -> ReportSums:
        return self.reporting.collect(lambda engine: engine.collect(V, epoch))


class WorkerPool:
    """The workers that hold all parts of some people, one part or several each."""

    def __init__(self, cluster: Cluster, parts: Parts, settings: Settings, n_workers: int):
        # Keep the parts in Ray's object store: a worker that replaces a lost one fetches its parts.
        self._stored = [ray.put(parts)]
        n_workers = min(n_workers, len(parts))
        cores = cluster.list_cores()
        kind: Any = ray.remote(max_restarts=-1, max_task_retries=-1)(Worker)
        self._workers: list[Any] = [
            # `soft` allows another machine if this one is gone.
            kind.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(cores[w % len(cores)], soft=True)
            ).remote(list(range(w, len(parts), n_workers)), settings)
            for w in range(n_workers)
        ]
        self._add = ray.remote(max_retries=-1)(add_sums)

    def map_parts(self, function: Callable[[LocalEngine], T]) -> list[T]:
        """Return the results in the order of the parts."""
        stored_function = ray.put(function)
        calls = [worker.map_parts.remote(self._stored, stored_function) for worker in self._workers]
        results = [result for results in self._wait(calls) for result in results]
        return [result for _, result in sorted(results, key=lambda result: result[0])]

    def collect(self, function: Callable[[LocalEngine], ReportSums]) -> ReportSums:
        """Add up the results in a tree on the cluster, so that no process receives all of them."""
        stored_function = ray.put(function)
        sums = [worker.collect.remote(self._stored, stored_function) for worker in self._workers]
        while len(sums) > 1:
            steps = range(0, len(sums), SUMS_PER_STEP)
            sums = [self._add.remote(*sums[start : start + SUMS_PER_STEP]) for start in steps]
        total: ReportSums = self._wait(sums[0])
        return total

    def _wait(self, calls: Any) -> Any:
        """Wait for results. An error of sottovoce in a worker is raised as it is, not wrapped."""
        try:
            return ray.get(calls)
        except RayTaskError as error:
            cause: BaseException = error
            while isinstance(cause, RayTaskError):
                cause = cause.cause
            raise (cause if isinstance(cause, SottovoceError) else error) from None

    def stop(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            ray.kill(worker)


class Cluster:
    """A connection to a running cluster, or a cluster on this machine that `close` stops."""

    def __init__(self, address: str | None):
        self._is_ours = not ray.is_initialized()
        if not self._is_ours:
            return
        if address is not None:
            _check_reachable(address)
        try:
            ray.init(
                address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise SettingsError(f"no Ray cluster can be reached at {address}: {error}") from error

    def list_cores(self) -> list[str]:
        """Return the machine of each core. The first ones in the list are different machines."""
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        cores = [
            (core, node["NodeID"])
            for node in alive
            for core in range(int(node["Resources"].get("CPU", 0)))
        ]
        if not cores:
            raise SettingsError(
                "no machine of the Ray cluster has a CPU: start one with `ray start --num-cpus 1`"
            )
        return [machine for _, machine in sorted(cores)]

    def close(self) -> None:
        """Leave the cluster; stop it if this object started it."""
        if self._is_ours:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return  # Ray looks up names such as "auto"
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise SettingsError(f"no Ray cluster answers at {address}: {error}") from error
