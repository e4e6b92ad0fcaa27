"""The tables of a client's database, and every change to them since the first version."""

from __future__ import annotations

PRAGMAS = ("temp_store = MEMORY",)  # nothing private in a folder for temporary files

MIGRATIONS = (
    (
        """CREATE TABLE about (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            proxy_url TEXT NOT NULL,
            verification_key BLOB NOT NULL,
            paused INTEGER NOT NULL DEFAULT 0,
            head TEXT NOT NULL,
            epoch INTEGER,
            manifest_hash BLOB
        ) STRICT""",
        """CREATE TABLE terms (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            mechanism TEXT NOT NULL,
            epsilon REAL NOT NULL,
            reports INTEGER NOT NULL,
            least_clients INTEGER NOT NULL
        ) STRICT""",
        # The items and nothing else: no time, no count, and in the order of their names.
        "CREATE TABLE interactions (item TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
        """CREATE TABLE manifest (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            signed BLOB NOT NULL
        ) STRICT""",
        "CREATE TABLE files (sha256 BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT",
        # A charge, or, where it is of no epoch, a limit. The last line of defence: the table itself
        # refuses a second charge for an epoch or for a batch.
        """CREATE TABLE ledger (
            record INTEGER PRIMARY KEY,
            epsilon REAL NOT NULL,
            epoch INTEGER UNIQUE,
            purpose BLOB UNIQUE,
            mechanism TEXT,
            reports INTEGER,
            hash TEXT NOT NULL,
            CHECK ((epoch IS NULL) = (purpose IS NULL)),
            CHECK ((epoch IS NULL) = (mechanism IS NULL)),
            CHECK ((epoch IS NULL) = (reports IS NULL))
        ) STRICT""",
        # 'charged' waits to be sent; 'sent' arrived; 'dropped' came too late or beyond the limit.
        """CREATE TABLE outbox (
            epoch INTEGER PRIMARY KEY,
            closes INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('charged', 'sent', 'dropped')),
            batch BLOB,
            CHECK ((batch IS NULL) = (state IN ('sent', 'dropped')))
        ) STRICT""",
    ),
)
