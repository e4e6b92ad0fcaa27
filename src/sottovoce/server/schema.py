"""The tables of a server's database.

No raw report is stored. Of an applied epoch only the sums stay. Deleted when it is applied: what
came from which proxy, the names of its chunks, the key prefixes that show duplicates, and its
private key.
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

# Version of these tables, which every database names. It changes with every change of a table.
SCHEMA_VERSION = 1
# Number of PostgreSQL's advisory lock for the creation of tables and rows.
ADVISORY_LOCK = 0x736F74746F

metadata = MetaData()


def _make_table(name: str, keys: dict[str, Any], /, **columns: Any) -> Table:
    """Return a table whose columns must all have a value."""
    key_columns = [
        Column(column, kind, primary_key=True, autoincrement=False) for column, kind in keys.items()
    ]
    others = [Column(column, kind, nullable=False) for column, kind in columns.items()]
    return Table(name, metadata, *key_columns, *others)


_EPOCH_KEY = {"epoch": BigInteger}
_PROXY_KEY = {**_EPOCH_KEY, "proxy": Text}

schema_version = _make_table("schema_version", {}, version=Integer)

# One row. It is locked to move the epochs on, to choose what comes next, or to change the key.
# - name: of the database, drawn when it was created. Proxies learn it, so a change is noticed.
# - verification_key: of the key that signed last.
# - newest_key: of the key that was made last, and signs next.
# - next_epoch: the smallest number of the next epoch, larger than any that devices know.
service = _make_table(
    "service",
    {"id": Integer},
    name=Text,
    verification_key=LargeBinary,
    newest_key=LargeBinary,
    next_epoch=BigInteger,
)

# Settings and terms are JSON (`sottovoce.server.training`). The newest training goes on.
trainings = _make_table(
    "trainings", {"number": Integer}, settings=Text, terms=Text, items=Integer, anew=Integer
)

# Every version; the newest holds for lists at once, and for reports from the next epoch on.
catalogues = _make_table("catalogues", {"version": BigInteger}, sha256=LargeBinary)

# One row: the signed statement which catalogue holds for lists (`sottovoce.protocol.shelf`). Column
# `most` is the latest second of any shelf. It is later than this one's if a clock was wrong.
shelf = _make_table(
    "shelf",
    {"id": Integer},
    published=BigInteger,
    catalogue=LargeBinary,
    signed=LargeBinary,
    most=BigInteger,
)

# Columns are the fields of `Epoch`, in their order. A row is locked to count a chunk of its epoch.
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

# The private keys of epochs that are not applied; in a table of their own that can be scrubbed.
epoch_keys = _make_table("epoch_keys", _EPOCH_KEY, wrapped=LargeBinary)

# How often each report came from a proxy, in an epoch that is not applied: uint32, little endian.
# Number `index << 1 | bit` is the report of that value, so each direction has two numbers. Column
# `counted_at` is the time of the last chunk.
counts = _make_table("counts", _PROXY_KEY, counts=LargeBinary, counted_at=Float(53))

# Sums of signs by direction, of an applied epoch: int64, little endian.
sums = _make_table("sums", _EPOCH_KEY, sums=LargeBinary)

# Chunks that were counted in an epoch that is not applied; `prefixes` are uint64, little endian.
chunks = _make_table(
    "chunks", {**_EPOCH_KEY, "name": Text}, proxy=Text, reports=Integer, prefixes=LargeBinary
)

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

# Models and catalogues by hash: those of the newest epochs (`keep_epochs`), and the next ones.
files = _make_table("files", {"sha256": LargeBinary}, kind=Text, content=LargeBinary)


def acquire_setup_lock(connection: Connection) -> None:
    """Let no other worker pass here until this transaction ends; they may all start at once."""
    # SQLite has one writer anyway. On PostgreSQL a row that does not exist yet cannot be locked.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")


def has_tables(connection: Connection) -> bool:
    """Return whether a server has its tables in this database."""
    return inspect(connection).has_table(schema_version.name)


def create_tables(connection: Connection) -> None:
    """Create the tables, unless they are there, within the caller's transaction."""
    acquire_setup_lock(connection)
    if has_tables(connection):
        check_version(connection)
        return
    # With `checkfirst`, a table of another program would be taken for ours.
    metadata.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        # It is written again for every chunk, and noise does not compress.
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
