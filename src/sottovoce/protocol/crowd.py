"""What a proxy says of the batches that it holds: three words, never a number."""

from __future__ import annotations

from typing import Literal

from sottovoce.errors import ProtocolError
from sottovoce.protocol.strict import shown

Crowd = Literal["none", "short", "enough"]
NONE: Crowd = "none"
SHORT: Crowd = "short"
"""Some, and too few to mix."""
ENOUGH: Crowd = "enough"


def crowd_of(batches: int, least: int) -> Crowd:
    """What to say of so many batches, where `least` of them are a crowd."""
    return ENOUGH if batches >= least else SHORT if batches else NONE


def read_crowd(given: object) -> Crowd:
    for known in (NONE, SHORT, ENOUGH):
        if given == known:
            return known
    raise ProtocolError(f"crowd: one of none, short and enough, not {shown(given)}")
