"""The tables of a client's two databases, and every change to them since the first version."""

from __future__ import annotations

PRAGMAS = ("temp_store = MEMORY",)  # nothing private in a folder for temporary files

MIGRATIONS = (
    (
        # `terms`: what the owner accepted, as JSON; NULL before. `asked`: the name of worse ones
        # that were asked for since: a question waits. `generation`: new after a `forget`.
        """CREATE TABLE about (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            proxy_url TEXT NOT NULL,
            verification_key BLOB NOT NULL,
            paused INTEGER NOT NULL DEFAULT 0,
            terms TEXT,
            asked TEXT,
            generation BLOB NOT NULL,
            head TEXT NOT NULL,
            epoch INTEGER,
            manifest_hash BLOB
        ) STRICT""",
        """CREATE TABLE manifest (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            signed BLOB NOT NULL
        ) STRICT""",
        "CREATE TABLE files (sha256 BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT",
        # What the device's own coins said of an epoch, before any history was read.
        """CREATE TABLE plans (
            epoch INTEGER PRIMARY KEY,
            takes_part INTEGER NOT NULL,
            send_at REAL NOT NULL
        ) STRICT""",
        # A charge, or, where it is of no epoch, a limit. The last line of defence: the table itself
        # refuses a second charge for an epoch or for a batch.
        """CREATE TABLE ledger (
            record INTEGER PRIMARY KEY,
            epsilon REAL NOT NULL,
            training BLOB,
            epoch INTEGER UNIQUE,
            purpose BLOB UNIQUE,
            mechanism TEXT,
            reports INTEGER,
            loud_fraction REAL,
            clients INTEGER,
            hash TEXT NOT NULL,
            CHECK ((epoch IS NULL) = (training IS NULL)),
            CHECK ((epoch IS NULL) = (purpose IS NULL)),
            CHECK ((epoch IS NULL) = (mechanism IS NULL)),
            CHECK ((epoch IS NULL) = (reports IS NULL)),
            CHECK ((epoch IS NULL) = (loud_fraction IS NULL)),
            CHECK ((epoch IS NULL) = (clients IS NULL))
        ) STRICT""",
        # 'charged' waits to be sent; 'sent' arrived; 'dropped' came too late. `not_before`: the
        # proxy asked for it.
        """CREATE TABLE outbox (
            epoch INTEGER PRIMARY KEY,
            send_at REAL NOT NULL,
            not_before REAL NOT NULL DEFAULT 0,
            ends INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('charged', 'sent', 'dropped')),
            batch BLOB,
            CHECK ((batch IS NULL) = (state IN ('sent', 'dropped')))
        ) STRICT""",
    ),
)

HISTORY_MIGRATIONS = (
    (
        # The items and their order, which weighs them when recommending, and no time.
        """CREATE TABLE interactions (
            item TEXT PRIMARY KEY,
            moment INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
    ),
)
