"""What a device decides before it reads its history: steps 5, 8 and 9, and the moment."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.outsider.mechanisms import Terms
from tests.outsider.wire import Manifest

SPREAD = 3600.0
"""Seconds over which batches are spread, at most; 0: the pause is left out, and lead is 0."""


class Charge(NamedTuple):
    """As much of one as decisions depend on."""

    training: str
    epoch: int
    epsilon: float
    reports: int

    @property
    def amount(self) -> Fraction:
        return Fraction(self.epsilon) * self.reports


class EpochPlan(NamedTuple):
    takes_part: bool
    moment: float


def lead(manifest: Manifest, spread: float = SPREAD) -> float:
    items, terms = manifest.fields["items"], manifest.terms
    seconds = 5 + items * (terms["factors"] ** 2 + 256) / 2**23 + terms["reports"] / 200
    return float(seconds) if spread else 0.0


def is_time(manifest: Manifest, now: float, spread: float = SPREAD) -> bool:
    opens, is_asked = float(manifest.fields["opens"]), manifest.fields["public_key"] is not None
    return is_asked and opens <= now and now + 2 * lead(manifest, spread) < manifest.end


def turns(terms: Terms, charged: Sequence[Charge]) -> int:
    """Epochs in which this training may still ask the device to take part."""
    own = [charge for charge in charged if charge.training == terms["training"]]
    return max(int(terms["epochs"]) - len(own), 0)


def chance(manifest: Manifest, charged: Sequence[Charge]) -> float:
    terms, epochs_left = manifest.terms, int(manifest.fields["epochs_left"])
    return float(turns(terms, charged) / epochs_left if epochs_left else terms["share"])


def draw(
    manifest: Manifest,
    charged: Sequence[Charge],
    now: float,
    spread: float,
    word: Callable[[], int],
) -> EpochPlan:
    takes_part = _uniform(word()) < chance(manifest, charged)
    step, closes = lead(manifest, spread), manifest.fields["closes"]
    earliest = now + step
    until = closes if earliest + step < closes else manifest.end
    span = max(0.0, min(spread, until - step - earliest))
    return EpochPlan(takes_part, earliest + _uniform(word()) * span)


def _uniform(word: int) -> float:
    return (word >> 11) * 2.0**-53


def leads_later(moment: float, now: float, step: float) -> float:
    """Return the moment or, if it is over, the next one that is a whole number of leads later."""
    return moment + max(0, math.ceil((now - moment) / step)) * step if step else now
