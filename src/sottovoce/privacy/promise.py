"""What a device promises to its owner, computed from the terms and from nothing that others say.

*Local*: `T k eps` of a whole lifetime under the terms; it holds whatever happens. *Central*: the
bound of `bound.py` at the crowd that the terms enforce, the device itself included.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from sottovoce.privacy.account import DELTA, WEAK_ABOVE, WEAK_CENTRAL_ABOVE, up
from sottovoce.privacy.bound import Group, central_bound

if TYPE_CHECKING:
    from sottovoce.privacy.events import Reporting

A_DEVICE = (
    "The promise is for one device, not for one person: what several devices of a person say adds "
    "up."
)


@dataclass(frozen=True)
class Promise:
    """Both figures of a lifetime, and what the second one rests on."""

    local: float
    """Pure epsilon, whatever happens."""
    central: float
    """An upper bound of epsilon at `delta`, among so many honest `clients`."""
    clients: int
    delta: float

    @property
    def weak(self) -> bool:
        """Whether there is nothing to stand on."""
        return self.local > WEAK_ABOVE and self.central > WEAK_CENTRAL_ABOVE

    def sentence(self) -> str:
        """For a person: what is promised, and on what it rests."""
        weak = ["Both are weak: they protect nobody."] if self.weak else []
        return " ".join([self._local(), self._central(), *weak, A_DEVICE])

    def _local(self) -> str:
        return (
            "Whatever happens, even if every report can be traced to this device: all that it ever "
            f"reports is at most {_times(self.local)} likelier than with any other history."
        )

    def _central(self) -> str:
        if self.central >= self.local:
            return "The crowd that is asked for adds nothing to this."
        return (
            "If the proxy mixes honestly and does not work together with the server, and at least "
            f"{self.clients:,} honest devices report in every epoch: all that the server sees is "
            f"at most {_times(self.central)} likelier than with any other history, but for a "
            f"chance of one in {1 / self.delta:,.0f}."
        )


def promise(event: Reporting, clients: int, delta: float = DELTA) -> Promise:
    """For all that a device ever reports under its terms, in a crowd of at least so many.

    >>> from sottovoce.privacy import Reporting
    >>> promise(Reporting(5.0, 1, 2, 0.0318), clients=50_000).local
    10.0
    """
    return Promise(event.pure, central_bound([Group(event, clients)], delta), clients, delta)


def _times(epsilon: float) -> str:
    """`e^0.428 (1.54) times`, both rounded up; a number that nobody can picture is left out."""
    power = up(epsilon, 3)
    pictured = f" ({up(exp(epsilon), 3):,.6g})" if epsilon < WEAK_CENTRAL_ABOVE else ""
    return f"e^{power:g}{pictured} times"
