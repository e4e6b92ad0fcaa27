"""The registry of mechanisms. docs/extending.md shows how to add one."""

import re
from typing import TypeVar

from sottovoce.core.coordinate import Coordinate
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Mechanism
from sottovoce.core.named import Named
from sottovoce.errors import SettingsError

# Type of a registered class. With it, type checkers know that `register` returns its argument.
Kind = TypeVar("Kind", bound=type[Mechanism])

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Coordinate, Loudest, Named)}
_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,31}")


def get_mechanism(name: str) -> type[Mechanism]:
    """Return the mechanism of this name, or raise SettingsError."""
    # A list, because a name from a file may be unhashable.
    if name not in list(MECHANISMS):
        names = ", ".join(MECHANISMS)
        raise SettingsError(
            f"mechanism must be one of {names}; got {name!r:.80}", setting="mechanism"
        )
    return MECHANISMS[name]


def register(kind: Kind) -> Kind:
    """Register your own mechanism in this process; also usable as a decorator.

    The mechanism runs on the reference engine. Its author must prove that it is eps-LDP.

    Args:
        kind: A subclass of `Mechanism` with a name that no other mechanism has.

    Raises:
        SettingsError: The class, its name or one of its options is invalid.
    """
    candidate: object = kind  # callers may ignore the type annotation
    if not (isinstance(candidate, type) and issubclass(candidate, Mechanism)):
        raise SettingsError(f"a mechanism must be a subclass of Mechanism, got {candidate!r:.80}")
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise SettingsError(f"the mechanism {kind.__name__} must define {', '.join(missing)}")
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and _NAME_PATTERN.fullmatch(name)):
        raise SettingsError(
            f"the name of {kind.__name__} must be lowercase letters, digits and _, at most 32 "
            f"characters and first a letter; got {name!r:.80}"
        )
    if MECHANISMS.get(name, kind) is not kind:
        raise SettingsError(f"there is a mechanism {name!r} already: choose another name")
    # The manifest carries whole numbers only.
    options = kind.options().items()
    invalid = [option_name for option_name, option in options if option.kind is not int]
    if invalid:
        raise SettingsError(
            f"all options of the mechanism {name!r} must be whole numbers (int): change "
            f"{', '.join(invalid)}"
        )
    MECHANISMS[name] = kind
    return kind
