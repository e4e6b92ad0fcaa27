"""The epoch of some people, one by one: what every peer is given to simulate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sottovoce.errors import SottovoceError
from sottovoce.simulation.engines import build_engine
from sottovoce.training import next_items

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.simulation.interface import Collected
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]

Work = Literal["reference", "cpu", "nothing"]
"""What one device does: numpy's reference, our compiled engine over one person, or nothing."""
EVERY_WORK: tuple[Work, ...] = ("reference", "cpu", "nothing")
EPOCH = 1
"""The second of a training, as in `TimedEpoch`."""
_OPTIONS: dict[str, dict[str, Any]] = {"cpu": {"threads": 1}, "reference": {"batch": 1}}


@dataclass(frozen=True, eq=False)
class Sample:
    """Some people, each with the number that they have among all: their reports depend on it."""

    histories: Histories
    numbers: NDArray[np.int64]
    settings: Settings
    V: Float32
    """Published for the epoch."""

    def __len__(self) -> int:
        return self.histories.n_users

    def reports(self, place: int, V: Float32, work: Work) -> NDArray[np.uint32]:
        """What the device at this place sends: k reports, or k zeros if it does nothing."""
        if work == "nothing":
            return np.zeros(self.settings.reports, np.uint32)
        person, number = self.histories.some(place, place + 1), self.numbers[place : place + 1]
        with build_engine(work, person, self.settings, numbers=number, **_OPTIONS[work]) as device:
            return device.reports(V, EPOCH).ravel()

    def expected(self) -> Collected:
        """What the cpu engine collects of them, all at once."""
        with build_engine("cpu", self.histories, self.settings, numbers=self.numbers) as engine:
            return engine.collect(self.V, EPOCH)

    def update(self, found: Collected) -> Float32:
        """The server's end of the epoch."""
        mechanism = self.settings.build(self.histories.n_items)
        return next_items(self.V, found.sums, found.n_reports, EPOCH + 1, self.settings, mechanism)


@dataclass(frozen=True)
class PeerEpoch:
    """One epoch in a peer, warmed up."""

    seconds: float
    """From V to the next V, without the start of its processes."""
    found: Collected


def check_sums(who: str, found: Collected, expected: Collected) -> None:
    """A peer that computes something else is not timed."""
    same = np.array_equal(found.sums, expected.sums) and found.n_reports == expected.n_reports
    if not same:
        raise SottovoceError(
            f"{who} does not compute the same epoch: {found.n_reports:,} reports where the cpu "
            f"engine has {expected.n_reports:,}, or other sums; nothing was timed"
        )
