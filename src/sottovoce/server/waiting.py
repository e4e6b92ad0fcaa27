"""What an epoch waits for before it is closed, and before it is applied: the one rule for both.

Workers ask it whether to go on, and `sottovoce server status` what is still missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.protocol.crowd import ENOUGH, SHORT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Epoch

LONGEST = 10
"""Times the grace: a closed epoch waits no longer, however many chunks still come.

Otherwise a proxy that lies could hold it for ever, with one chunk at a time.
"""


@dataclass(frozen=True)
class Waiting:
    is_over: bool
    """Whether to go on now."""
    since: float
    """When there was news last."""
    until: float
    """From then on it waits for nobody."""
    short: tuple[str, ...] = ()
    """Proxies that have people, and too few to mix."""
    silent: tuple[str, ...] = ()
    """Proxies that have said nothing, or have not handed in what they have."""
    has_crowd: bool = True
    """Whether some proxy has enough people."""


def for_crowds(
    epoch: Epoch, told: Mapping[str, str], settings: ServerSettings, now: float
) -> Waiting:
    """Of an open epoch: never closed before its time, then with the crowd, at the end in any case.

    A proxy that has said nothing yet might be short; one that is down is not waited for long.
    """
    short = tuple(name for name in settings.proxies if told.get(name) == SHORT)
    silent = tuple(name for name in settings.proxies if name not in told)
    has_crowd = any(told.get(name) == ENOUGH for name in settings.proxies)
    patient = bool(silent) and now < epoch.closes + settings.grace_seconds
    complete = has_crowd and not short and not patient
    is_over = now >= epoch.closes and (complete or now >= epoch.ends)
    return Waiting(is_over, epoch.closes, epoch.ends, short, silent, has_crowd)


def for_reports(
    epoch: Epoch,
    committed: Collection[str],
    counted: Mapping[str, float],
    settings: ServerSettings,
    now: float,
) -> Waiting:
    """Of a closed epoch: applied when every proxy has handed in, or the others' grace is over.

    It begins anew with every chunk of theirs: a large epoch is not ended while it comes. `counted`
    is when the last one came.
    """
    closed, grace = epoch.closed_at or 0.0, settings.grace_seconds
    news = {name: max(counted.get(name, closed), closed) for name in settings.proxies}
    silent = tuple(name for name in settings.proxies if name not in committed)
    latest = max((news[name] for name in silent), default=closed)
    until = min(latest + grace, closed + LONGEST * grace)
    since = min(news[name] for name in silent) if silent else max(news.values())
    return Waiting(not silent or now >= until, since, until, silent=silent)
