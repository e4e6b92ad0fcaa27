"""When a device takes part and when it sends, decided by its own coins before any history is read.

What an observer sees (whether a device takes part, and the moment of sending) depends only on
public numbers and on these coins. A longer history takes longer to compute with, so that the moment
of sending leaves time for the longest one, and a batch that is ready earlier waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from sottovoce.protocol import Manifest

# Returns this number of random bytes, as `os.urandom` does.
Entropy = Callable[[int], bytes]
# Devices spread what they send over this time, or over what is left of the epoch.
MAX_JITTER_SECONDS = 3_600.0
# More than the lead of any number of items and factors. A batch that an earlier process left and
# that would wait longer was made before the clock was set back: it is sent at once.
MAX_LEAD_SECONDS = 1_200.0
# A sync begins at a multiple of this time of the clock. Its first request must not show how long
# the application took for what it did before, such as recommending.
SYNC_GRID_SECONDS = 10.0
# A sync takes its lock and reads what it needs this long before a moment, so that nothing but the
# network lies between the moment and the request.
PREPARATION_SECONDS = 5.0
# Longest time from asking for a token to the answer. A proxy that could keep one token back until
# all others are spent would recognise the last batch.
MAX_TOKEN_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class EpochPlan:
    """What the coins decided about one epoch."""

    epoch: int
    takes_part: bool
    send_at: float


def draw_plan(
    manifest: Manifest, turns_left: int, now: float, jitter: float, entropy: Entropy
) -> EpochPlan:
    """Draw whether to take part and when to send."""
    # Always two coins, whatever the chance is.
    takes_part = draw_uniform(entropy) < compute_chance(manifest, turns_left)
    step = compute_lead(manifest) if jitter else 0.0
    earliest = now + step
    until = manifest.closes if earliest + step < manifest.closes else manifest.ends
    span = max(min(jitter, until - step - earliest), 0.0)
    return EpochPlan(manifest.epoch, takes_part, earliest + span * draw_uniform(entropy))


def compute_chance(manifest: Manifest, turns_left: int) -> float:
    """Return the probability that a device takes part in this epoch; 1 or more means always.

    It depends on public numbers and on earlier coins, never on the history. In a training that ends
    it is the number of turns left over the number of epochs left, else the share of the terms.
    """
    # With turns over epochs everybody has all of their turns, and every epoch is equally likely.
    # With a constant share of 1/20, one device in three would not have its only turn in 20 epochs.
    # A server that states a wrong `epochs_left` makes devices spend their turns sooner, never more.
    epochs_left = manifest.epochs_left
    return turns_left / epochs_left if epochs_left else manifest.terms.share


def compute_token_chance(manifest: Manifest, turns_left: int) -> float:
    """Return the probability that a device asks for a token for the epoch after this one.

    With accounts this replaces `compute_chance`: a device that has a token takes part.
    """
    if not manifest.epochs_left:
        return manifest.terms.share
    used = int(manifest.public_key is not None)
    return turns_left / max(manifest.epochs_left - used, 1)


def draw_token_moment(manifest: Manifest, now: float, jitter: float, entropy: Entropy) -> float:
    """Draw when to ask for a token: uniformly within the next whole span, counted from `opens`."""
    # The moment must not tell when the same device sends. That one is counted from when the device
    # wakes up; this one has the same distribution for all that wake up in the span before. A device
    # that sends and asks at one time would be recognised, so a sync that sends does not ask.
    span = min(jitter, (manifest.closes - manifest.opens) / 4)
    if not span:
        return now
    return manifest.opens + span * (ceil((now - manifest.opens) / span) + draw_uniform(entropy))


def compute_lead(manifest: Manifest) -> float:
    """Return how many seconds a slow device needs at most to make a batch, from public numbers."""
    # Reading `MAX_HISTORY_ITEMS` items takes less than the 5 seconds, whatever the catalogue has.
    # Every item may have been touched. Each costs F^2 for the normal equations, and as much as 256
    # of these for everything else, such as ranking its row.
    factors, reports = manifest.terms.factors, manifest.terms.reports
    return 5.0 + manifest.items * (factors**2 + 256) / 2**23 + reports / 200


def is_time(manifest: Manifest, now: float, jitter: float) -> bool:
    """Check that a batch begun now can still be sent in time; otherwise it must not be charged."""
    # Two leads: the batch is made within one, and the last one of an epoch is for late devices.
    ready = now + (2 * compute_lead(manifest) if jitter else 0.0)
    return manifest.asks_for_reports(now) and manifest.asks_for_reports(ready)


def delay_by_whole_leads(send_at: float, now: float, manifest: Manifest) -> float:
    """Return `send_at`, or, if it has passed, the next moment that is whole leads later.

    A computation that took too long then shows in steps of seconds, and not in how long it took.
    """
    step = compute_lead(manifest)
    return send_at + step * max(ceil((now - send_at) / step), 0)


def draw_uniform(entropy: Entropy) -> float:
    """Draw a number from [0, 1) with 53 random bits."""
    return (int.from_bytes(entropy(8), "little") >> 11) * 2.0**-53
