"""People in the processes of a cluster; V goes there once an epoch, sums come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sottovoce.errors import SottovoceError
from sottovoce.simulation.parted import PartedEngine
from sottovoce.simulation.parts import Whole
from sottovoce.simulation.ray.worker import Worker, added

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.simulation.interface import Collected, LocalEngine, T
    from sottovoce.simulation.parts import Parts
    from sottovoce.simulation.ray.cluster import Cluster
    from sottovoce.training import Settings

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
            if isinstance(parts, Whole):
                made = parts.cut(wanted) if parts[0].people.resampled else None
                data = parts.as_they_are().cut(wanted)
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

    def each(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self._data.answers(question)

    def _each_who_reports(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        return self.reporting.answers(question)

    def _collect(self, V: NDArray[np.float32], epoch: int) -> Collected:
        return self.reporting.collect(lambda engine: engine.collect(V, epoch))


class Workers:
    """Those who hold these people. Each has several parts, or one."""

    def __init__(self, cluster: Cluster, parts: Parts, settings: Settings, wanted: int):
        self._ray = ray = cluster.ray
        self._stored, n = [ray.put(parts)], min(wanted, len(parts))
        cores = cluster.cores()
        # Where we say if that machine is there, as often as it takes. What they hold stays with
        # us too: one that is made again fetches it again.
        kind = ray.remote(max_restarts=-1, max_task_retries=-1)(Worker)
        self._all = [
            kind.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(cores[w % len(cores)], soft=True)
            ).remote(list(range(w, len(parts), n)), settings)
            for w in range(n)
        ]
        self._add = ray.remote(max_retries=-1)(added)

    def answers(self, question: Callable[[LocalEngine], T]) -> list[T]:
        """In the order of the parts."""
        sent = self._ray.put(question)
        found: list[tuple[int, T]] = []
        asked = [worker.answers.remote(self._stored, sent) for worker in self._all]
        for answers in self._got(asked):
            found += answers
        return [answer for _, answer in sorted(found, key=lambda each: each[0])]

    def collect(self, question: Callable[[LocalEngine], Collected]) -> Collected:
        """Added up in a tree, where the sums are: no process receives all of them."""
        sent = self._ray.put(question)
        sums: list[Any] = [worker.collect.remote(self._stored, sent) for worker in self._all]
        while len(sums) > 1:
            groups = [sums[at : at + FAN_IN] for at in range(0, len(sums), FAN_IN)]
            sums = [self._add.remote(*group) for group in groups]
        found: Collected = self._got(sums[0])
        return found

    def _got(self, asked: Any) -> Any:
        """What was asked for; an error of ours as it was there, without Ray's story around it."""
        try:
            return self._ray.get(asked)
        except RayTaskError as error:
            cause: BaseException = error
            while isinstance(cause, RayTaskError):
                cause = cause.cause
            raise (cause if isinstance(cause, SottovoceError) else error) from None

    def stop(self) -> None:
        for worker in self._all:
            self._ray.kill(worker)
