"""Changes of a catalogue: items are added at its end, get other titles or tags, or are retired."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item


@dataclass(frozen=True)
class Difference:
    """The difference between two versions of a catalogue; falsy if they are equal."""

    added: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    """Items whose title or tags differ, as pairs (before, after)."""
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
        """Raise a `SettingsError` if more than half of all items are retired.

        The new catalogue may come from an export that was cut short. Retiring an item discards what
        the model has learnt about it.

        Args:
            items: Number of items before the change.
        """
        if len(self.retired) > items / 2:
            raise SettingsError(
                f"this would retire {len(self.retired):,} of the {items:,} items, and what was "
                "learnt about them would be lost. Nothing was changed; use --retire-many to retire "
                "them anyway"
            )


def merge_catalogues(catalogue: Catalogue, wanted: Catalogue) -> Catalogue:
    """Return a catalogue of the wanted items.

    Items that are already in `catalogue` keep their order. New items follow them.
    """
    new = _index_by_id(wanted.items)
    staying = [new.pop(item.id) for item in catalogue.items if item.id in new]
    return Catalogue.from_items([*staying, *new.values()])


def _index_by_id(items: Iterable[Item]) -> dict[str, Item]:
    return {item.id: item for item in items}
