"""The client, which runs on a person's own device (component 1 of the paper).

The person's history never leaves the device; only randomised reports do.

A client is a folder with two databases. `client.history.db` stores the items that its owner
touched. `client.db` stores the model that was published last, the batch that waits to be sent, and
the ledger of the epsilon that was spent (`sottovoce.privacy.ledger`). A client talks to one proxy
and trusts one server. The server's verification key is pinned when the client is created.

What a sync does
----------------
A sync begins when the clock shows a multiple of ten seconds. The result of every step is on disk
before the next step begins:

1. If an earlier sync left a batch, it is sent (steps 6 and 7). If the proxy does not accept it now,
   the sync still does steps 2 and 3. If these fetch a later epoch, the batch is given up, because
   it can no longer be counted.
2. The manifest is fetched. It must be signed by the pinned key, or by a key that the pinned key has
   named as its successor. It must not be of an earlier epoch than the last accepted manifest, and
   there must be only one manifest of an epoch. Its terms must be no worse than those that the owner
   accepted.
3. The model and the catalogue are fetched, compared with the hashes in the manifest, and stored in
   one transaction.
4. The ledger, the terms and random coins of the device decide whether the device takes part in the
   epoch, and at which moment it sends. The decision is stored. The sync sleeps until shortly before
   that moment. Then it fetches the manifest again and asks the proxy whether it would accept a
   batch, so that nothing is spent on an epoch that has ended meanwhile.
5. The moment of sending is fixed on the monotonic clock, and only then the history is read. One
   transaction reads the ledger, checks the limit, and stores the batch together with its charge. An
   epoch is charged once, even if its batch never arrives.
6. The stored bytes are sent at the moment that step 5 fixed.
7. The batch is marked as sent, and its bytes are deleted.

An observer sees whether and when a device sends, how many bytes, and what it requested before. None
of these depends on the history. No computation on the history can fail, because a failure would be
visible too (`sottovoce.core.bounds`).

Why a crash never spends twice
------------------------------
- After a crash before step 5 is complete, nothing was spent and nothing was sent. The randomised
  batch is lost with the process, and nobody has seen it. So the next sync may make another batch.
- After a crash later than step 5, the batch is stored and charged. The next sync sends the same
  bytes again, and the proxy recognises them by their id. Nothing is randomised again.
- A batch that would exceed the limit is neither stored nor charged nor sent.
- `Client.forget` deletes the batch but not its charge, so that the device does not report in the
  same epoch again. It does not wait for a sync: if a sync is making a batch of the forgotten items,
  that batch is thrown away.
- A ledger with a changed or missing record is refused. Then nothing is reported, but recommending
  still works.

The client cannot notice that `client.db` was restored as a whole from a backup, or was deleted and
created again. Then it does not know what was spent after the backup, and may report in an epoch
twice. Exclude the folder from backups, or restore it only onto a device that has lost its own copy.
"""

from sottovoce.client.client import Client, Outlook, Status
from sottovoce.client.fetching import TermsError
from sottovoce.client.http import HttpProxy, ProxyApi
from sottovoce.client.recommending import Reason, Recommendation
from sottovoce.client.syncing import Outcome, SyncResult
from sottovoce.protocol import Terms

__all__ = [
    "Client",
    "HttpProxy",
    "Outcome",
    "Outlook",
    "ProxyApi",
    "Reason",
    "Recommendation",
    "Status",
    "SyncResult",
    "Terms",
    "TermsError",
]
