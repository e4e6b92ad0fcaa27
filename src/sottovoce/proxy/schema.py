"""The tables, and every change to them since the first version.

What is not here is never written: no time, no address, no agent. A batch lies at a place
that its random id gives it, so that the table does not know in which order they came.
"""

from __future__ import annotations

PRAGMAS = (
    "auto_vacuum = INCREMENTAL",  # free pages can be given back; chosen before the first table
    "temp_store = FILE",  # an epoch's shuffle does not fit into memory
)

MIGRATIONS = (
    (
        """CREATE TABLE batches (
            id BLOB PRIMARY KEY,
            sealed BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE manifests (
            epoch INTEGER PRIMARY KEY,
            hash BLOB NOT NULL,
            signed BLOB NOT NULL,
            model BLOB NOT NULL,
            catalogue BLOB NOT NULL
        )""",
        """CREATE TABLE files (
            sha256 BLOB PRIMARY KEY,
            content BLOB NOT NULL
        )""",
        """CREATE TABLE flushes (
            epoch INTEGER PRIMARY KEY,
            manifest_hash BLOB NOT NULL,
            chunks INTEGER NOT NULL,
            reports INTEGER NOT NULL,
            delivered INTEGER NOT NULL,
            settled INTEGER NOT NULL
        )""",
        """CREATE TABLE chunks (
            epoch INTEGER NOT NULL,
            position INTEGER NOT NULL,
            sealed BLOB NOT NULL,
            PRIMARY KEY (epoch, position)
        ) WITHOUT ROWID""",
    ),
    (
        """DELETE FROM batches WHERE id NOT IN
            (SELECT min(id) FROM batches GROUP BY substr(sealed, 1, 32))""",
        # A copy under another id is known by its first encapsulated key, which is a fresh one.
        "CREATE UNIQUE INDEX copies ON batches (substr(sealed, 1, 32))",
    ),
    (
        # By a number, since SQLite handles long rows of other tables badly: half the work.
        "DROP INDEX copies",
        "ALTER TABLE batches RENAME TO former",
        """CREATE TABLE batches (
            place INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            sealed BLOB NOT NULL
        )""",
        "INSERT INTO batches SELECT random(), id, sealed FROM former",
        "DROP TABLE former",
        "CREATE UNIQUE INDEX copies ON batches (substr(sealed, 1, 32))",
    ),
)

PIECES = """
    CREATE TEMP TABLE pieces (
        bucket INTEGER NOT NULL,
        part INTEGER NOT NULL,
        sealed BLOB NOT NULL,
        PRIMARY KEY (bucket, part)
    ) WITHOUT ROWID
"""
"""Reports on their way through the shuffle: in a file without a name, gone with the transaction."""
