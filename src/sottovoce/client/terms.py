"""What a device's owner agreed to, at most; a server cannot ask for more by asking again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import UntrustedError

if TYPE_CHECKING:
    from sottovoce.privacy import Charge
    from sottovoce.protocol import Terms


class TermsError(UntrustedError):
    """The server asks for more than the owner accepted. Nothing is sent unless they accept it."""

    def __init__(self, worse: list[str], asked: Terms):
        super().__init__(
            f"the server changed its terms: {'; '.join(worse)}. Nothing is sent. `sottovoce client "
            "terms` shows them, and how to accept them"
        )
        self.worse = worse
        """In plain words, everything that would be worse."""
        self.asked = asked
        """What `Client.accept` must be given if they say yes: these very terms, no later ones."""


def check_terms(accepted: Terms | None, asked: Terms) -> None:
    """Refuse whatever is worse. Whoever has not been asked yet has nothing that could be broken."""
    worse = [] if accepted is None else accepted.broken_by(asked)
    if worse:
        raise TermsError(worse, asked)


def is_too_soon(terms: Terms, charges: list[Charge], now: float) -> bool:
    """Whether another batch now would be one too many in the window, or too close to the last.

    A clock that was set back makes a device wait, never hurry.
    """
    recent = [each for each in charges if each.at > now - terms.window_seconds]
    close = [each for each in charges if each.at > now - terms.interval]
    return len(recent) >= terms.window_epochs or bool(close)
