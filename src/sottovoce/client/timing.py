"""Deciding whether and when a device sends, by random coins, before the history is read.

An observer can see whether a device takes part and when it sends. Both depend only on public
numbers and on the device's coins. Making a batch takes longer for a longer history. So the moment
of sending leaves time enough for the longest history, and a batch that is ready earlier waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from sottovoce.protocol import Manifest

# A function that returns a given number of random bytes, as `os.urandom` does.
Entropy = Callable[[int], bytes]
# Devices send at random moments within this time, or within the rest of the epoch if it is shorter.
MAX_JITTER_SECONDS = 3_600.0
# An upper bound of `compute_lead`. A batch that an earlier process left behind never has to wait
# longer than this, unless the clock was set back since. Then the batch is sent at once.
MAX_LEAD_SECONDS = 1_200.0
# In a training of names, devices send in the last quarter of an epoch, if that is at least as long
# as this. Their moments lie at least this long before the end, so that a device that syncs once a
# day has a sync after its moment.
RESERVED_SECONDS = 86_400.0
# A sync begins when the clock shows a multiple of this. Otherwise the time of the first request
# could reveal how long the application took for its work before, such as recommending.
SYNC_GRID_SECONDS = 10.0
# A sync takes its lock and reads the store this long before the moment of a request, so that the
# request leaves exactly at its moment.
PREPARATION_SECONDS = 5.0
# A token is not used if the proxy took longer than this to issue it. Otherwise a proxy could hold
# one token back until all others were used, and would recognise the batch that comes last.
MAX_TOKEN_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class EpochPlan:
    """The decisions of the coins about one epoch."""

    epoch: int
    takes_part: bool
    """Whether the device reports in this epoch."""
    send_at: float
    """When it sends its batch, in Unix seconds."""


def draw_plan(
    manifest: Manifest, turns_left: int, now: float, jitter: float, entropy: Entropy
) -> EpochPlan:
    """Draw whether to take part in an epoch and when to send.

    Args:
        manifest: The manifest of the epoch.
        turns_left: The number of epochs in which the device may still take part.
        now: The time of day, in Unix seconds.
        jitter: The moment is drawn within this many seconds; 0 sends at once.
        entropy: The source of random bytes.
    """
    # Two random numbers are drawn in every case, even if one of them does not matter.
    takes_part = draw_uniform(entropy) < compute_chance(manifest, turns_left)
    lead = compute_lead(manifest) if jitter else 0.0
    earliest = now + lead
    # An epoch may end at any moment after it closes, if its crowd is large enough. So use the time
    # after it closes only if the time before is too short.
    until = manifest.closes if earliest + lead < manifest.closes else manifest.ends
    # What is touched now is known best at the end of an epoch.
    quarter = (manifest.closes - manifest.opens) / 4
    if jitter and manifest.terms.asks_for_names and quarter >= RESERVED_SECONDS:
        earliest = max(earliest, manifest.closes - quarter)
        jitter = max(jitter, manifest.closes - RESERVED_SECONDS - earliest)
    span = max(min(jitter, until - lead - earliest), 0.0)
    return EpochPlan(manifest.epoch, takes_part, earliest + span * draw_uniform(entropy))


def compute_chance(manifest: Manifest, turns_left: int) -> float:
    """Return the probability that a device takes part in this epoch; 1 or more means always.

    The probability depends on public numbers and on earlier coins, never on the history. In a
    training with an end it is `turns_left` / `epochs_left`; in one without an end it is
    `terms.share`.
    """
    # With turns_left / epochs_left every device takes all of its turns, and all epochs are equally
    # likely. With a constant 1/20 instead, one device in three would not take part in any of 20
    # epochs. A server that states a wrong `epochs_left` can make devices take their turns sooner,
    # but not more turns.
    epochs_left = manifest.epochs_left
    return turns_left / epochs_left if epochs_left else manifest.terms.share


def compute_token_chance(manifest: Manifest, turns_left: int) -> float:
    """Return the probability that a device asks for the token of the next epoch.

    Where reports need an account, this replaces `compute_chance`: a device that has a token takes
    part.

    Args:
        manifest: The manifest of the current epoch.
        turns_left: The number of epochs in which the device may still take part.
    """
    if not manifest.epochs_left:
        return manifest.terms.share
    # `epochs_left` counts the current epoch if that asks for reports. Its tokens were issued
    # before, so the next epoch is one of the others.
    current = int(manifest.public_key is not None)
    return turns_left / max(manifest.epochs_left - current, 1)


def draw_token_moment(manifest: Manifest, now: float, jitter: float, entropy: Entropy) -> float:
    """Draw when to ask for the next epoch's token, in Unix seconds.

    The epoch is divided into spans of equal length from `manifest.opens` on. The moment is drawn
    uniformly from the first span that begins at `now` or later. If `jitter` is 0, it is `now`.
    """
    # The moment must not reveal when the same device sends its batch. The moment of sending depends
    # on when the device wakes up. The moment of asking has the same distribution for all devices
    # that wake up in the same span.
    span = min(jitter, (manifest.closes - manifest.opens) / 4)
    if not span:
        return now
    return manifest.opens + span * (ceil((now - manifest.opens) / span) + draw_uniform(entropy))


def compute_lead(manifest: Manifest) -> float:
    """Return how many seconds a slow device needs at most to make a batch: the lead.

    It depends only on public numbers.
    """
    # The 5 seconds are more than reading `MAX_HISTORY_ITEMS` items takes. The second term assumes
    # that every item of the catalogue was touched: each costs factors^2 operations for the normal
    # equations, and 256 for everything else, such as ranking its row.
    factors, reports = manifest.terms.factors, manifest.terms.reports
    return 5.0 + manifest.items * (factors**2 + 256) / 2**23 + reports / 200


def is_time(manifest: Manifest, now: float, jitter: float) -> bool:
    """Return whether a batch that is begun now can still be sent before the epoch ends."""
    # Making the batch takes at most one lead. The second one is a reserve for devices that are
    # late.
    ready = now + (2 * compute_lead(manifest) if jitter else 0.0)
    return manifest.asks_for_reports(now) and manifest.asks_for_reports(ready)


def delay_by_whole_leads(send_at: float, now: float, manifest: Manifest) -> float:
    """Return `send_at`; if it has passed, return the next moment that is whole leads after it.

    So if a computation takes too long, the moment of sending reveals its duration only in steps of
    one lead.
    """
    lead = compute_lead(manifest)
    return send_at + lead * max(ceil((now - send_at) / lead), 0)


def draw_uniform(entropy: Entropy) -> float:
    """Draw a number from [0, 1) with 53 random bits."""
    return (int.from_bytes(entropy(8), "little") >> 11) * 2.0**-53
