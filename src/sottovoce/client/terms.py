"""What a device's owner agreed to, at most; a server cannot ask for more by asking again."""

from __future__ import annotations

from sottovoce.errors import UntrustedError
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
