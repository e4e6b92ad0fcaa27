"""Everything that one training fixes: frozen, checked once, the same words on every surface."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.mechanism.base import Shape
from sottovoce.mechanism.coin import checked_epsilon
from sottovoce.mechanism.coordinate import Coordinate
from sottovoce.mechanism.hadamard import Hadamard
from sottovoce.mechanism.loudest import Loudest
from sottovoce.mechanism.registry import MECHANISMS
from sottovoce.privacy import Reporting

if TYPE_CHECKING:
    from typing import Any

    from sottovoce.mechanism.base import Mechanism


@dataclass(frozen=True)
class Settings:
    """One training. `Settings.preset(mechanism)` gives that mechanism's defaults."""

    mechanism: str = "loudest"
    epsilon: float = 2.5
    """Budget of one report."""
    reports: int = 100
    """k: reports of one person in one epoch."""
    epochs: int = 20
    """T."""
    factors: int = 5
    """F."""
    alpha: float = 1.0
    """Confidence in a touched item is 1 + alpha, in any other 1."""
    regularization: float = 1e-6
    """lambda."""
    learning_rate: float = 100.0
    """Step on the unbiased mean; see `rate`."""
    steps: int = 1
    """Steps an epoch, all over the same reports."""
    rate_grows_with_reports: bool = False
    """The paper averages over users where it should over reports: its step is k times larger."""
    initial_scale: float = 1e-3
    """Standard deviation of the first V."""
    head_start: float = 1.0
    """The first factor starts as this constant times `initial_scale`; 0 starts it at random."""
    rotate: bool = True
    """Whether the server turns V to a fresh basis of the factors after every epoch."""
    loud: int = 0
    """`loudest` only: how many signed rows are loud; 0 is the best number for this epsilon."""
    seed: int = 0
    """Of the first V, the public directions and, in a simulation, everybody's reports."""

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise SettingsError(f"mechanism must be one of {known}; got {self.mechanism!r}")
        checked_epsilon(self.epsilon)
        for name in ("reports", "epochs", "factors", "steps"):
            _check_at_least(name, getattr(self, name), 1)
        _check_at_least("loud", self.loud, 0)
        _check_at_least("seed", self.seed, 0)
        for name in ("alpha", "regularization", "head_start"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise SettingsError(f"{name} must be finite and not negative, got {value}")
        for name in ("learning_rate", "initial_scale"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise SettingsError(f"{name} must be finite and positive, got {value}")
        if self.loud and self.mechanism != "loudest":
            raise SettingsError(f"loud is a setting of 'loudest', not of {self.mechanism!r}")

    @classmethod
    def preset(cls, mechanism: str, **changes: Any) -> Settings:
        """A mechanism's defaults with some fields changed; None leaves the default.

        >>> Settings.preset("coordinate").steps
        20
        """
        if mechanism not in PRESETS:
            raise SettingsError(f"no preset {mechanism!r}; there are {', '.join(PRESETS)}")
        known = {field.name for field in fields(cls)}
        unknown = set(changes) - known
        if unknown:
            raise SettingsError(f"no such setting: {', '.join(sorted(unknown))}")
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(PRESETS[mechanism], **given)

    @property
    def rate(self) -> float:
        """What `update` is given."""
        return self.learning_rate * (self.reports if self.rate_grows_with_reports else 1)

    def build(self, n_items: int) -> Mechanism:
        """The mechanism, for a catalogue of this size."""
        shape = Shape(n_items, self.factors, self.alpha)
        if self.mechanism == "coordinate":
            return Coordinate(shape, self.epsilon)
        if self.mechanism == "hadamard":
            return Hadamard(shape, self.epsilon, self.seed)
        return Loudest(shape, self.epsilon, self.seed, self.loud)

    def event(self, n_items: int) -> Reporting:
        """What a training does to each person, for the accountant."""
        rho = self.build(n_items).loud_fraction
        return Reporting(self.epsilon, self.reports, self.epochs, rho)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _check_at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingsError(f"{name} must be a whole number of at least {least}, got {value!r}")


PAPER = Settings(
    mechanism="coordinate",
    learning_rate=1e-3,
    steps=20,
    rate_grows_with_reports=True,
    initial_scale=0.01,
    head_start=0.0,
    rotate=False,
)
"""The paper's system: gamma 1e-3, 20 steps an epoch over the same reports, lambda 1e-6, F 5."""

PRESETS = {
    "paper": PAPER,
    "coordinate": PAPER,
    "hadamard": Settings(mechanism="hadamard"),
    "loudest": Settings(mechanism="loudest"),
    "strong": Settings(epsilon=5.0, reports=1, epochs=2, factors=1, alpha=4.0),
}
"""`strong`: two reports in a lifetime, a local budget of 10; see docs/privacy.md for the choice."""
