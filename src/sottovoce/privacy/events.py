"""The facts about one person's reports that decide how private a training is.

The accounting needs only these facts and not the mechanism that makes the reports, because the
reports of all mechanisms have the same form. There is a public set of S signed directions. The
history of a person makes rho * S of them *loud*. A report names one direction: with probability
gamma it is drawn uniformly from all S, otherwise uniformly from the loud ones. In the mechanism
`coordinate`, rho is 1/2: each entry of the item matrix has two directions, plus and minus, and one
of them is loud. With gamma = 1 / (1 + rho (e^eps - 1)), a report is eps-LDP (locally differentially
private).
"""

from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.settings import Setting

# The delta of privacy figures, unless the caller chooses another one.
DEFAULT_DELTA = 1e-6
# rho of `coordinate`, whose reports are one sign that a coin may flip.
COIN_RHO = 0.5
# In a training with dummies, at least this share of the rho * S directions must be loud. A manifest
# cannot always make all rho * S of them loud: the number of loud directions is rounded down, and S
# depends on the number of items.
MIN_LOUD_RATIO = 0.9
# Upper limit for the number of people, the number of one person's reports and the number of
# dummies. A larger number must be a mistake.
MAX_COUNT = 10**30


@dataclass(frozen=True)
class Reporting:
    """The reports of one person in a training, and the dummies that hide them.

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
    """rho: the largest share of the signed directions that a history makes loud. In a training
    with dummies, the actual share is at least `MIN_LOUD_RATIO` times this."""
    dummies: int = 0
    """The number of dummies, uniformly random reports that an honest proxy adds to each epoch.
    They hide a person even if nobody else takes part."""

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
            raise SettingsError(
                "one person's reports in all epochs must be at most 10^30, and dummies too"
            )
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
        """The epsilon of the whole training by pure composition: `epsilon * total`."""
        return self.epsilon * self.total

    @property
    def blanket(self) -> float:
        """gamma: the probability that a report does not depend on the data."""
        return 1 / (1 + self.loud_fraction * (exp(self.epsilon) - 1))

    @property
    def cover(self) -> int:
        """D: the number of dummies that hide each of a person's reports. A dummy hides only one."""
        return self.dummies // self.reports

    @property
    def dummy_share(self) -> float:
        """d: the probability with which a dummy counts in the bounds (docs/privacy.md, step 6)."""
        # Dummies hide less if the actual rho is smaller than that of the terms. A bound in which
        # they count with probability gamma(rho) / gamma(MIN_LOUD_RATIO * rho) holds for every
        # actual rho from MIN_LOUD_RATIO * rho to rho.
        return MIN_LOUD_RATIO + (1 - MIN_LOUD_RATIO) * self.blanket

    def one_epoch(self) -> Self:
        """Return what the person reports in the first epoch only."""
        return replace(self, epochs=1)

    def one_report(self) -> Self:
        """Return the first report only, with the dummies that hide it."""
        return replace(self, reports=1, epochs=1, dummies=self.cover)


def check_delta(delta: float) -> float:
    """Return delta as a float, or raise a `SettingsError` unless it is between 0 and 1."""
    number: float = Setting("delta", float).check_value(delta)
    if not 0 < number < 1:
        raise SettingsError(f"delta must be above 0 and below 1, got {delta}")
    return number
