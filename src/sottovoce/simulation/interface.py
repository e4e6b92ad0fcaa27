"""The interface of engines, which compute the same algorithm on different hardware."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Mechanism, compute_gram, count_reports
from sottovoce.core.bounds import is_within_bounds
from sottovoce.data.streams import stream
from sottovoce.errors import DivergedError, SettingsError
from sottovoce.simulation.evaluation.ranking import Ranks, rank_factors
from sottovoce.simulation.holdout import Holdout
from sottovoce.simulation.population import Part, Parts
from sottovoce.training import Settings, compute_next_items

Float32 = NDArray[np.float32]

T = TypeVar("T")


@dataclass(frozen=True)
class ReportSums:
    """All that the server learns from one epoch."""

    sums: NDArray[np.int64]
    """For each direction, the sum of the signs of its reports; in a training of names, how often
    each outcome was reported (`Mechanism.to_sums`)."""
    n_reports: int


class Engine(ABC):
    """A simulation of all devices. The same settings give the same bits on every engine.

    Close an engine after use, or use it as a context manager.
    """

    name: ClassVar[str]
    """The name in the registry of engines."""

    def __init__(self, n_items: int, settings: Settings):
        self.n_items = n_items
        self.settings = settings
        self.mechanism = settings.build(n_items)

    @abstractmethod
    def collect(self, V: Float32, epoch: int) -> ReportSums:
        """Add up all reports of one epoch, counted from 0."""

    @abstractmethod
    def list_reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        """Return the reports that `collect` adds up, N x k for N participants (for tests)."""

    @abstractmethod
    def solve_user_vectors(self, V: Float32) -> Float32:
        """Return the vectors of the N people in the data set, N x F."""

    @abstractmethod
    def compute_ranks(self, V: Float32, *, informed: bool = False, every: int = 1) -> Ranks:
        """Rank the test item of each person who has one.

        Args:
            V: The item matrix.
            informed: Rank by the scores that devices compute with side information, and not just
                by `x . v`.
            every: Test only every nth person of each part.
        """

    @abstractmethod
    def map_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        """Call a function with the engine of each part, and return the results in order.

        The parts are those of the people of the data set, not those of people resampled from them.
        The function runs in the process that holds the part.
        """

    def learn(
        self, V: Float32, epoch: int, *, row_limit: float = 0.0, has_start: bool = False
    ) -> tuple[Float32, int]:
        """Run one epoch; return the next item matrix and the number of reports in the epoch.

        Args:
            V: The item matrix.
            epoch: The epoch, counted from 0.
            row_limit: Largest length of a row of the estimate, in multiples of the typical length,
                by which a live server resists attackers (`training.items.limit_row_lengths`); 0: no
                limit.
            has_start: Whether the training has a public start.
        """
        # `collect` converts V for itself; the update below needs the converted V, too.
        V = self.check_items(V)
        collected = self.collect_with_dummies(V, epoch)
        # At least 1, so that the estimate of an empty epoch is 0 and not 0 / 0.
        V = compute_next_items(
            V,
            collected.sums,
            max(collected.n_reports, 1),
            epoch + 1,
            self.settings,
            self.mechanism,
            row_limit=row_limit,
            has_start=has_start,
        )
        return V, collected.n_reports

    def collect_with_dummies(self, V: Float32, epoch: int) -> ReportSums:
        """Add up all reports of one epoch, and the dummies that the proxy adds."""
        collected = self.collect(V, epoch)
        # If each person takes part in few epochs, an epoch may have no participant. Then it has no
        # dummies either, because no proxy sends anything.
        if not collected.n_reports:
            return collected
        return ReportSums(collected.sums + self._draw_dummies(epoch), collected.n_reports)

    def check_items(self, V: Float32) -> Float32:
        """Check an item matrix, and convert it to a writable float32 array in C order.

        Compiled code needs this check, because it does not check where it reads.

        Raises:
            SettingsError: The shape is wrong.
            DivergedError: An entry is not finite, or too large for devices.
        """
        shape = (self.n_items, self.settings.factors)
        if V.shape != shape:
            raise SettingsError(f"the item matrix must be {shape[0]} x {shape[1]}, got {V.shape}")
        if not is_within_bounds(V):
            raise DivergedError("the item matrix must have entries that devices accept")
        # Loops are compiled for writable arrays, but an array from another process may be
        # read-only.
        return np.require(V, np.float32, ["C", "W"])

    def _draw_dummies(self, epoch: int) -> NDArray[np.int64]:
        """Return the sums of the dummies that the proxy adds."""
        n_directions = self.mechanism.n_directions
        chance = stream(self.settings.seed, "dummy", epoch)
        reports = chance.integers(2 * n_directions, size=self.settings.dummies, dtype=np.uint32)
        return self.mechanism.to_sums(count_reports(reports, n_directions))

    def close(self) -> None:  # noqa: B027 - most engines have nothing to release
        """Release processes, memory on a card and the like."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalEngine(Engine):
    """An engine for one part of the people, in the memory of this process."""

    def __init__(self, part: Part, settings: Settings):
        super().__init__(part.histories.n_items, settings)
        self.part = part
        self.people = part.people
        """The people who report."""
        self.histories = part.histories
        """The histories of the people of the data set, from whom `people` may be resampled."""

    @property
    def holdout(self) -> Holdout:
        """The test items of the people of the data set."""
        if self.part.holdout is None:
            raise SettingsError("a test needs held-out items: this engine has only histories")
        return self.part.holdout

    def map_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        yield function(self)

    def compute_ranks(self, V: Float32, *, informed: bool = False, every: int = 1) -> Ranks:
        V = self.check_items(V)
        holdout = self.holdout
        if every > 1:
            holdout = holdout.take(np.arange(0, self.histories.n_users, every))
        if not (informed and holdout.side_information):
            return rank_factors(self.solve_user_vectors(V)[::every], V, holdout.candidates)
        return holdout.side_information.compute_ranks(
            V,
            holdout.candidates,
            alpha=self.settings.alpha,
            regularization=self.settings.compute_user_ridge(V),
            has_shares=self.settings.asks_for_names,
        )


