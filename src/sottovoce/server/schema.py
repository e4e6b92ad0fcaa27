"""The tables of a server's database.

No raw report is stored. When an epoch is applied, its private key, the counts of each proxy, the
names of chunks and the key prefixes that show duplicates are deleted. Only the sums, totals and
commits of an applied epoch stay.
"""

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

from sottovoce.errors import StoreError

# Version of these tables. It is stored in every database, and changes with every change of a table.
SCHEMA_VERSION = 3
# Number of the PostgreSQL advisory lock that is held while tables and first rows are created.
ADVISORY_LOCK = 0x736F74746F

metadata = MetaData()


def _make_table(name: str, keys: dict[str, Any], /, **columns: Any) -> Table:
    """Return a table without nullable columns.

    Args:
        name: Name of the table.
        keys: Types of the columns of the primary key, by name.
        **columns: Types of the other columns, by name.
    """
    key_columns = [
        Column(column, kind, primary_key=True, autoincrement=False) for column, kind in keys.items()
    ]
    others = [Column(column, kind, nullable=False) for column, kind in columns.items()]
    return Table(name, metadata, *key_columns, *others)


_EPOCH_KEY = {"epoch": BigInteger}
_PROXY_KEY = {**_EPOCH_KEY, "proxy": Text}

schema_version = _make_table("schema_version", {}, version=Integer)

# One row. Transactions lock it to close, apply or publish an epoch, to change the configuration of
# the next epoch, or to replace the signing key.
# - name: random name of the database. Proxies remember it and notice another database.
# - verification_key: public half of the signing key that signed last.
# - newest_key: public half of the newest signing key, which signs next.
# - next_epoch: number of the next epoch, larger than any number that devices have seen.
service = _make_table(
    "service",
    {"id": Integer},
    name=Text,
    verification_key=LargeBinary,
    newest_key=LargeBinary,
    next_epoch=BigInteger,
)

# Columns are those of `sottovoce.server.training.Training.to_row`. The training with the largest
# number is that of the next epoch.
trainings = _make_table(
    "trainings",
    {"number": Integer},
    settings=Text,
    terms=Text,
    items=Integer,
    random_start=Integer,
    start=LargeBinary,
)

# One row for each version. The newest is used for lists at once, and for reports from the next
# epoch on.
catalogues = _make_table("catalogues", {"version": BigInteger}, sha256=LargeBinary)

# One row: the signed statement that names the catalogue for lists (`sottovoce.protocol.shelf`).
# - published: Unix seconds of this statement.
# - latest_published: the latest `published` of any statement so far. It is larger than that of this
#   row if an earlier statement was signed with a clock that was ahead.
shelf = _make_table(
    "shelf",
    {"id": Integer},
    published=BigInteger,
    catalogue=LargeBinary,
    signed=LargeBinary,
    latest_published=BigInteger,
)

# Columns are the fields of `Epoch`, in their order. A row is locked while a chunk of its epoch is
# counted.
epochs = _make_table(
    "epochs",
    _EPOCH_KEY,
    state=Text,
    training=Integer,
    **dict.fromkeys(("manifest", "hash", "model", "catalogue"), LargeBinary),
    epochs_done=Integer,
    **dict.fromkeys(("opens", "closes", "ends"), BigInteger),
    closed_at=Float(53),
    **dict.fromkeys(("chunks", "reports", "duplicates", "undecodable"), BigInteger),
    **dict.fromkeys(("crowdless", "capped"), BigInteger),
)
epochs.c.closed_at.nullable = True

# Wrapped private keys of epochs that are not applied. They have their own table because PostgreSQL
# scrubs whole tables (`ServerStore.scrub`).
epoch_keys = _make_table("epoch_keys", _EPOCH_KEY, wrapped=LargeBinary)

# Counts of epochs that are not applied, one row for each proxy.
# - counts: how often each possible report came, as little-endian uint32. The report (index, bit) is
#   at position `index << 1 | bit`, so each direction has two counts.
# - counted_at: Unix seconds when the last chunk was counted.
counts = _make_table("counts", _PROXY_KEY, counts=LargeBinary, counted_at=Float(53))

# Sums of the signs by direction, for each applied epoch, as little-endian int64.
sums = _make_table("sums", _EPOCH_KEY, sums=LargeBinary)

# In a training of names, the table of `NameCounts` that each epoch began with, as little-endian
# float64. Its columns are the items of the epoch's catalogue.
name_counts = _make_table("name_counts", _EPOCH_KEY, content=LargeBinary)

# Counted chunks of epochs that are not applied. Column `prefixes` has the key prefixes of the
# reports that were new in the chunk, as little-endian uint64.
chunks = _make_table(
    "chunks", {**_EPOCH_KEY, "name": Text}, proxy=Text, reports=Integer, prefixes=LargeBinary
)

# Numbers of chunks and reports that each proxy has handed in, as its commit names them.
commits = _make_table("commits", _PROXY_KEY, chunks=BigInteger, reports=BigInteger)

# The state of each proxy's crowd in an epoch that is not applied: none, short, enough or never.
waiting = _make_table("waiting", _PROXY_KEY, crowd=Text)

# Columns are the fields of `ProxyContact`, in their order.
contacts = _make_table(
    "contacts",
    {"proxy": Text},
    epoch=BigInteger,
    last_contact=Float(53),
    clock_ahead=Float(53),
    **dict.fromkeys(("refusal", "processes"), Text),
    token_key=LargeBinary,
    **dict.fromkeys(("database", "earlier_database"), Text),
)

# Models and catalogues by hash: those of the newest epochs (`keep_epochs`) and of the next epoch,
# and the newest catalogues, from which patches lead to the next one. The patches that the newest
# manifest and the shelf name. And the public start of the newest training, as `sottovoce start`
# wrote it.
files = _make_table("files", {"sha256": LargeBinary}, kind=Text, content=LargeBinary)


def acquire_setup_lock(connection: Connection) -> None:
    """Make other workers wait here until this transaction ends; all may start at the same time."""
    # SQLite has one writer anyway. On PostgreSQL a row that does not exist yet cannot be locked.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")


def has_tables(connection: Connection) -> bool:
    """Return whether this database has the tables of a server."""
    return inspect(connection).has_table(schema_version.name)


def create_tables(connection: Connection) -> None:
    """Create the tables in the caller's transaction, unless they exist."""
    acquire_setup_lock(connection)
    if has_tables(connection):
        check_version(connection)
        return
    # With `checkfirst`, a table of another program would be taken for ours.
    metadata.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        # Store the column without compression: it is rewritten for every chunk, and counts of noise
        # do not compress.
        connection.exec_driver_sql("ALTER TABLE counts ALTER COLUMN counts SET STORAGE EXTERNAL")
    connection.execute(schema_version.insert().values(version=SCHEMA_VERSION))


def check_version(connection: Connection) -> None:
    """Raise a `StoreError` unless the tables have this program's version."""
    version = connection.scalar(select(schema_version.c.version)) or 0
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"the database has schema version {version}, and this program needs {SCHEMA_VERSION}; "
            "install the version of sottovoce that wrote it"
        )
