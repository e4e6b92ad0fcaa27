"""The tables, and how a database comes from any earlier version to this one.

Nothing here holds a raw report. Of an applied epoch only its sums stay: what came from which proxy,
the names of its chunks, the key prefixes by which duplicates are told, and its private key are
deleted when it is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    inspect,
    select,
)

from sottovoce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    Migration = Callable[[Connection], None]

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

training = Table(
    "training",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("settings", Text, nullable=False),
    Column("catalogue", LargeBinary, nullable=False),
    Column("verification_key", LargeBinary, nullable=False),
    Column("training", LargeBinary, nullable=False),
)
"""One row: what may not change while a training runs. Whoever moves the epochs on locks it."""

epochs = Table(
    "epochs",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("model", LargeBinary, nullable=False),
    Column("epochs_done", Integer, nullable=False),
    Column("opens", BigInteger, nullable=False),
    Column("closes", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("closed_at", Float(53)),
    Column("chunks", BigInteger, nullable=False, default=0),
    Column("reports", BigInteger, nullable=False, default=0),
    Column("duplicates", BigInteger, nullable=False, default=0),
    Column("undecodable", BigInteger, nullable=False, default=0),
    Column("crowdless", BigInteger, nullable=False, default=0),
    Column("capped", BigInteger, nullable=False, default=0),
)
"""`state` is open, closed or applied. Whoever counts a chunk locks its row."""

epoch_keys = Table(
    "epoch_keys",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("wrapped", LargeBinary, nullable=False),
)
"""The private keys of epochs that are not applied; a table apart, so that it can be scrubbed."""

counts = Table(
    "counts",
    metadata,
    Column("epoch", BigInteger, nullable=False),
    Column("proxy", Text, nullable=False),
    Column("counts", LargeBinary, nullable=False),
    PrimaryKeyConstraint("epoch", "proxy"),
)
"""How often each report came from a proxy, in an epoch that is not applied; uint32, little endian.

Number `index << 1 | bit` is the report of that value: two numbers a direction.
"""

sums = Table(
    "sums",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("sums", LargeBinary, nullable=False),
)
"""Of an applied epoch: sums of signs by direction, int64, little endian."""

chunks = Table(
    "chunks",
    metadata,
    Column("epoch", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("proxy", Text, nullable=False),
    Column("reports", Integer, nullable=False),
    Column("prefixes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("epoch", "name"),
)
"""What was counted in an epoch that is not applied; `prefixes` are uint64, little endian."""

commits = Table(
    "commits",
    metadata,
    Column("epoch", BigInteger, nullable=False),
    Column("proxy", Text, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("reports", BigInteger, nullable=False),
    PrimaryKeyConstraint("epoch", "proxy"),
)

waiting = Table(
    "waiting",
    metadata,
    Column("epoch", BigInteger, nullable=False),
    Column("proxy", Text, nullable=False),
    Column("crowd", Text, nullable=False),
    PrimaryKeyConstraint("epoch", "proxy"),
)
"""Whether each proxy has its crowd, in an epoch that is not applied: none, short or enough."""

files = Table(
    "files",
    metadata,
    Column("sha256", LargeBinary, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
"""Every model and catalogue that was ever published, by hash."""


def _first(connection: Connection) -> None:
    metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        # Rewritten for every chunk, and noise does not compress.
        connection.exec_driver_sql("ALTER TABLE counts ALTER COLUMN counts SET STORAGE EXTERNAL")


TOO_OLD = 1
"""Databases of this version and below speak of epochs of protocol 1, which nobody can read."""
MIGRATIONS: Sequence[Migration] = (_first,)
"""The first makes version `TOO_OLD` + 1, each further one the next. Append; never change one."""

_LOCK = 0x736F74746F
"""Of PostgreSQL's advisory lock."""


def one_at_a_time(connection: Connection) -> None:
    """Until this transaction ends no other worker passes here: they may all start at once.

    SQLite has one writer anyway; on PostgreSQL a row that is not there yet cannot be locked.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def migrate(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the database up to date, within the caller's transaction: all of it or nothing."""
    one_at_a_time(connection)
    version, newest = _version(connection), TOO_OLD + len(migrations)
    if version > newest:
        raise StoreError(
            f"the database has schema version {version}, this program knows {newest}: "
            "install the newer sottovoce again"
        )
    if 0 < version <= TOO_OLD:
        raise StoreError(
            "the database is of version 1 of the protocol, which no device speaks any more: begin "
            "with a database of its own"
        )
    for migration in migrations[max(version - TOO_OLD, 0) :]:
        migration(connection)
    if version < newest:
        connection.execute(schema_version.delete())
        connection.execute(schema_version.insert().values(version=newest))


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(schema_version.name):
        return 0
    found = connection.scalar(select(schema_version.c.version))
    return 0 if found is None else int(found)
