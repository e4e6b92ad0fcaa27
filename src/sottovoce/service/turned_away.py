"""Connections that were not served, counted by reason: no address, no moment, nothing of a request.

So an operator sees an attack, or a cap that is too low for honest people, in the metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from prometheus_client import Counter

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    TurnAway = Callable[["Reason"], None]

Reason = Literal["full", "displaced", "late", "unreadable"]
FULL: Reason = "full"
"""All places were taken by requests that are being worked on."""
DISPLACED: Reason = "displaced"
"""It had sent no complete request, and another took its place."""
LATE: Reason = "late"
"""A header, a body or a handshake did not come in time. Idle connections that end are not late."""
UNREADABLE: Reason = "unreadable"
"""A header that is too large, or no HTTP."""


class TurnedAway:
    """The counter of one service, to be called with each reason."""

    def __init__(self, service: str, registry: CollectorRegistry):
        self._counter = Counter(
            f"sottovoce_{service}_connections_turned_away",
            "Connections that were not served",
            ["reason"],
            registry=registry,
        )
        for reason in get_args(Reason):
            self._counter.labels(reason)

    def __call__(self, reason: Reason) -> None:
        self._counter.labels(reason).inc()


def uncounted(_: Reason) -> None:
    """For a listener that nobody measures."""
