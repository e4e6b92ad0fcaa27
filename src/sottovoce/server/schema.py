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

from sottovoce.storage.database import pending

Migration = Callable[[Connection], None]


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _column(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


metadata = MetaData()

schema_version = Table("schema_version", metadata, _column("version", Integer))

service = Table(
    "service",
    metadata,
    _key("id", Integer),
    _column("verification_key", LargeBinary),
    _column("newest_key", LargeBinary),
    _column("next_epoch", BigInteger),
)
"""One row. It is locked to move the epochs on, to choose what comes next, or to change the key.

`verification_key` belongs to the key that signed last, `newest_key` to the one that was made last
and is to sign next. `next_epoch` is the least number that the next epoch may have: larger than any
that devices know.
"""

trainings = Table(
    "trainings",
    metadata,
    _key("number", Integer),
    _column("settings", Text),
    _column("terms", Text),
    _column("items", Integer),
    _column("anew", Integer),
)
"""Settings and terms are JSON (`sottovoce.server.training`). The newest is the one that goes on."""

catalogues = Table(
    "catalogues", metadata, _key("version", BigInteger), _column("sha256", LargeBinary)
)
"""Every version that there was; the newest holds from the next epoch on."""

epochs = Table(
    "epochs",
    metadata,
    _key("epoch", BigInteger),
    _column("state", Text),
    _column("training", Integer),
    _column("manifest", LargeBinary),
    _column("hash", LargeBinary),
    _column("model", LargeBinary),
    _column("catalogue", LargeBinary),
    _column("epochs_done", Integer),
    _column("opens", BigInteger),
    _column("closes", BigInteger),
    _column("ends", BigInteger),
    Column("closed_at", Float(53)),
    _column("chunks", BigInteger),
    _column("reports", BigInteger),
    _column("duplicates", BigInteger),
    _column("undecodable", BigInteger),
    _column("crowdless", BigInteger),
    _column("capped", BigInteger),
)
"""Columns are the fields of `Epoch`, in their order. A row is locked to count a chunk of it."""

epoch_keys = Table(
    "epoch_keys", metadata, _key("epoch", BigInteger), _column("wrapped", LargeBinary)
)
"""The private keys of epochs that are not applied; a table apart, so that it can be scrubbed."""

counts = Table(
    "counts",
    metadata,
    _key("epoch", BigInteger),
    _key("proxy", Text),
    _column("counts", LargeBinary),
    _column("counted_at", Float(53)),
)
"""How often each report came from a proxy, in an epoch that is not applied; uint32, little endian.

Number `index << 1 | bit` is the report of that value: two numbers a direction. `counted_at` is the
time of the last chunk.
"""

sums = Table("sums", metadata, _key("epoch", BigInteger), _column("sums", LargeBinary))
"""Of an applied epoch: sums of signs by direction, int64, little endian."""

chunks = Table(
    "chunks",
    metadata,
    _key("epoch", BigInteger),
    _key("name", Text),
    _column("proxy", Text),
    _column("reports", Integer),
    _column("prefixes", LargeBinary),
)
"""What was counted in an epoch that is not applied; `prefixes` are uint64, little endian."""

commits = Table(
    "commits",
    metadata,
    _key("epoch", BigInteger),
    _key("proxy", Text),
    _column("chunks", BigInteger),
    _column("reports", BigInteger),
)

waiting = Table(
    "waiting", metadata, _key("epoch", BigInteger), _key("proxy", Text), _column("crowd", Text)
)
"""Whether each proxy has its crowd, in an epoch that is not applied: none, short or enough."""

files = Table(
    "files",
    metadata,
    _key("sha256", LargeBinary),
    _column("kind", Text),
    _column("content", LargeBinary),
)
"""Models and catalogues by hash: those of the newest epochs (`keep_epochs`), and the next ones."""


def _first(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)  # a table of somebody else's is an error
    if connection.dialect.name == "postgresql":
        # Rewritten for every chunk, and noise does not compress.
        connection.exec_driver_sql("ALTER TABLE counts ALTER COLUMN counts SET STORAGE EXTERNAL")


MIGRATIONS: Sequence[Migration] = (_first,)

_LOCK = 0x736F74746F
"""Of PostgreSQL's advisory lock."""


def one_at_a_time(connection: Connection) -> None:
    """Until this transaction ends no other worker passes here: they may all start at once.

    SQLite has one writer anyway; on PostgreSQL a row that is not there yet cannot be locked.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Bring the database up to date, within the caller's transaction: all of it or nothing."""
    one_at_a_time(connection)
    version = 0
    if inspect(connection).has_table(schema_version.name):
        version = connection.scalar(select(schema_version.c.version)) or 0
    missing = pending(version, migrations, "the database")
    for migration in missing:
        migration(connection)
    if missing:
        connection.execute(schema_version.delete())
        connection.execute(schema_version.insert().values(version=len(migrations)))
