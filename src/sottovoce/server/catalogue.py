"""How a catalogue changes: items are appended, described anew, retired.

Row i of the item matrix is item i, so whatever is done to the items is done to the rows: those of
items that stay go with them, those of new ones are zero, and are learnt like any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item


@dataclass(frozen=True)
class Difference:
    added: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    """Before and after: another title, or other tags."""
    retired: tuple[Item, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.retired)

    @classmethod
    def between(cls, before: Catalogue, after: Catalogue) -> Self:
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