class EpochConstants(NamedTuple):
    """The public numbers of one epoch, which a kernel needs besides those of the mechanism."""

    seed: np.uint64
    epoch: int
    reports: int
    alpha: float
    regularization: float
    n_directions: np.uint64
    V: Float32
    G: NDArray[np.float64]


def make_epoch_constants(
    settings: Settings, mechanism: Mechanism, V: Float32, epoch: int
) -> EpochConstants:
    return EpochConstants(
        seed=np.uint64(settings.seed),
        epoch=epoch,
        reports=settings.reports,
        alpha=float(settings.alpha),
        regularization=settings.compute_user_ridge(V),
        n_directions=np.uint64(mechanism.n_directions),
        V=V,
        G=compute_gram(V),
    )


class PartedEngine(Engine):
    """An engine that combines the results of several parts. The engine of each part checks V."""

    def collect(self, V: Float32, epoch: int) -> ReportSums:
        # Sums are whole numbers, so any division into parts gives the same sums.
        sums, n_reports = np.zeros(self.mechanism.n_sums, np.int64), 0
        for part in self._map_reporting_parts(lambda engine: engine.collect(V, epoch)):
            sums += part.sums
            n_reports += part.n_reports
        return ReportSums(sums, n_reports)

    def list_reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        # An empty array comes first, because numpy cannot concatenate zero arrays.
        no_reports = np.empty((0, self.settings.reports), np.uint32)
        parts = self._map_reporting_parts(lambda engine: engine.list_reports(V, epoch))
        return np.concatenate([no_reports, *parts])

    def solve_user_vectors(self, V: Float32) -> Float32:
        return np.concatenate(list(self.map_parts(lambda engine: engine.solve_user_vectors(V))))

    def compute_ranks(self, V: Float32, *, informed: bool = False, every: int = 1) -> Ranks:
        return Ranks.concatenate(
            self.map_parts(lambda engine: engine.compute_ranks(V, informed=informed, every=every))
        )

    def _map_reporting_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        # An engine overrides this if resampled people are divided into parts of their own.
        return self.map_parts(function)


class StreamedEngine(PartedEngine):
    """An engine that holds one part in memory at a time, for any number of people."""

    name: ClassVar[str] = "streamed"

    def __init__(self, parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]):
        super().__init__(parts.n_items, settings)
        self._parts = parts
        self._make = make

    def map_parts(self, function: Callable[[LocalEngine], T]) -> Iterable[T]:
        for part in self._parts:
            with self._make(part) as engine:
                yield function(engine)


def build_local_engine(
    parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]
) -> Engine:
    """Return the engine of the only part, or a `StreamedEngine` if there are several parts."""
    return make(parts[0]) if len(parts) == 1 else StreamedEngine(parts, settings, make)
