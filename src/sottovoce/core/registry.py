"""Which mechanisms there are. docs/extending.md shows how to add one."""

import re
from typing import TypeVar

from sottovoce.core.coordinate import Coordinate
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Mechanism
from sottovoce.errors import SettingsError

Kind = TypeVar("Kind", bound=type[Mechanism])

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Coordinate, Loudest)}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def mechanism_named(name: str) -> type[Mechanism]:
    if name not in list(MECHANISMS):  # a list: what is asked for may be anything
        known = ", ".join(MECHANISMS)
        raise SettingsError(f"mechanism must be one of {known}; got {name!r:.80}")
    return MECHANISMS[name]


def register(kind: Kind) -> Kind:
    """Make a mechanism of your own known in this process; a decorator, if you like.

    It runs on the reference engine. That it is eps-LDP is for its author to prove.

    Args:
        kind: The class, a subclass of `Mechanism` with a name that no other has.
    """
    given: object = kind  # whatever it is declared to be
    if not (isinstance(given, type) and issubclass(given, Mechanism)):
        raise SettingsError(f"a mechanism must be a subclass of Mechanism, got {given!r:.80}")
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise SettingsError(f"the mechanism {kind.__name__} must have {', '.join(missing)}")
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise SettingsError(
            f"the name of {kind.__name__} must be small letters, digits and _; got {name!r:.80}"
        )
    if MECHANISMS.get(name, kind) is not kind:
        raise SettingsError(f"there is a mechanism {name!r} already: choose another name")
    # The manifest carries whole numbers only.
    others = [option for option, each in kind.options().items() if each.kind is not int]
    if others:
        raise SettingsError(f"{name!r}: {', '.join(others)} must be a whole number (int)")
    MECHANISMS[name] = kind
    return kind
