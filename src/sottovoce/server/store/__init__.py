"""Where a server keeps its epochs, sums and files: SQLite or PostgreSQL, one schema."""

from sottovoce.server.store.store import ServerStore, back_up, database_url
from sottovoce.server.store.transaction import (
    APPLIED,
    CLOSED,
    OPEN,
    Epoch,
    Service,
    State,
    Transaction,
)

__all__ = [
    "APPLIED",
    "CLOSED",
    "OPEN",
    "Epoch",
    "ServerStore",
    "Service",
    "State",
    "Transaction",
    "back_up",
    "database_url",
]
