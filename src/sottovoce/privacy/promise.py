"""What a device promises to its owner, from its ledger and the terms and nothing that others say.

Both figures are for everything that was ever charged, in all trainings, and for the turns that are
left under the terms. *Local*: the sum of all epsilons; it holds whatever happens. *Central*: the
bound of `bound.py`, each report in the crowd that was enforced for it, the device itself included.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.privacy.account import DELTA, WEAK_ABOVE, WEAK_CENTRAL_ABOVE, at_most
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.events import Reporting
from sottovoce.privacy.ledger import rounded_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.privacy.ledger import Charge

A_DEVICE = (
    "The promise is for one device, not for one person: what several devices of a person say adds "
    "up."
)


@dataclass(frozen=True)
class Promise:
    """Both figures, and what the second one rests on."""

    local: float
    """Pure epsilon, whatever happens."""
    central: float
    """An upper bound of epsilon at `delta`, in the crowds that were enforced."""
    clients: int
    """The one that the terms enforce."""
    delta: float

    @property
    def weak(self) -> bool:
        """Whether there is nothing to stand on."""
        return self.local > WEAK_ABOVE and self.central > WEAK_CENTRAL_ABOVE

    def sentence(self) -> str:
        """For a person: what is promised, and on what it rests."""
        is_crowd = self.central < self.local
        said = "Both are weak: they protect" if is_crowd else "This is weak: it protects"
        weak = [f"{said} nobody."] if self.weak else []
        return " ".join([self._local(), self._central(), *weak, A_DEVICE])

    def _local(self) -> str:
        return (
            "Whatever happens, even if every report can be traced to this device: any conclusion "
            "from all that it has reported and may still report under these terms is "
            f"{at_most(self.local)}."
        )

    def _central(self) -> str:
        if self.central >= self.local:
            return "The crowd that is asked for adds nothing to this."
        return (
            "If the proxy mixes honestly and does not work together with the server, and in every "
            "epoch at least as many honest devices report as its terms ask for (now "
            f"{self.clients:,}): any conclusion from all that the server sees of this is "
            f"{at_most(self.central, self.delta)}."
        )


def promise(
    left: Reporting | None, clients: int, charges: Sequence[Charge] = (), delta: float = DELTA
) -> Promise:
    """For all that was charged and for what is `left` under the terms, if anything is.

    >>> from sottovoce.privacy import Reporting
    >>> promise(Reporting(5.0, 1, 2, 0.0318), clients=50_000).local
    10.0
    """
    spent = sum((charge.cost for charge in charges), Fraction(0))
    to_come = Fraction(left.epsilon) * left.total if left else 0
    local = rounded_up(spent + to_come)
    groups = _groups([*([Group(left, clients)] if left else []), *map(_group, charges)])
    return Promise(local, min(local, central_bound(groups, delta)), clients, delta)


def _group(charge: Charge) -> Group:
    return Group(Reporting(charge.epsilon, charge.reports, 1, charge.loud_fraction), charge.clients)


def _groups(parts: Iterable[Group]) -> list[Group]:
    """Reports of equal epsilon and rho together, in the least of their crowds.

    A smaller crowd is never better. Reports without any stay apart: they count in full.
    """
    found: dict[tuple[float, float, bool], Group] = {}
    for event, clients in parts:
        kind = event.epsilon, event.loud_fraction, clients > 1
        before = found.get(kind)
        total = event.total + (before.event.total if before else 0)
        least = min(clients, before.clients if before else clients)
        found[kind] = Group(Reporting(event.epsilon, total, 1, event.loud_fraction), least)
    return list(found.values())
