"""How a catalogue changes: items are appended, described anew, retired.

Row i of the item matrix is item i, so whatever is done to the items is done to the rows: those of
items that stay go with them, those of new ones are zero, and are learnt like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Difference:
    """From one catalogue to the next."""

    added: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    """Before and after: another title, or other tags."""
    retired: tuple[Item, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.retired)

    @classmethod
    def between(cls, before: Catalogue, after: Catalogue) -> Difference:
        old, new = _by_id(before.items), _by_id(after.items)
        return cls(
            tuple(item for item in after.items if item.id not in old),
            tuple((old[i], new[i]) for i in old if i in new and old[i] != new[i]),
            tuple(item for item in before.items if item.id not in new),
        )

    def check_retires_few(self, items: int) -> None:
        """At most half of so many: an export that broke off would cost what was learnt of them."""
        if len(self.retired) > items / 2:
            raise SettingsError(
                f"this retires {len(self.retired):,} of the {items:,} items; what was learnt of "
                "them would be lost for good. If you mean it, say --retire-many; nothing was "
                "changed"
            )


def with_added(catalogue: Catalogue, items: Iterable[Item]) -> Catalogue:
    """The same with these at its end; one that is there already, and the same, is let be."""
    known, new = _by_id(catalogue.items), []
    for item in items:
        if item.id not in known:
            new.append(item)
        elif known[item.id] != item:
            raise SettingsError(
                f"{item.id!r:.80} is in the catalogue with another title or other tags: "
                "`sottovoce server catalogue update` changes those too"
            )
    return Catalogue.of([*catalogue.items, *new])


def with_titles(catalogue: Catalogue, titles: Mapping[str, str]) -> Catalogue:
    """The same, with other titles for some."""
    _check_known(catalogue, titles)
    return Catalogue.of(
        replace(item, title=titles.get(item.id, item.title)) for item in catalogue.items
    )


def without(catalogue: Catalogue, ids: Iterable[str]) -> Catalogue:
    gone = set(ids)
    _check_known(catalogue, gone)
    left = [item for item in catalogue.items if item.id not in gone]
    if not left:
        raise SettingsError("a catalogue needs one item at least")
    return Catalogue.of(left)


def updated(catalogue: Catalogue, wanted: Catalogue) -> Catalogue:
    """As wanted; what stays keeps its place, what is new comes at the end."""
    new = _by_id(wanted.items)
    staying = [new.pop(item.id) for item in catalogue.items if item.id in new]
    return Catalogue.of([*staying, *new.values()])


def moved_rows(
    V: NDArray[np.float32], before: Sequence[Item], after: Sequence[Item]
) -> NDArray[np.float32]:
    """V for the next catalogue."""
    places = {item.id: row for row, item in enumerate(before)}
    rows = np.array([places.get(item.id, -1) for item in after])
    moved = np.zeros((len(after), V.shape[1]), np.float32)
    moved[rows >= 0] = V[rows[rows >= 0]]
    return moved


def _by_id(items: Iterable[Item]) -> dict[str, Item]:
    return {item.id: item for item in items}


def _check_known(catalogue: Catalogue, ids: Iterable[str]) -> None:
    unknown = sorted(set(ids) - set(catalogue.numbers))
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise SettingsError(f"not in the catalogue: {unknown[0]!r:.80}{more}; nothing was changed")
