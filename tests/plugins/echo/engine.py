"""Each person's reports are asked for one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sottovoce.mechanism import sum_signs
from sottovoce.model import user_vectors
from sottovoce.simulation import Collected, LocalEngine
from sottovoce.simulation.words import report_words, take_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories


class EchoEngine(LocalEngine):
    name: ClassVar[str] = "echo"

    def _collect(self, V: NDArray[np.float32], epoch: int) -> Collected:
        reports = self._reports(V, epoch)
        return Collected(sum_signs(reports, self.mechanism.n_directions), reports.size)

    def _reports(self, V: NDArray[np.float32], epoch: int) -> NDArray[np.uint32]:
        s, numbers = self.settings, self.people.first + np.arange(len(self.people))
        takes = take_part(s.seed, epoch, numbers, s.turns, s.epochs)
        nobody = np.empty((0, s.reports), np.uint32)
        return np.concatenate(
            [nobody, *(self._of(V, epoch, int(u)) for u in np.flatnonzero(takes))]
        )

    def _of(self, V: NDArray[np.float32], epoch: int, place: int) -> NDArray[np.uint32]:
        one, s = self.people.take(np.array([place]), self.settings.seed), self.settings
        words = report_words(s.seed, epoch, np.array([self.people.first + place]), s.reports)
        return self.mechanism.reports(V, self._vectors(V, one), one, words)

    def _user_vectors(self, V: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._vectors(V, self.histories)

    def _vectors(self, V: NDArray[np.float32], people: Histories) -> NDArray[np.float32]:
        s = self.settings
        return user_vectors(V, people, alpha=s.alpha, regularization=s.user_ridge(V))
