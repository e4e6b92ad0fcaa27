"""Which mechanisms there are. A further one of ours is a file beside this and a name in this list.

One from outside calls `register`, or its package names it as an entry point:

    [project.entry-points."sottovoce.mechanisms"]
    whisper = "my_package.whisper:Whisper"
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TypeVar

from sottovoce.errors import SettingsError
from sottovoce.mechanism.base import Mechanism
from sottovoce.mechanism.checking import check_kind
from sottovoce.mechanism.coordinate import Coordinate
from sottovoce.mechanism.loudest import Loudest

Kind = TypeVar("Kind", bound=type[Mechanism])

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Coordinate, Loudest)}
ENTRY_POINTS = "sottovoce.mechanisms"


def mechanism_named(name: str) -> type[Mechanism]:
    if name not in list(MECHANISMS):  # a list: what is asked for may be anything
        register_installed()
    if name not in list(MECHANISMS):
        known = ", ".join(MECHANISMS)
        raise SettingsError(f"mechanism must be one of {known}; got {name!r:.80}")
    return MECHANISMS[name]


def register(kind: Kind) -> Kind:
    """Make a mechanism from outside known by its name, everywhere; a decorator, if you like.

    Its kernel for the cpu engine is the module that its `kernel` names with dots. Without one it
    runs on the reference engine. What can be checked is, before anything knows of it.
    """
    if kind in MECHANISMS.values():
        return kind
    check_kind(kind, MECHANISMS)
    MECHANISMS[kind.name] = kind
    return kind


def register_installed() -> None:
    """Register what installed packages bring; one that cannot be loaded is named."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found = entry.load()
        except (ImportError, AttributeError) as error:
            raise SettingsError(
                f"the mechanism {entry.name!r} of an installed package ({entry.value}) cannot be "
                f"loaded: {error}"
            ) from error
        register(found)
