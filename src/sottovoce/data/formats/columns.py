"""Which column of a table is the user, the item, the rating and the timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("user", "userid", "uid", "customer", "customerid", "viewer", "viewerid"),
    "item": ("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
    "rating": ("rating", "ratings", "score", "stars"),
    "timestamp": ("timestamp", "time", "ts", "unixtime", "date", "datetime"),
}
"""Names that are recognised, whatever their case, with or without `_`, `-`, `.` and spaces."""
_NEEDED = ("user", "item")


def roles_of(
    names: Sequence[str], columns: Mapping[str, str] | None, path: str
) -> tuple[str | None, ...]:
    """The role of each column, None where it has none.

    >>> roles_of(["userId", "movieId", "note"], None, "x.csv")
    ('user', 'item', None)
    """
    given = dict(columns or {})
    if unknown := sorted(set(given) - set(ALIASES)):
        raise DataError(f"columns can name {', '.join(ALIASES)}, not {', '.join(unknown)}")
    place = {role: _place(role, names, given.get(role), path) for role in ALIASES}
    if missing := [role for role in _NEEDED if place[role] is None]:
        raise DataError(
            f"no column for the {' and the '.join(missing)}; the columns are "
            f"{', '.join(map(repr, names))}. Name it {_names_for(missing)}, or say which it is "
            "with columns (--columns user=NAME,item=NAME)",
            path=path,
        )
    role_at = {at: role for role, at in place.items() if at is not None}
    if len(role_at) < sum(at is not None for at in place.values()):
        raise DataError("the same column was given for two purposes", path=path)
    return tuple(role_at.get(at) for at in range(len(names)))


def _names_for(roles: list[str]) -> str:
    return " and ".join(" / ".join(ALIASES[role]) for role in roles)


def parse_columns(text: str | None, example: str = "user=NAME,item=NAME") -> dict[str, str] | None:
    """What the command line takes: `user=who,item=what`, or None, which stays so.

    >>> parse_columns("user=who, item=what")
    {'user': 'who', 'item': 'what'}
    """
    if text is None:
        return None
    named: dict[str, str] = {}
    for role, _, name in (map(str.strip, part.partition("=")) for part in text.split(",")):
        if not role or not name:
            raise DataError(f"columns must look like {example!r}, found {text!r}")
        if role in named:
            both = f"{role}={named[role]} and {role}={name}"
            raise DataError(f"columns name the {role} twice, {both}: say one of them")
        named[role] = name
    return named


def _place(role: str, names: Sequence[str], given: str | None, path: str) -> int | None:
    if given is not None:
        matches = [at for at, name in enumerate(names) if name == given]
        if not matches:
            raise DataError(
                f"there is no column {given!r}; the columns are {', '.join(map(repr, names))}",
                path=path,
            )
    else:
        matches = [at for at, name in enumerate(names) if _plain(name) in ALIASES[role]]
    if len(matches) > 1:
        several = ", ".join(repr(names[at]) for at in matches)
        raise DataError(f"{several} could each be the {role}; say which with columns", path=path)
    return matches[0] if matches else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in "_-. ")
