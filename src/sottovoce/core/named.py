"""`named`: a report names the item that a person touched last, by k-ary randomised response.

There are K outcomes. Outcome 0 means "nothing", and outcome i + 1 names item i. The remaining
outcomes are reserved for items that the catalogue may get later. A person's *name* is the outcome
of the item that they touched last, or 0. With probability gamma, a report is drawn uniformly from
all K outcomes, otherwise it is the name. So each outcome has one of two probabilities, whatever the
history:

    other:  gamma / K          name:  gamma / K + (1 - gamma)

gamma = K / (K + e^eps - 1) makes the ratio of these probabilities e^eps. So the probabilities of a
report under any two histories differ by at most the factor e^eps, which proves that a report is
eps-LDP. These are the probabilities of `loudest` with one loud direction among K signed ones, so
rho is 1 / K.

K is part of the terms. If it followed the catalogue, rho would change with every new item, and a
server with a tiny catalogue could ask a question whose answer is nearly certain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import coin
from sottovoce.core.bounds import MAX_ITEMS
from sottovoce.core.histories import Histories
from sottovoce.core.mechanism import (
    COIN_WORD,
    DIRECTION_WORD,
    ROUNDING_WORD,
    Mechanism,
    Shape,
)
from sottovoce.errors import SettingsError
from sottovoce.settings import setting

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

# The outcome of a person none of whose items are in the catalogue.
NOTHING_OUTCOME = 0
# Default number of outcomes for each item. It is above 1, so that the catalogue can grow.
OUTCOMES_PER_ITEM = 1.1


@dataclass(frozen=True)
class Named(Mechanism):
    """The mechanism that names an item. The option `names` is K, the number of outcomes."""

    names: int = setting(
        0,
        "number of possible values of a report (K): one more than the largest number of items "
        "that can be named; must be even; 0: 1.1 times the number of items",
        min_value=0,
        max_value=2 * MAX_ITEMS,
    )

    name: ClassVar[str] = "named"
    asks_for_names: ClassVar[bool] = True
    is_planned: ClassVar[bool] = False
    # The item matrix has a single column, the share of each item, and it is learnt by counting.
    preset_settings: ClassVar[Mapping[str, Any]] = {
        "reports": 1,
        "epsilon": 10.0,
        "factors": 1,
        "rotate": False,
    }

    def __post_init__(self) -> None:
        if self.names == 0:
            object.__setattr__(self, "names", choose_names(self.shape.n_items))
        if self.names % 2:
            raise SettingsError(f"names must be even, got {self.names}", setting="names")
        if self.names < self.shape.n_items + 1:
            raise SettingsError(
                f"names must be at least {self.shape.n_items + 1}, one more than the items of the "
                f"catalogue, got {self.names}",
                setting="names",
            )
        super().__post_init__()

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        # 0 means the best value, but a device must not choose what a manifest leaves open.
        if public["names"] == 0:
            raise SettingsError("a manifest of named must state names, which may not be 0")
        return super().from_manifest(shape, epsilon, public)

    def limit_items(self, n_items: int) -> int:
        return min(n_items, self.names - 1)

    @property
    def n_directions(self) -> int:
        """K / 2: each direction has two reports, one for each sign, so K outcomes need K / 2."""
        return self.names // 2

    @property
    def loud_fraction(self) -> float:
        """Rho = 1 / K."""
        return 1 / self.names

    @cached_property
    def blanket_below(self) -> int:
        """The threshold gamma * 2^64: a report is uniform if its coin's word is below it."""
        return coin.compute_blanket_threshold(self.epsilon, 1, self.names)

    @property
    def gamma(self) -> float:
        """The probability that a report does not depend on the history."""
        return self.blanket_below / coin.WORD_RANGE

    def reports(
        self,
        V: Float32,  # noqa: ARG002 - a name does not depend on the model
        X: Float32,  # noqa: ARG002
        histories: Histories,
        random_words: NDArray[np.uint64],
    ) -> NDArray[np.uint32]:
        """Name one item of each history, drawn uniformly for each report.

        `histories` should contain only the items that each person touched last (`find_latest`).
        """
        draws = random_words[:, :-1]
        uniform = coin.multiply_high(draws[..., DIRECTION_WORD], self.names)
        is_uniform = draws[..., COIN_WORD] < np.uint64(self.blanket_below)
        names = self._draw_names(histories, draws[..., ROUNDING_WORD])
        return np.where(is_uniform, uniform, names).astype(np.uint32)

    def _draw_names(self, histories: Histories, random_words: NDArray[np.uint64]) -> Int64:
        lengths = np.diff(histories.indptr)[:, None]
        places = histories.indptr[:-1, None] + coin.multiply_high(random_words, lengths)
        # One outcome is appended, because the place of a person without items may lie behind the
        # last entry.
        outcomes = np.append(histories.indices.astype(np.int64) + 1, NOTHING_OUTCOME)
        return np.where(lengths > 0, outcomes[places], NOTHING_OUTCOME)

    @property
    def n_sums(self) -> int:
        """K: the server counts each outcome."""
        return self.names

    def to_sums(self, counts: Int64) -> Int64:
        """Return the counts unchanged, because outcomes are not signs that cancel each other."""
        return counts

    @property
    def gain(self) -> float:
        """The probability that a report is the name of an item, and is not drawn uniformly."""
        return 1 - self.gamma

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> Float64:
        """Estimate the share of each item among the names, without bias.

        The result is M x F. Column 0 has the shares; the other columns are 0.

        Args:
            sums: How often each of the K outcomes was reported, dummies included.
            n_reports: Number of reports of people, without dummies.
        """
        n_dummies = max(sums.sum() - n_reports, 0)
        uniform = (n_reports * self.gamma + n_dummies) / self.names
        named = (sums[1 : self.shape.n_items + 1] - uniform) / self.gain
        estimate = np.zeros((self.shape.n_items, self.shape.factors))
        estimate[:, 0] = named / max(n_reports, 1)
        return estimate

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:  # noqa: ARG002
        """Return K times the probability of each outcome: gamma, plus K (1 - gamma) for the name.

        If a person touched several items last, each of them gets an equal part of K (1 - gamma).
        """
        densities = np.full((histories.n_users, self.names), self.gamma)
        lengths, users = np.diff(histories.indptr), histories.users_of_entries()
        name_density = self.names * self.gain
        densities[users, histories.indices + 1] += name_density / lengths[users]
        densities[lengths == 0, NOTHING_OUTCOME] += name_density
        return densities.astype(np.float32)


def choose_names(n_items: int) -> int:
    """Return the default K for a catalogue.

    >>> choose_names(9781), choose_names(1)
    (10760, 2)
    """
    return 2 * int(OUTCOMES_PER_ITEM * n_items / 2 + 1)


def find_latest(histories: Histories, times: Int64) -> Histories:
    """Return the items that each person touched last; several, if they have the same time.

    Args:
        histories: What people touched.
        times: The time of each entry of the histories; only the order counts.

    >>> histories = Histories.from_lists([[0, 1, 2], []], 3)
    >>> find_latest(histories, np.array([5, 9, 9]))[0].tolist()
    [1, 2]
    """
    users = histories.users_of_entries()
    last = np.full(histories.n_users, np.iinfo(np.int64).min)
    np.maximum.at(last, users, times)
    is_last = times == last[users]
    lengths = np.bincount(users[is_last], minlength=histories.n_users)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return replace(histories, indptr=indptr, indices=histories.indices[is_last])
