"""The ledger: what this device has spent of its lifetime budget, whatever happens to it.

A batch is charged *before* it leaves. When the lifetime limit is reached the ledger refuses, and
the client stops reporting; it never stops recommending. The ledger may count a batch that never
left (a crash came between), but never the other way round.

The log
-------
A text file, one record a line, only ever appended to (here broken to fit the page):

    {"record":1,"limit":50.0,"previous":"sottovoce-ledger-1","hash":"6e..."}
    {"record":2,"charge":{"epoch":7,"purpose":"ab...","mechanism":"loudest","epsilon":2.5,
     "reports":4},"previous":"6e...","hash":"1f..."}

- Bytes: ASCII JSON without spaces, keys in exactly this order, one newline (0x0A) at the end, at
  most `LONGEST` bytes with it. What does not encode again to the same bytes is refused.
- `record` counts from 1. Record 1 is a limit. A later limit replaces it from there on.
- `purpose` is 32 bytes in lower-case hexadecimal, once in a log: it names the batch.
- `epsilon` and `limit` are float64 in the shortest form that reads back as the same float. A
  charge costs `epsilon * reports`; sums are exact fractions, so nothing drifts or is rounded down.
- `previous` is the `hash` of the record before; in record 1 it is the name of this format.
- `hash` is the SHA-256, in lower-case hexadecimal, of the line's bytes before `,"hash"`.

The head
--------
A chain of hashes cannot show that its end was cut off. So a second file, the log's name with
`.head` added, witnesses the end: `{"records":2,"hash":"1f..."}` and a newline. It is replaced in
one step.

Why a crash never loses a charge
--------------------------------
`charge` does, in this order: (1) append the record, (2) sync the log, (3) write and sync a new head
under another name, (4) rename it over the old head, (5) sync the folder, and returns only then. So:

- whatever was acknowledged is in the synced log *and* in the synced head;
- a crash before (4) lasts leaves the old head and, behind the records that it counts, either one
  whole record, which is kept (it counts more, never less), or part of one, which is dropped:
  `charge` had not returned, so nothing had left under it;
- a crash later leaves both files complete.

A head that counts more than the log holds therefore means that the log was shortened, and more than
one uncounted record means that the head is old: both are refused, as is everything else that no
crash can leave. Opening settles what it found (drops, or syncs and counts, the last record) before
anything else is written. After a failed write or sync the object refuses everything until the
ledger is opened anew: what a file system holds after a failed sync is not known.

Creating writes the whole log under another name, links it into place (which fails if one is there),
and leaves the head to `open`. A log of one record without a head is thus a creation cut short; with
more records a missing head is refused. A head without a log is a lost log, and `create` refuses it.

What it cannot see: both files set back together to an earlier state, as a restored backup does. A
caller with storage of its own keeps `Ledger.head` there and gives it to `open` as `at_least`. The
hashes are not keyed: they guard against accidents, not against the owner of the device.
"""

from sottovoce.privacy.ledger.disk import DISK, Disk
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.ledger.records import (
    FORMAT,
    LONGEST,
    Charge,
    Entry,
    Head,
    Limit,
    rounded_up,
)

__all__ = [
    "DISK",
    "FORMAT",
    "LONGEST",
    "Charge",
    "Disk",
    "Entry",
    "Head",
    "Ledger",
    "Limit",
    "rounded_up",
]
