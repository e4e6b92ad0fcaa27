"""Defences of a server against attackers."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.streams import stream

# - "caps": a direction counts at most as often as honest people would report it.
# - "rows": caps, and no item moves much farther than the others. The live server has this.
# - "medians": the median estimate of sub-crowds counts.
Defence = Literal["none", "caps", "rows", "medians"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
DEFENCES_WITH_CAPS: tuple[Defence, ...] = ("caps", "rows")
# Number of sub-crowds of the defence "medians".
SUB_CROWD_COUNT = 5


def assign_sub_crowds(people: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the sub-crowd of each person in an epoch; sub-crowds have equal sizes."""
    # A proxy would have to draw the sub-crowds, because a server cannot tell which reports are from
    # the same person.
    chance = stream(seed, "group", epoch)
    return chance.permutation(np.arange(people) % SUB_CROWD_COUNT)
