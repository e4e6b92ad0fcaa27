"""At every epsilon the most reports that fit a budget: what there is to choose from.

The quality of an estimate grows with the number of reports times the square of what one report
carries (its gain): the server averages unit gradients in noise of fixed size. So of all ways to
spend a budget, the one with the most `reports * gain^2` is the one to take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sottovoce.errors import SettingsError
from sottovoce.mechanism import Shape, mechanism_named
from sottovoce.privacy import Crowd, Reporting, central_epsilon, gaussian_mu, mu_within

if TYPE_CHECKING:
    from collections.abc import Sequence

View = Literal["local", "central"]
EPSILONS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 10 / 3, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class Option:
    """One way to spend a budget."""

    mechanism: str
    epsilon: float
    reports: int
    """In all: k T. How they are shared out over epochs costs nothing more."""
    gain: float
    local: float
    """T k eps."""
    central: float | None

    @property
    def signal(self) -> float:
        """`reports * gain^2`, of one person."""
        return self.reports * self.gain**2


def options(
    mechanism: str,
    target: float,
    view: View,
    clients: int | None,
    delta: float,
    items: int,
    epsilons: Sequence[float] = EPSILONS,
) -> list[Option]:
    """The most reports that fit the target at each epsilon, best signal first."""
    if not target > 0:
        raise SettingsError(f"the target epsilon must be positive, got {target}")
    if view == "central" and clients is None:
        raise SettingsError("a central target needs the number of clients in an epoch")
    crowd = None if clients is None else Crowd(clients)
    found, kind = [], mechanism_named(mechanism)
    for epsilon in epsilons:
        built = kind.build(Shape(items, 1, 1.0), epsilon, 0, {})
        rho = built.loud_fraction
        most = most_reports(epsilon, rho, target, view, crowd, delta)
        if most:
            event = Reporting(epsilon, most, 1, rho)
            central = None if crowd is None else central_epsilon(event, crowd, delta)
            found.append(Option(mechanism, epsilon, most, built.gain, event.pure, central))
    return sorted(found, key=lambda option: -option.signal)


def most_reports(
    epsilon: float, rho: float, target: float, view: View, crowd: Crowd | None, delta: float
) -> int:
    """The largest number of reports whose budget stays within the target."""
    if view == "local":
        return int(target / epsilon * (1 + 1e-12))
    assert crowd is not None

    def spent(reports: int) -> float:
        return central_epsilon(Reporting(epsilon, reports, 1, rho), crowd, delta)

    if spent(1) > target:
        return 0
    one = gaussian_mu(Reporting(epsilon, 1, 1, rho), crowd.honest)
    guess = max(1, int((mu_within(target, delta) / one) ** 2))
    low, high = 1, max(2, guess)
    while spent(high) <= target:
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= target else (low, middle)
    return low
