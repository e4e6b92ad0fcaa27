"""The one interface behind which engines are swapped, never the algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Mechanism, compute_gram, sum_signs
from sottovoce.core.bounds import is_within_bounds
from sottovoce.data.streams import stream
from sottovoce.errors import DivergedError, SettingsError
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors
from sottovoce.simulation.people import LeftOut, Part, Parts
from sottovoce.training import Settings, compute_next_items

Float32 = NDArray[np.float32]

T = TypeVar("T")


@dataclass(frozen=True)
class Collected:
    """All that the server learns of one epoch."""

    sums: NDArray[np.int64]
    """Sum of signs by direction."""
    n_reports: int


class Engine(ABC):
    """Everybody's devices at once. The same settings give the same bits on every engine.

    Close an engine, or use it in a `with`.
    """

    name: ClassVar[str]
    """As in the registry."""

    def __init__(self, n_items: int, settings: Settings):
        self.n_items = n_items
        self.settings = settings
        self.mechanism = settings.build(n_items)

    def collect(self, V: Float32, epoch: int) -> Collected:
        """All reports of one epoch (counted from 0), added up."""
        return self._collect(self._checked(V), epoch)

    def reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        """The same reports one by one, N x k for the N who take part: for inspection and tests."""
        return self._reports(self._checked(V), epoch)

    def user_vectors(self, V: Float32) -> Float32:
        """The vector of everybody in the data set, N x F."""
        return self._user_vectors(self._checked(V))

    def ranks(self, V: Float32, *, informed: bool = False) -> Ranks:
        """Where the items rank that were left out of everybody's history, under `x . v`.

        If `informed`, under what devices compute with their side information.
        """
        return self._ranks(self._checked(V), informed=informed)

    def learn(self, V: Float32, epoch: int, *, row_limit: float = 0.0) -> tuple[Float32, int]:
        """One epoch: the next item matrix, and how many reports it is made of.

        A live server has a `row_limit` against liars (`training.items.limit_row_lengths`).
        """
        V = self._checked(V)
        return self._learn_limited(V, epoch, row_limit) if row_limit else self._learn(V, epoch)

    @abstractmethod
    def each(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        """What is answered where the people of the data set are, part by part in their order."""

    @abstractmethod
    def _collect(self, V: Float32, epoch: int) -> Collected: ...

    @abstractmethod
    def _reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]: ...

    @abstractmethod
    def _user_vectors(self, V: Float32) -> Float32: ...

    @abstractmethod
    def _ranks(self, V: Float32, *, informed: bool) -> Ranks: ...

    def _learn(self, V: Float32, epoch: int) -> tuple[Float32, int]:
        return self._learn_limited(V, epoch, 0.0)

    def _learn_limited(self, V: Float32, epoch: int, row_limit: float) -> tuple[Float32, int]:
        found = self._collect(V, epoch)
        # Where few people take turns, an epoch may be nobody's: then it estimates nothing, and no
        # proxy hands dummies in.
        sums = found.sums + self._dummies(epoch) if found.n_reports else found.sums
        n_reports = max(found.n_reports, 1)
        settings, mechanism = self.settings, self.mechanism
        V = compute_next_items(
            V, sums, n_reports, epoch + 1, settings, mechanism, row_limit=row_limit
        )
        return V, found.n_reports

    def _dummies(self, epoch: int) -> NDArray[np.int64]:
        """What the proxy mixes in: sums of the signs of uniform reports."""
        n_directions = self.mechanism.n_directions
        drawn = stream(self.settings.seed, "dummy", epoch)
        reports = drawn.integers(2 * n_directions, size=self.settings.dummies, dtype=np.uint32)
        return sum_signs(reports, n_directions)

    def _checked(self, V: Float32) -> Float32:
        """As engines may rely on it: compiled code does not look where it reads."""
        shape = (self.n_items, self.settings.factors)
        if V.shape != shape:
            raise SettingsError(f"the item matrix must be {shape[0]} x {shape[1]}, got {V.shape}")
        if not is_within_bounds(V):
            raise DivergedError("the item matrix must have entries that devices accept")
        # Compiled for arrays that may be written to, which those from another process may not.
        return np.require(V, np.float32, ["C", "W"])

    def close(self) -> None:  # noqa: B027 - most engines have nothing to let go of
        """Let go of processes, memory on a card and the like; nothing by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalEngine(Engine):
    """An engine over people who are in the memory of this process.

    A part of a larger population is an engine over its people with the number of the first one:
    reports are a function of that number, so parts add up to the whole.
    """

    def __init__(self, part: Part, settings: Settings):
        super().__init__(part.histories.n_items, settings)
        self.part = part
        self.people = part.people
        """Who report."""
        self.histories = part.histories
        """Of the data set, whoever was made out of it."""

    @property
    def left_out(self) -> LeftOut:
        """What people of the data set are tested on."""
        if self.part.left_out is None:
            raise SettingsError("a test needs what was left out: this engine has histories alone")
        return self.part.left_out

    def each(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        yield question(self)

    def _ranks(self, V: Float32, *, informed: bool) -> Ranks:
        left_out, settings = self.left_out, self.settings
        if not (informed and left_out.side_information):
            return self._ranks_alone(V, left_out.candidates)
        ridge = settings.compute_user_ridge(V)
        return left_out.side_information.ranks(
            V, left_out.candidates, alpha=settings.alpha, regularization=ridge
        )

    def _ranks_alone(self, V: Float32, candidates: Candidates) -> Ranks:
        return rank_factors(self._user_vectors(V), V, candidates)


class EpochConstants(NamedTuple):
    """Public numbers of one epoch, for all; a kernel gets the mechanism's own beside them."""

    seed: np.uint64
    epoch: int
    reports: int
    alpha: float
    regularization: float
    n_directions: np.uint64
    V: Float32
    G: NDArray[np.float64]


def prepare(settings: Settings, mechanism: Mechanism, V: Float32, epoch: int) -> EpochConstants:
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
    """Over people in several parts: reports, vectors and ranks of all parts, and added sums."""

    def _collect(self, V: Float32, epoch: int) -> Collected:
        sums, n_reports = np.zeros(self.mechanism.n_directions, np.int64), 0
        for found in self._each_who_reports(lambda engine: engine.collect(V, epoch)):
            sums += found.sums
            n_reports += found.n_reports
        return Collected(sums, n_reports)

    def _reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        nobody = np.empty((0, self.settings.reports), np.uint32)
        found = self._each_who_reports(lambda engine: engine.reports(V, epoch))
        return np.concatenate([nobody, *found])

    def _user_vectors(self, V: Float32) -> Float32:
        return np.concatenate(list(self.each(lambda engine: engine.user_vectors(V))))

    def _ranks(self, V: Float32, *, informed: bool) -> Ranks:
        return Ranks.joined(self.each(lambda engine: engine.ranks(V, informed=informed)))

    def _each_who_reports(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        """The same for those who report, where these are made out of the others."""
        return self.each(question)


class StreamedEngine(PartedEngine):
    """One part in memory at a time: any number of people, with any engine for one machine."""

    name: ClassVar[str] = "streamed"

    def __init__(self, parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]):
        super().__init__(parts.n_items, settings)
        self._parts = parts
        self._make = make

    def each(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        for part in self._parts:
            with self._make(part) as engine:
                yield question(engine)


def one_by_one(parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]) -> Engine:
    """The engine of the only part, or one that goes through all of them."""
    return make(parts[0]) if len(parts) == 1 else StreamedEngine(parts, settings, make)
