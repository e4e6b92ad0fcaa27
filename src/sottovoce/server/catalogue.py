"""How a catalogue changes: items are added at its end, described in another way, or retired."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item


@dataclass(frozen=True)
class Difference:
    """The difference between two versions of a catalogue; false if there is none."""

    added: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    """Before and after: another title, or other tags."""
    retired: tuple[Item, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.retired)

    @classmethod
    def between(cls, before: Catalogue, after: Catalogue) -> Self:
        """Return the difference between two catalogues."""
        old, new = _index_by_id(before.items), _index_by_id(after.items)
        return cls(
            tuple(item for item in after.items if item.id not in old),
            tuple((old[i], new[i]) for i in old if i in new and old[i] != new[i]),
            tuple(item for item in before.items if item.id not in new),
        )

    def check_retires_few(self, items: int) -> None:
        """Raise a `SettingsError` if more than half of this number of items are retired.

        An export that broke off would cost what was learnt of the missing items.
        """
        if len(self.retired) > items / 2:
            raise SettingsError(
                f"this retires {len(self.retired):,} of the {items:,} items; what was learnt of "
                "them would be lost for good. If you mean it, say --retire-many; nothing was "
                "changed"
            )


def merge_catalogues(catalogue: Catalogue, wanted: Catalogue) -> Catalogue:
    """Return the wanted items: those that stay in their order, then the new ones."""
    new = _index_by_id(wanted.items)
    staying = [new.pop(item.id) for item in catalogue.items if item.id in new]
    return Catalogue.from_items([*staying, *new.values()])


def _index_by_id(items: Iterable[Item]) -> dict[str, Item]:
    return {item.id: item for item in items}
