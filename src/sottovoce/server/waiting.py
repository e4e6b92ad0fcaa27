"""What an epoch waits for before it is closed, and before it is applied.

Workers ask whether to go on, and `sottovoce server status` asks what is still missing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NEVER, CROWD_SHORT
from sottovoce.server.settings import ServerSettings
from sottovoce.server.transaction import CLOSED, OPEN, Epoch, Transaction

# A closed epoch waits for at most this many times `grace_seconds`. Otherwise an attacker's proxy
# could hold it for ever by sending one chunk at a time.
MAX_GRACE_PERIODS = 10


@dataclass(frozen=True)
class EpochWait:
    """What an epoch waits for."""

    is_over: bool
    """Whether the epoch can be closed or applied now."""
    since: float
    """Unix seconds since when it waits without anything new from the proxies."""
    until: float
    """Unix seconds when it stops waiting in any case."""
    short: tuple[str, ...] = ()
    """Proxies with batches of too few people."""
    silent: tuple[str, ...] = ()
    """Proxies that have not reported a crowd (open epoch) or not handed in all (closed epoch)."""
    has_crowd: bool = True
    """Whether at least one proxy has enough people."""


def get_epoch_wait(
    transaction: Transaction, epoch: Epoch, settings: ServerSettings, now: float
) -> EpochWait | None:
    """Return what an epoch waits for; None if it is applied."""
    if epoch.state == OPEN:
        return _get_crowd_wait(epoch, transaction.get_crowds(epoch.epoch), settings, now)
    if epoch.state == CLOSED:
        committed = transaction.list_committed(epoch.epoch)
        count_times = transaction.get_count_times(epoch.epoch)
        return _get_report_wait(epoch, committed, count_times, settings, now)
    return None


def _get_crowd_wait(
    epoch: Epoch, crowds: Mapping[str, str], settings: ServerSettings, now: float
) -> EpochWait:
    """Return what an open epoch waits for.

    The epoch is never closed before `closes`. After that it is closed as soon as some proxy has a
    crowd and no proxy has too few people, and at `ends` in any case.
    """
    short = tuple(name for name in settings.proxies if crowds.get(name) == CROWD_SHORT)
    silent = tuple(name for name in settings.proxies if name not in crowds)
    has_crowd = any(crowds.get(name) == CROWD_ENOUGH for name in settings.proxies)
    # A silent proxy may have too few people, or be down, so the epoch waits for it, but not long.
    waits_for_silent = bool(silent) and now < epoch.closes + settings.grace_seconds
    is_hopeless = all(crowds.get(name) == CROWD_NEVER for name in settings.proxies)
    is_complete = (has_crowd or is_hopeless) and not short and not waits_for_silent
    is_over = now >= epoch.closes and (is_complete or now >= epoch.ends)
    return EpochWait(is_over, epoch.closes, epoch.ends, short, silent, has_crowd)


def _get_report_wait(
    epoch: Epoch,
    committed: Collection[str],
    count_times: Mapping[str, float],
    settings: ServerSettings,
    now: float,
) -> EpochWait:
    """Return what a closed epoch waits for.

    It is applied as soon as every proxy has handed in everything, or after the grace period.

    Args:
        epoch: The epoch.
        committed: Names of the proxies that have handed in everything.
        count_times: Unix seconds when the last chunk of each proxy was counted, by its name.
        settings: The settings of the server.
        now: Unix seconds.
    """
    closed, grace = epoch.closed_at or 0.0, settings.grace_seconds
    # The grace period begins again with every chunk, so that a large epoch can arrive completely.
    news = {name: max(count_times.get(name, closed), closed) for name in settings.proxies}
    silent = tuple(name for name in settings.proxies if name not in committed)
    latest = max((news[name] for name in silent), default=closed)
    until = min(latest + grace, closed + MAX_GRACE_PERIODS * grace)
    since = min(news[name] for name in silent) if silent else max(news.values())
    return EpochWait(not silent or now >= until, since, until, silent=silent)
