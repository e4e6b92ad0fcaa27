"""What a mechanism is: the rule by which one person's gradient becomes k reports of four bytes.

A report names a public direction in the space of gradients and a sign: `index << 1 | bit`, bit 1
for plus. A mechanism is eps-LDP for each report, by itself, whatever the history behind it.

Randomness is an input. A client hands in `k + 1` draws of four 64-bit words: draw `j` makes report
`j` (word 0 the direction, word 1 the rounding or the choice, word 2 the coin, word 3 unused), the
last draw breaks ties. Live code takes them from the operating system, the simulator from a keyed
generator; the arithmetic is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sottovoce.errors import NotFiniteError, SettingsError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from sottovoce.model import Histories

WORDS_PER_DRAW = 4
DIRECTION, CHOICE, COIN = 0, 1, 2
"""Which word of a draw does what."""
MAX_DIRECTIONS = 1 << 31
"""An index and its bit must fit four bytes."""


@dataclass(frozen=True)
class Shape:
    """What every mechanism must know of the model."""

    n_items: int
    factors: int
    alpha: float
    """The paper's confidence: `c = 1 + alpha` on what the person touched, 1 elsewhere."""

    def __post_init__(self) -> None:
        if self.n_items < 1 or self.factors < 1:
            raise SettingsError(
                f"need at least one item and one factor, got {self.n_items} x {self.factors}"
            )
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise SettingsError(f"alpha must be finite and not negative, got {self.alpha}")


class Mechanism(Protocol):
    """One way to report. Implementations are frozen and hold no data of anybody's."""

    @property
    def name(self) -> str:
        """As on the command line and in the manifest."""

    @property
    def shape(self) -> Shape:
        """The model it speaks about."""

    @property
    def epsilon(self) -> float:
        """The budget of one report."""

    @property
    def n_directions(self) -> int:
        """Indices lie below this."""

    @property
    def loud_fraction(self) -> float:
        """rho, all that an accountant must know beside epsilon: see `sottovoce.privacy.events`."""

    def reports(
        self,
        V: NDArray[np.float32],
        X: NDArray[np.float32],
        histories: Histories,
        words: NDArray[np.uint64],
    ) -> NDArray[np.uint32]:
        """N x k reports of N users with vectors X, from N x (k + 1) x 4 random words."""

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """The server's M x F estimate of the mean gradient, from the sums of signs by index."""


def check_directions(n_directions: int) -> None:
    """Refuse a model whose directions do not fit a report."""
    if n_directions > MAX_DIRECTIONS:
        raise SettingsError(
            f"{n_directions} directions do not fit a four-byte report (at most {MAX_DIRECTIONS}): "
            "use fewer items or factors"
        )


def check_finite(values: NDArray[Any], what: str) -> None:
    """No NaN or infinity becomes a report: Algorithm 1 would give it an infinite epsilon."""
    if not np.isfinite(values).all():
        raise NotFiniteError(f"{what} is not finite; nothing is reported")


def pack(index: NDArray[np.integer], plus: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """`index << 1 | bit`."""
    return (index.astype(np.uint32) << np.uint32(1)) | plus.astype(np.uint32)


def sum_signs(reports: NDArray[np.uint32], n_directions: int) -> NDArray[np.int64]:
    """The sum of +-1 by index: all that a server keeps of its reports."""
    flat = reports.ravel()
    plus = np.bincount(flat[flat & 1 == 1] >> 1, minlength=n_directions)
    minus = np.bincount(flat[flat & 1 == 0] >> 1, minlength=n_directions)
    if len(plus) > n_directions or len(minus) > n_directions:
        raise SettingsError(f"a report names a direction beyond {n_directions - 1}")
    return (plus - minus).astype(np.int64)
