"""People in the processes of a cluster; V goes there once an epoch, sums come back."""

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

Everybody = list[ObjectRef[Parts]]
"""Where all people are; in a list, since Ray would otherwise fetch them with every question."""


class Worker:
    """A process of the cluster that holds some people and answers for them.

    What it has follows from what it is made with and asked with: it can be made again.
    """

    def __init__(self, indices: list[int], settings: Settings):
        self._indices = indices
        self._settings = settings
        self._engines: dict[int, Engine] = {}

    def answers(
        self, stored: Everybody, question: Callable[[LocalEngine], Any]
    ) -> list[tuple[int, Any]]:
        """For each of its parts, with the part's index."""
        return [
            (index, answer)
            for index, engine in self._ready(stored).items()
            for answer in engine.map_parts(question)
        ]

    def collect(
        self, stored: Everybody, question: Callable[[LocalEngine], ReportSums]
    ) -> ReportSums:
        return added(*(answer for _, answer in self.answers(stored, question)))

    def _ready(self, stored: Everybody) -> dict[int, Engine]:
        """Made when they are first asked: what fails here is an answer, and not a lost worker."""
        if not self._engines:
            parts = ray.get(stored[0])
            made = {index: _engine(parts[index], self._settings) for index in self._indices}
            self._engines = made
        return self._engines


def added(*collected: ReportSums) -> ReportSums:
    """Of different people; whole numbers, so any order gives the same."""
    sums = np.sum([each.sums for each in collected], axis=0)
    return ReportSums(sums, sum(each.n_reports for each in collected))


def _engine(part: Part, settings: Settings) -> Engine:
    # Compiled loops are for arrays that may be written to; those of the object store may not.
    own = part if part.histories.indices.flags.writeable else deepcopy(part)
    return build_engine("cpu", WholeParts(own), settings, threads=1)


FAN_IN = 8
"""Sums that are added in one step of the tree."""


class RayEngine(PartedEngine):
    """A worker that is lost is made again, elsewhere if its machine is gone, and asked again.

    Answers are functions of the people, V and the epoch: asked again, they are the same.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, parts: Parts, settings: Settings, cluster: Cluster, workers: int | None):
        super().__init__(parts.n_items, settings)
        self._cluster = cluster
        try:
            wanted = workers or len(cluster.cores())
            data, made = parts, None
            if isinstance(parts, WholeParts):
                made = parts.cut(wanted) if parts[0].people.resampled else None
                data = parts.without_resampling().cut(wanted)
            self._data = Workers(cluster, data, settings, wanted)
            self.reporting = Workers(cluster, made, settings, wanted) if made else self._data
            """Those who hold the people who report."""
        except BaseException:
            cluster.close()
            raise

    def close(self) -> None:
        for workers in {self._data, self.reporting}:
            workers.stop()
        self._cluster.close()

    def map_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self._data.answers(function)

    def _map_reporting_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self.reporting.answers(function)

    def collect(self, V: NDArray[np.float32], epoch: int) -> ReportSums:
        return self.reporting.collect(lambda engine: engine.collect(V, epoch))


class Workers:
    """Those who hold these people. Each has several parts, or one."""

    def __init__(self, cluster: Cluster, parts: Parts, settings: Settings, wanted: int):
        self._stored, n = [ray.put(parts)], min(wanted, len(parts))
        cores = cluster.cores()
        # Where we say if that machine is there, as often as it takes. What they hold stays with
        # us too: one that is made again fetches it again.
        kind: Any = ray.remote(max_restarts=-1, max_task_retries=-1)(Worker)
        self._all: list[Any] = [
            kind.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(cores[w % len(cores)], soft=True)
            ).remote(list(range(w, len(parts), n)), settings)
            for w in range(n)
        ]
        self._add = ray.remote(max_retries=-1)(added)

    def answers(self, question: Callable[[LocalEngine], T]) -> list[T]:
        """In the order of the parts."""
        sent = ray.put(question)
        found: list[tuple[int, T]] = []
        asked = [worker.answers.remote(self._stored, sent) for worker in self._all]
        for answers in self._got(asked):
            found += answers
        return [answer for _, answer in sorted(found, key=lambda each: each[0])]

    def collect(self, question: Callable[[LocalEngine], ReportSums]) -> ReportSums:
        """Added up in a tree, where the sums are: no process receives all of them."""
        sent = ray.put(question)
        sums: list[Any] = [worker.collect.remote(self._stored, sent) for worker in self._all]
        while len(sums) > 1:
            groups = [sums[at : at + FAN_IN] for at in range(0, len(sums), FAN_IN)]
            sums = [self._add.remote(*group) for group in groups]
        found: ReportSums = self._got(sums[0])
        return found

    def _got(self, asked: Any) -> Any:
        """What was asked for; an error of ours as it was there, without Ray's story around it."""
        try:
            return ray.get(asked)
        except RayTaskError as error:
            cause: BaseException = error
            while isinstance(cause, RayTaskError):
                cause = cause.cause
            raise (cause if isinstance(cause, SottovoceError) else error) from None

    def stop(self) -> None:
        for worker in self._all:
            ray.kill(worker)


PATIENCE = 5.0
"""Seconds for an address to answer; Ray itself would try for minutes."""


class Cluster:
    """There already, or made of this machine until it is closed."""

    def __init__(self, address: str | None):
        self._is_ours = not ray.is_initialized()
        if not self._is_ours:
            return
        if address is not None:
            _check_answers(address)
        try:
            ray.init(
                address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise SettingsError(f"no Ray cluster can be reached at {address}: {error}") from error

    def cores(self) -> list[str]:
        """The machine of each core, in turns: the first cores are on different machines."""
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        numbered = [
            (core, node["NodeID"])
            for node in alive
            for core in range(int(node["Resources"].get("CPU", 0)))
        ]
        if not numbered:
            raise SettingsError("a machine of the Ray cluster must have a core for us")
        return [machine for _, machine in sorted(numbered)]

    def close(self) -> None:
        """Leave the cluster; stop it if it was made here."""
        if self._is_ours:
            ray.shutdown()


def _check_answers(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return  # such as "auto", which Ray looks up
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise SettingsError(f"no Ray cluster answers at {address}: {error}") from error
