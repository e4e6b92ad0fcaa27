"""When a device takes part and when it sends: decided by its own coins, before any history is read.

Whatever can be seen from outside (whether it takes part, the moment of sending) is then a function
of public numbers and these coins. Computing takes longer for a longer history, so the moment leaves
time for it, and what is ready earlier waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from sottovoce.protocol import Manifest

Entropy = Callable[[int], bytes]
"""So many random bytes, as `os.urandom`."""
MAX_JITTER_SECONDS = 3_600.0
"""Seconds over which devices spread what they send, or what is left of the epoch."""
MAX_LEAD_SECONDS = 1_200.0
"""Beyond the lead of any shape. A batch that an earlier process left behind and that would have to
wait longer was made before the clock was set back: it waits no more."""
SYNC_GRID_SECONDS = 10.0
"""A sync begins at a multiple of so many seconds of the clock: its first request must not show how
long the application took for what it did before, such as recommending."""
PREPARATION_SECONDS = 5.0
"""Seconds before a moment at which a sync takes its lock and reads what it needs: nothing but the
network lies between the moment and the request."""
MAX_TOKEN_WAIT_SECONDS = 60.0
"""Seconds from asking for a token to its answer. A proxy that could keep one back until all others
are spent would know whose batch comes last."""
_UNIT = 2.0**-53


@dataclass(frozen=True)
class EpochPlan:
    """What the coins said of one epoch."""

    epoch: int
    takes_part: bool
    send_at: float


def draw_plan(
    manifest: Manifest, turns_left: int, now: float, jitter: float, entropy: Entropy
) -> EpochPlan:
    """Whether to take part, and when to send: two coins, whatever the chance."""
    takes_part = draw_uniform(entropy) < compute_chance(manifest, turns_left)
    step = compute_lead(manifest) if jitter else 0.0
    earliest = now + step
    until = manifest.closes if earliest + step < manifest.closes else manifest.ends
    span = max(min(jitter, until - step - earliest), 0.0)
    return EpochPlan(manifest.epoch, takes_part, earliest + span * draw_uniform(entropy))


def compute_chance(manifest: Manifest, turns_left: int) -> float:
    """By which a device takes part in this epoch; from 1 on it does for certain.

    In a training that ends: turns left over epochs left. Then everybody has all of their turns, and
    every epoch is as likely as any other. By a share of 1/20 one device in three would never have
    its only turn in 20 epochs. Without an end: the share of the terms.

    It depends on public numbers and on earlier coins, never on the history. A server that lies
    about `epochs_left` makes devices spend their turns sooner, and never more of them.
    """
    epochs_left = manifest.epochs_left
    return turns_left / epochs_left if epochs_left else manifest.terms.share


def compute_token_chance(manifest: Manifest, turns_left: int) -> float:
    """By which a device asks for a token for the epoch after this one: `chance`, one epoch ahead.

    With accounts that is its coin: a device that has a token takes part.
    """
    if not manifest.epochs_left:
        return manifest.terms.share
    used = int(manifest.public_key is not None)
    return turns_left / max(manifest.epochs_left - used, 1)


def draw_token_moment(manifest: Manifest, now: float, jitter: float, entropy: Entropy) -> float:
    """When to ask for a token: uniform within the next whole span, counted from `opens`.

    It must not tell when the same device sends. That moment is counted from when the device wakes
    up; this one is drawn alike for all who wake up in the span before. A device that sends and asks
    at one time would be known by that, so a sync that sends does not ask.
    """
    span = min(jitter, (manifest.closes - manifest.opens) / 4)
    if not span:
        return now
    return manifest.opens + span * (ceil((now - manifest.opens) / span) + draw_uniform(entropy))


def compute_lead(manifest: Manifest) -> float:
    """Seconds that making a batch takes at most, on a slow device: of public numbers alone.

    Reading a history of `MAX_HISTORY_ITEMS` items is in the first 5, whatever the catalogue has.
    Each item of the catalogue costs F^2 for the normal equations, and as much as 256 of these for
    all else, such as ranking its row. Everything may have been touched.
    """
    factors, reports = manifest.terms.factors, manifest.terms.reports
    return 5.0 + manifest.items * (factors**2 + 256) / 2**23 + reports / 200


def is_time(manifest: Manifest, now: float, jitter: float) -> bool:
    """Whether a batch that is begun now can still be sent in time: only then it may be paid for.

    Two leads: it is made within one, and the last one of an epoch is for devices that are late.
    """
    ready = now + (2 * compute_lead(manifest) if jitter else 0.0)
    return manifest.asks_for_reports(now) and manifest.asks_for_reports(ready)


def delay_by_whole_leads(send_at: float, now: float, manifest: Manifest) -> float:
    """The moment itself, or, where it is over, the next one that is whole `lead`s later.

    So a computation that took too long shows in steps of seconds and never in how long it took.
    """
    step = compute_lead(manifest)
    return send_at + step * max(ceil((now - send_at) / step), 0)


def draw_uniform(entropy: Entropy) -> float:
    """In [0, 1)."""
    return (int.from_bytes(entropy(8), "little") >> 11) * _UNIT
