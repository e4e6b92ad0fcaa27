"""What was done to somebody's data, described: the accountant sees this and never a mechanism.

Every report of ours, whatever the mechanism, has one shape. There is a public set of S signed
directions. The person's history makes rho * S of them *loud*; a report is a uniform direction with
probability gamma, else a uniform loud one. `coordinate` is the case rho = 1/2: at each index one of
the two signs is loud. gamma = 1 / (1 + rho (e^eps - 1)) makes it eps-LDP.
"""

from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.settings import Setting

SIGN = 0.5
"""The loud fraction of a sign through the coin."""
MOST = 10**30
"""Of people, and of one person's reports: a larger number is a slip."""


@dataclass(frozen=True)
class Reporting:
    """One person's part in one training: `reports` of `epsilon` in each of `epochs`.

    And what hides them even if nobody else takes part: the dummies that the proxy mixes in.

    >>> Reporting(epsilon=2.5, reports=100, epochs=20).pure
    5000.0
    """

    epsilon: float
    """Of one report."""
    reports: int
    """Of one person in one epoch (k)."""
    epochs: int
    """In which one person takes part."""
    loud_fraction: float = SIGN
    """rho: the share of signed directions that a history makes loud."""
    dummies: int = 0
    """D: uniform reports that an honest proxy adds to each epoch."""

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise SettingsError(f"epsilon must be positive and finite, got {self.epsilon}")
        for name, least in (("reports", 1), ("epochs", 1), ("dummies", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingsError(
                    f"{name} must be a whole number of at least {least}, got {value!r}"
                )
        if max(self.total, self.dummies) > MOST:
            raise SettingsError("one person's reports, and dummies, must be at most 10^30 in all")
        if not 0 < self.loud_fraction <= SIGN:
            raise SettingsError(
                f"loud_fraction must be above 0 and at most 0.5, got {self.loud_fraction}"
            )

    @property
    def total(self) -> int:
        """Reports in the whole training."""
        return self.reports * self.epochs

    @property
    def pure(self) -> float:
        """`T k eps`: pure composition."""
        return self.epsilon * self.total

    @property
    def blanket(self) -> float:
        """gamma: the chance of a report that has nothing to do with the data."""
        return 1 / (1 + self.loud_fraction * (exp(self.epsilon) - 1))

    @property
    def cover(self) -> int:
        """Dummies among which each report of a person is hidden: each counts for one report."""
        return self.dummies // self.reports

    def one_epoch(self) -> Self:
        """The same, stopped after the first epoch."""
        return replace(self, epochs=1)

    def one_report(self) -> Self:
        """The same, stopped after the first report."""
        return replace(self, reports=1, epochs=1, dummies=self.cover)


def checked_delta(delta: float) -> float:
    """Delta itself, if it can be one."""
    number: float = Setting("delta", float).checked(delta)
    if not 0 < number < 1:
        raise SettingsError(f"delta must be above 0 and below 1, got {delta}")
    return number
