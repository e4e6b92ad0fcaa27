"""Where a server keeps its epochs, sums and files: SQLite or PostgreSQL, one schema."""

from sottovoce.server.store.chosen import Service
from sottovoce.server.store.store import ServerStore
from sottovoce.server.store.transaction import (
    APPLIED,
    CLOSED,
    OPEN,
    Epoch,
    State,
    Transaction,
)
from sottovoce.server.store.url import database_url

__all__ = [
    "APPLIED",
    "CLOSED",
    "OPEN",
    "Epoch",
    "ServerStore",
    "Service",
    "State",
    "Transaction",
    "database_url",
]
