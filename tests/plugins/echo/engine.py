"""Each person's reports are asked for one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sottovoce.mechanism import sum_signs
from sottovoce.model import user_vectors
from sottovoce.simulation import Collected, Engine
from sottovoce.simulation.words import report_words

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EchoEngine(Engine):
    name: ClassVar[str] = "echo"

    def _collect(self, V: NDArray[np.float32], epoch: int) -> Collected:
        reports = self._reports(V, epoch)
        return Collected(sum_signs(reports, self.mechanism.n_directions), reports.size)

    def _reports(self, V: NDArray[np.float32], epoch: int) -> NDArray[np.uint32]:
        X, s = self._user_vectors(V), self.settings
        return np.concatenate(
            [
                self.mechanism.reports(
                    V,
                    X[[user]],
                    self.histories.take(np.array([user])),
                    report_words(s.seed, epoch, np.array([self.first_user + user]), s.reports),
                )
                for user in range(self.histories.n_users)
            ]
        )

    def _user_vectors(self, V: NDArray[np.float32]) -> NDArray[np.float32]:
        s = self.settings
        return user_vectors(V, self.histories, alpha=s.alpha, regularization=s.regularization)
