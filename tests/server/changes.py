"""Changes of a catalogue, made as an operator makes them: by a whole new one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sottovoce.protocol import Catalogue, Item
from sottovoce.server.administration import update_catalogue
from sottovoce.server.catalogue import Difference
from sottovoce.server.pending import PendingConfig
from sottovoce.server.store import ServerStore


def present(store: ServerStore) -> PendingConfig:
    """The training and the catalogue of the next epoch."""
    with store.read() as transaction:
        return PendingConfig.read(transaction)


def change_catalogue(
    store: ServerStore, change: Callable[[Catalogue], Catalogue]
) -> tuple[int, Difference]:
    return update_catalogue(store, change(present(store).catalogue))


def with_added(catalogue: Catalogue, items: Iterable[Item]) -> Catalogue:
    return Catalogue.from_items([*catalogue.items, *items])


def with_titles(catalogue: Catalogue, titles: Mapping[str, str]) -> Catalogue:
    return Catalogue.from_items(
        replace(item, title=titles.get(item.id, item.title)) for item in catalogue.items
    )


def without(catalogue: Catalogue, ids: Iterable[str]) -> Catalogue:
    gone = set(ids)
    return Catalogue.from_items(item for item in catalogue.items if item.id not in gone)
