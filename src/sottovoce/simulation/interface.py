"""The one interface behind which engines are swapped, never the algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Collected:
    """All that the server learns of one epoch."""

    sums: NDArray[np.int64]
    """Sum of signs by direction."""
    n_reports: int


class Engine(ABC):
    """Everybody's devices at once. The same settings give the same bits on every engine.

    A shard of a larger population is an engine over its histories with the number of its first
    user: reports are a function of that number, so shards add up to the whole. Close an engine, or
    use it in a `with`.
    """

    name: ClassVar[str]
    """As in the registry."""

    def __init__(self, histories: Histories, settings: Settings, first_user: int):
        self.histories = histories
        self.settings = settings
        self.first_user = first_user
        self.mechanism = settings.build(histories.n_items)

    @abstractmethod
    def collect(self, V: Float32, epoch: int) -> Collected:
        """Every user's reports of one epoch (counted from 0), added up."""

    @abstractmethod
    def reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        """The same reports one by one, N x k: for inspection and tests."""

    @abstractmethod
    def user_vectors(self, V: Float32) -> Float32:
        """Every user's vector, N x F."""

    def close(self) -> None:  # noqa: B027 - most engines have nothing to let go of
        """Let go of processes, memory on a card and the like; nothing by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
