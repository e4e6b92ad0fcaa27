"""Events: what was reported about a person. The accountant sees these and never a mechanism.

Reports of all mechanisms have one form. There is a public set of S signed
directions. The person's history makes rho * S of them *loud*; a report is a uniform direction with
probability gamma, else a uniform loud one. `coordinate` is the case rho = 1/2: at each index one of
the two signs is loud. gamma = 1 / (1 + rho (e^eps - 1)) makes it eps-LDP.
"""

from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.settings import Setting

# The delta of figures unless a caller chooses another one.
DEFAULT_DELTA = 1e-6
# The loud fraction of reports that are one sign, randomised by the coin.
COIN_RHO = 0.5
# Where dummies hide people, a manifest makes at least this share of the stated directions loud. It
# cannot always make all of them loud: their number is rounded down, and depends on that of items.
MIN_LOUD_RATIO = 0.9
# The largest number of people, of one person's reports and of dummies; more must be a mistake.
MAX_COUNT = 10**30


@dataclass(frozen=True)
class Reporting:
    """One person's part in a training, and the dummies that hide it even without other people.

    >>> Reporting(epsilon=2.5, reports=100, epochs=20).pure
    5000.0
    """

    epsilon: float
    """Epsilon of one report."""
    reports: int
    """k: the number of reports of one person in one epoch."""
    epochs: int
    """The number of epochs in which one person takes part."""
    loud_fraction: float = COIN_RHO
    """rho: the largest share of signed directions that a history makes loud. Where there are
    dummies, the actual share is at least `MIN_LOUD_RATIO` of this."""
    dummies: int = 0
    """D: uniform reports that an honest proxy adds to each epoch."""

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise SettingsError(f"epsilon must be positive and finite, got {self.epsilon}")
        for name, minimum in (("reports", 1), ("epochs", 1), ("dummies", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise SettingsError(
                    f"{name} must be a whole number of at least {minimum}, got {value!r}"
                )
        if max(self.total, self.dummies) > MAX_COUNT:
            raise SettingsError("one person's reports, and dummies, must be at most 10^30 in all")
        if not 0 < self.loud_fraction <= COIN_RHO:
            raise SettingsError(
                f"loud_fraction must be above 0 and at most 0.5, got {self.loud_fraction}"
            )

    @property
    def total(self) -> int:
        """The number of reports in the whole training."""
        return self.reports * self.epochs

    @property
    def pure(self) -> float:
        """The epsilon of the whole training by pure composition: T k eps."""
        return self.epsilon * self.total

    @property
    def blanket(self) -> float:
        """gamma: the probability that a report does not depend on the data."""
        return 1 / (1 + self.loud_fraction * (exp(self.epsilon) - 1))

    @property
    def cover(self) -> int:
        """The number of dummies that hide each report of a person; a dummy hides only one."""
        return self.dummies // self.reports

    @property
    def dummy_share(self) -> float:
        """d: the probability with which each dummy counts (docs/privacy.md, step 6)."""
        # At least gamma at this rho over gamma at the smallest rho that is allowed: a bound with
        # this share holds for every rho between the two.
        return MIN_LOUD_RATIO + (1 - MIN_LOUD_RATIO) * self.blanket

    def one_epoch(self) -> Self:
        """Return the part that ends after the first epoch."""
        return replace(self, epochs=1)

    def one_report(self) -> Self:
        """Return the part that ends after the first report."""
        return replace(self, reports=1, epochs=1, dummies=self.cover)


def check_delta(delta: float) -> float:
    """Return delta as a float, or raise a `SettingsError` unless it is between 0 and 1."""
    number: float = Setting("delta", float).check_value(delta)
    if not 0 < number < 1:
        raise SettingsError(f"delta must be above 0 and below 1, got {delta}")
    return number
