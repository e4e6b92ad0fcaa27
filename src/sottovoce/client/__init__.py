"""The paper's component 1, on a person's own device: the history stays, only noise leaves.

A client is a folder with two databases. `client.history.db` has the items that its owner touched;
`client.db` has the model as last published, the batch on its way, and the ledger of what was spent
(`sottovoce.privacy.ledger`). It talks to one proxy and trusts one server, whose verification key is
pinned.

What a sync does
----------------
A sync begins at a whole ten seconds of the clock. Every step is on disk before the next one begins:

1. A batch that an earlier sync left is sent (steps 6 and 7). If the proxy does not take it now, the
   sync continues with 2 and 3 all the same. If these bring a later epoch, the batch is given up,
   because it can no longer be counted.
2. The manifest is fetched. It must be signed by the pinned key, or by a key that this one named. It
   must not be older than the last one, or differ from another one of its epoch. It must keep to the
   terms that the owner accepted.
3. Model and catalogue are fetched, compared with their hashes, and stored in one transaction.
4. Ledger, terms and the device's own coins decide whether it takes part, and at which moment it
   sends; the results are stored. The sync sleeps until shortly before that moment. Then it fetches
   the manifest again and asks whether a batch would be taken, so that an epoch that is over by then
   costs nothing.
5. The moment of sending is fixed on the monotonic clock, and only now the history is read. One
   transaction reads the ledger, checks the limit, and stores the batch together with its charge. An
   epoch has one charge, whatever becomes of its batch.
6. The stored bytes are sent at that moment.
7. The batch is marked as sent, and its bytes are deleted.

No observable step depends on the history: not whether a device sends, nor when, how much, or what
it asks for before. Nothing that is computed from the history can fail (`sottovoce.core.bounds`).

Why a crash never spends twice
------------------------------
- After a crash before step 5 is complete, nothing was spent and nothing was sent. The randomised
  batch is lost with the process and nobody has seen it, so that another one spends nothing twice.
- After a later crash the same bytes are stored and charged, and they are sent again. The proxy
  recognises them by their id. Nothing is randomised again.
- A batch beyond the limit is neither made nor stored nor charged nor sent.
- Forgetting deletes the batch but not its charge, so that the epoch is not reported in again. It
  does not wait for a sync: a batch that is being made of forgotten items is thrown away.
- A ledger with a changed or missing record is refused. Nothing is reported, recommending continues.

What this does not notice: `client.db` restored as a whole from a backup, or deleted and created
again. Then the device no longer knows what it spent since, and may report in an epoch twice. Leave
the folder out of backups, or restore it only onto a device that has lost its own.
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
