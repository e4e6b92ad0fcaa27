"""Changes of a catalogue as an operator makes them: by a whole new one."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sottovoce.protocol import Catalogue, Item
from sottovoce.server.administration import update_catalogue
from sottovoce.server.catalogue import Difference
from sottovoce.server.pending import PendingConfig
from sottovoce.server.store import ServerStore


def read_pending(store: ServerStore) -> PendingConfig:
    """Read the training and the catalogue of the next epoch."""
    with store.read() as transaction:
        return PendingConfig.read(transaction)


def change_catalogue(
    store: ServerStore,
    *,
    add: Iterable[Item] = (),
    titles: Mapping[str, str] = MappingProxyType({}),
    remove: Collection[str] = (),
) -> tuple[int, Difference, int]:
    """Add items, change the titles of others, and retire some by their ids."""
    items = [
        replace(item, title=titles.get(item.id, item.title))
        for item in read_pending(store).catalogue.items
        if item.id not in remove
    ]
    return update_catalogue(store, Catalogue.from_items([*items, *add]))
