"""The tables, and how a database comes from an earlier version to this one.

No raw report is stored. Of an applied epoch only its sums stay: what came from which proxy, the
names of its chunks, the key prefixes by which duplicates are recognised, and its private key are
deleted when it is applied.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
)

from sottovoce.storage.database import find_pending_migrations

Migration = Callable[[Connection], None]


metadata = MetaData()


def _table(name: str, keys: dict[str, Any], /, **columns: Any) -> Table:
    """With these columns, keys first. Every one must have a value; none is made up here."""
    made = [
        Column(each, kind, primary_key=True, autoincrement=False) for each, kind in keys.items()
    ]
    made += [Column(each, kind, nullable=False) for each, kind in columns.items()]
    return Table(name, metadata, *made)


_EPOCH = {"epoch": BigInteger}
_OF_PROXY = {**_EPOCH, "proxy": Text}

schema_version = _table("schema_version", {}, version=Integer)

service = _table(
    "service",
    {"id": Integer},
    name=Text,
    verification_key=LargeBinary,
    newest_key=LargeBinary,
    next_epoch=BigInteger,
)
"""One row. It is locked to move the epochs on, to choose what comes next, or to change the key.

`name` is the database's own, drawn when it was created. Proxies learn it, so a change is noticed.

`verification_key` belongs to the key that signed last, `newest_key` to the one that was made last
and is to sign next. `next_epoch` is the least number that the next epoch may have: larger than any
that devices know.
"""

trainings = _table(
    "trainings", {"number": Integer}, settings=Text, terms=Text, items=Integer, anew=Integer
)
"""Settings and terms are JSON (`sottovoce.server.training`). The newest is the one that goes on."""

catalogues = _table("catalogues", {"version": BigInteger}, sha256=LargeBinary)
"""Every version that there was; the newest holds for lists at once, then for the next epoch."""

shelf = _table(
    "shelf",
    {"id": Integer},
    published=BigInteger,
    catalogue=LargeBinary,
    signed=LargeBinary,
    most=BigInteger,
)
"""One row: the signed statement which catalogue holds for lists (`sottovoce.protocol.shelf`).

`most` is the latest second of any: it is later than this one if a clock was wrong.
"""

epochs = _table(
    "epochs",
    _EPOCH,
    state=Text,
    training=Integer,
    **dict.fromkeys(("manifest", "hash", "model", "catalogue"), LargeBinary),
    epochs_done=Integer,
    **dict.fromkeys(("opens", "closes", "ends"), BigInteger),
    closed_at=Float(53),
    **dict.fromkeys(("chunks", "reports", "duplicates", "undecodable"), BigInteger),
    **dict.fromkeys(("crowdless", "capped"), BigInteger),
)
"""Columns are the fields of `Epoch`, in their order. A row is locked to count a chunk of it."""
epochs.c.closed_at.nullable = True

epoch_keys = _table("epoch_keys", _EPOCH, wrapped=LargeBinary)
"""The private keys of epochs that are not applied; a table apart, so that it can be scrubbed."""

counts = _table("counts", _OF_PROXY, counts=LargeBinary, counted_at=Float(53))
"""How often each report came from a proxy, in an epoch that is not applied; uint32, little endian.

Number `index << 1 | bit` is the report of that value: two numbers a direction. `counted_at` is the
time of the last chunk.
"""

sums = _table("sums", _EPOCH, sums=LargeBinary)
"""Of an applied epoch: sums of signs by direction, int64, little endian."""

chunks = _table(
    "chunks", {**_EPOCH, "name": Text}, proxy=Text, reports=Integer, prefixes=LargeBinary
)
"""What was counted in an epoch that is not applied; `prefixes` are uint64, little endian."""

commits = _table("commits", _OF_PROXY, chunks=BigInteger, reports=BigInteger)

waiting = _table("waiting", _OF_PROXY, crowd=Text)
"""Whether each proxy has its crowd, in an epoch that is not applied: none, short or enough."""

contacts = _table(
    "contacts",
    {"proxy": Text},
    epoch=BigInteger,
    last_contact=Float(53),
    clock_ahead=Float(53),
    **dict.fromkeys(("refusal", "processes"), Text),
    token_key=LargeBinary,
    **dict.fromkeys(("database", "earlier_database"), Text),
)
"""Columns are the fields of `ProxyContact`, in their order."""

files = _table("files", {"sha256": LargeBinary}, kind=Text, content=LargeBinary)
"""Models and catalogues by hash: those of the newest epochs (`keep_epochs`), and the next ones."""


def _first(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)  # a table of somebody else's is an error
    if connection.dialect.name == "postgresql":
        # Rewritten for every chunk, and noise does not compress.
        connection.exec_driver_sql("ALTER TABLE counts ALTER COLUMN counts SET STORAGE EXTERNAL")


MIGRATIONS: Sequence[Migration] = (_first,)

_LOCK = 0x736F74746F
"""Of PostgreSQL's advisory lock."""


def acquire_setup_lock(connection: Connection) -> None:
    """Until this transaction ends no other worker passes here: they may all start at once.

    SQLite has one writer anyway; on PostgreSQL a row that is not there yet cannot be locked.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def check_version(
    connection: Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> Sequence[Migration]:
    """What the database lacks; one of a later version is refused."""
    version = 0
    if inspect(connection).has_table(schema_version.name):
        version = connection.scalar(select(schema_version.c.version)) or 0
    return find_pending_migrations(version, migrations, "the database")


def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Bring the database up to date, within the caller's transaction: all of it or nothing."""
    acquire_setup_lock(connection)
    missing = check_version(connection, migrations)
    for migration in missing:
        migration(connection)
    if missing:
        connection.execute(schema_version.delete())
        connection.execute(schema_version.insert().values(version=len(migrations)))
