"""Which mechanisms there are. A further one is a file beside this and a name in this list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.mechanism.coordinate import Coordinate
from sottovoce.mechanism.loudest import Loudest

if TYPE_CHECKING:
    from sottovoce.mechanism.base import Mechanism

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Coordinate, Loudest)}


def mechanism_named(name: str) -> type[Mechanism]:
    if name not in list(MECHANISMS):  # a list: what is asked for may be anything
        known = ", ".join(MECHANISMS)
        raise SettingsError(f"mechanism must be one of {known}; got {name!r:.80}")
    return MECHANISMS[name]
