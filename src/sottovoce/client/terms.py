"""What a device's owner agreed to, at most; a server cannot ask for more by asking again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import UntrustedError

if TYPE_CHECKING:
    from typing import Self

    from sottovoce.protocol import Manifest


@dataclass(frozen=True)
class Terms:
    """Pinned when a client is created, or from the first manifest that it accepts."""

    mechanism: str
    """How reports are made; another one promises something else."""
    epsilon: float
    """Budget of one report, at most."""
    reports: int
    """Reports in one epoch, at most."""
    least_clients: int
    """Among how many people a report is hidden, at least."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(manifest.mechanism, manifest.epsilon, manifest.reports, manifest.least_clients)

    def broken_by(self, asked: Terms) -> list[str]:
        """In plain words, everything that would be worse for the owner.

        >>> Terms("loudest", 2.5, 4, 100).broken_by(Terms("loudest", 5.0, 4, 100))
        ['the budget of one report would rise from epsilon 2.5 to 5.0']
        """
        worse = []
        if asked.mechanism != self.mechanism:
            worse.append(f"reports would be made by {asked.mechanism}, not by {self.mechanism}")
        if asked.epsilon > self.epsilon:
            worse.append(
                "the budget of one report would rise "
                f"from epsilon {self.epsilon} to {asked.epsilon}"
            )
        if asked.reports > self.reports:
            worse.append(f"an epoch would take {asked.reports} reports, not {self.reports}")
        if asked.least_clients < self.least_clients:
            worse.append(
                f"a report would be hidden among at least {asked.least_clients} people, "
                f"not {self.least_clients}"
            )
        return worse


def agreed(pinned: Terms | None, asked: Terms, *, accept_new: bool) -> Terms:
    """The terms from here on; better ones are taken, but what was agreed to stays the bound."""
    if pinned is None:
        return asked
    worse = pinned.broken_by(asked)
    if not worse:
        return pinned
    if accept_new:
        return asked
    raise UntrustedError(
        f"the server changed its terms: {'; '.join(worse)}. Nothing is sent. If you agree, sync "
        "with accept_new_terms=True (--accept-new-terms)"
    )
