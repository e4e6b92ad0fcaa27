"""The tables, and how a database comes from any earlier version to this one.

Nothing here holds a raw report. Of an applied epoch only its sums stay: what came from which proxy,
the names of its chunks, the key prefixes by which duplicates are told, and its private key are
deleted when it is applied.
"""

from __future__ import annotations

import json
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
    func,
    inspect,
    select,
)

from sottovoce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sqlalchemy import Connection, Row

    Migration = Callable[[Connection], None]

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))


def _service() -> list[Column[Any]]:
    """Those of version 3."""
    return [
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("verification_key", LargeBinary, nullable=False),
        Column("next_epoch", BigInteger, nullable=False, default=1),
    ]


service = Table("service", metadata, *_service(), Column("newest_key", LargeBinary, nullable=False))
"""One row. Whoever moves the epochs on locks it, and whoever changes the signing key.

`verification_key` belongs to the key that signed last, `newest_key` to the one that was made last
and is to sign next. `next_epoch` is the least number that the next epoch may have: larger than any
that devices know.
"""

trainings = Table(
    "trainings",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("settings", Text, nullable=False),
    Column("terms", Text, nullable=False),
    Column("items", Integer, nullable=False),
    Column("anew", Integer, nullable=False),
)
"""Settings and terms are JSON (`sottovoce.server.training`). The newest is the one that goes on."""

catalogues = Table(
    "catalogues",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("sha256", LargeBinary, nullable=False),
)
"""Every version that there was; the newest holds from the next epoch on."""


def _epochs() -> list[Column[Any]]:
    """Those of version 2, to which later ones have added."""
    return [
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
        *(Column(name, BigInteger, nullable=False, default=0) for name in _COUNTED),
    ]


_COUNTED = ("chunks", "reports", "duplicates", "undecodable", "crowdless", "capped")

epochs = Table(
    "epochs",
    metadata,
    *_epochs(),
    Column("training", Integer, nullable=False),
    Column("catalogue", LargeBinary, nullable=False),
)
"""`state` is open, closed or applied. Whoever counts a chunk locks its row.

`training` is its number, `catalogue` the hash of the file.
"""

epoch_keys = Table(
    "epoch_keys",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("wrapped", LargeBinary, nullable=False),
)
"""The private keys of epochs that are not applied; a table apart, so that it can be scrubbed."""


def _counts() -> list[Column[Any] | PrimaryKeyConstraint]:
    """Those of version 2."""
    return [
        Column("epoch", BigInteger, nullable=False),
        Column("proxy", Text, nullable=False),
        Column("counts", LargeBinary, nullable=False),
        PrimaryKeyConstraint("epoch", "proxy"),
    ]


counts = Table("counts", metadata, *_counts(), Column("counted_at", Float(53), nullable=False))
"""How often each report came from a proxy, in an epoch that is not applied; uint32, little endian.

Number `index << 1 | bit` is the report of that value: two numbers a direction. `counted_at` is the
time of the last chunk.
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
"""Models and catalogues by hash: those of the newest epochs (`keep_epochs`), and the next ones."""


_old = MetaData()
_training = Table(
    "training",
    _old,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("settings", Text, nullable=False),
    Column("catalogue", LargeBinary, nullable=False),
    Column("verification_key", LargeBinary, nullable=False),
    Column("training", LargeBinary, nullable=False),
)
"""Of version 2: the one training that a service had."""
Table("epochs", _old, *_epochs())
Table("counts", _old, *_counts())
_one_key = Table("service", MetaData(), *_service())
"""Of version 3."""


def _first(connection: Connection) -> None:
    old = (schema_version, epoch_keys, sums, chunks, commits, waiting, files)
    metadata.create_all(connection, tables=old)
    _old.create_all(connection)
    if connection.dialect.name == "postgresql":
        # Rewritten for every chunk, and noise does not compress.
        connection.exec_driver_sql("ALTER TABLE counts ALTER COLUMN counts SET STORAGE EXTERNAL")


def _second(connection: Connection) -> None:
    """A service has trainings and catalogues, one after the other, and its key may change."""
    _one_key.create(connection)
    metadata.create_all(connection, tables=(trainings, catalogues))
    binary = _binary(connection)
    connection.exec_driver_sql("ALTER TABLE epochs ADD training INTEGER NOT NULL DEFAULT 1")
    connection.exec_driver_sql(f"ALTER TABLE epochs ADD catalogue {binary} NOT NULL DEFAULT ''")
    known = connection.execute(select(_training)).one_or_none()
    first = connection.execute(select(epochs).order_by(epochs.c.epoch).limit(1)).one_or_none()
    if known is not None and first is not None:  # before the first epoch everything may change
        _keep_training(connection, known, first.manifest)
    _training.drop(connection)


def _keep_training(connection: Connection, known: Row[Any], signed: bytes) -> None:
    """The one that there was goes on as the first of its service."""
    next_epoch = 1 + int(connection.scalar(select(func.max(epochs.c.epoch))) or 0)
    key = {"verification_key": known.verification_key, "next_epoch": next_epoch}
    connection.execute(_one_key.insert().values(id=1, **key))
    connection.execute(epochs.update().values(catalogue=known.catalogue))
    connection.execute(catalogues.insert().values(version=1, sha256=known.catalogue))
    manifest = json.loads(signed[FIRST_MANIFEST:])
    row = {
        "settings": json.dumps({**json.loads(known.settings), "half_life": 0.0}, sort_keys=True),
        "terms": json.dumps(manifest["terms"], sort_keys=True),
        "items": manifest["items"],
        "anew": 1,
    }
    connection.execute(trainings.insert().values(number=1, **row))


def _third(connection: Connection) -> None:
    """The key that was made last is known to all, also before it signs."""
    column = f"newest_key {_binary(connection)} NOT NULL DEFAULT ''"
    connection.exec_driver_sql(f"ALTER TABLE service ADD {column}")
    connection.execute(service.update().values(newest_key=service.c.verification_key))


def _fourth(connection: Connection) -> None:
    """When the last chunk of each proxy came; of those that came before, when the epoch closed."""
    column = "counted_at DOUBLE PRECISION NOT NULL DEFAULT 0"
    connection.exec_driver_sql(f"ALTER TABLE counts ADD {column}")


def _binary(connection: Connection) -> str:
    return "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"


FIRST_MANIFEST = 4 + 1 + 64
"""Where the JSON of a signed manifest begins that was signed with the service's first key."""
TOO_OLD = 1
"""Databases of this version and below speak of epochs of protocol 1, which nobody can read."""
MIGRATIONS: Sequence[Migration] = (_first, _second, _third, _fourth)
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
