"""The paper's component 1, on a person's own device: what is known stays, noise alone leaves.

A client is a folder of its own with two databases: `client.history.db`, what its owner touched, and
`client.db`, the model as last published, the batch on its way, and the ledger of what was spent
(`sottovoce.privacy.ledger`). It speaks to one proxy and trusts one server, whose verification key
is pinned.

What a sync does, and why a crash never spends twice
----------------------------------------------------
It begins at a whole ten seconds of the clock. Every step is on disk before the next one begins:

1. a batch that an earlier sync left behind is brought to its end (steps 6 and 7). If the proxy does
   not take it now, what is published is fetched all the same (2 and 3), and the batch is given up
   when that is a later epoch's: it could not be counted any more;
2. the manifest is fetched and must be signed by the pinned key, or by one that this key has named,
   be no older than the last one, not differ from another one of its epoch, and keep to the terms
   that the owner accepted;
3. model and catalogue are fetched, compared with their hashes, and accepted in one transaction;
4. ledger, terms and the device's own coins decide whether it takes part, and at which moment it
   sends; the coins are kept. It sleeps until shortly before, asks for the manifest once more, and
   whether a batch would be taken: an epoch that is over by then costs nothing;
5. the moment is fixed on the monotonic clock, and only now the history is read. The batch is made,
   and stored together with its charge in one transaction, which reads the ledger and checks the
   limit. An epoch has one charge, whatever became of its batch;
6. the stored bytes are sent, at that moment;
7. the batch is marked as sent, and its bytes are deleted.

So whether a device sends, when, how much and what it asks for before is decided without looking at
the history, and nothing that is computed from the history can fail (`sottovoce.core.bounds`).

- A crash before 5 is complete: nothing was spent, nothing sent. What was randomised is lost with
  the process and was seen by nobody, so making another batch spends nothing twice.
- A crash later: the same bytes are there, charged, and are sent again; the proxy knows them by
  their id. Nothing is randomised again.
- A batch beyond the limit is neither made nor stored nor charged nor sent.
- Forgetting deletes the batch, not its charge, so the epoch is not reported in again. It waits for
  no sync: a batch that is just being made of what was forgotten is thrown away unseen.
- A ledger with a record that was changed or is missing is refused: nothing is reported,
  recommending goes on.

Not seen: `client.db` set back as a whole, as by a restored backup, or deleted and begun anew. Then
what was spent since is forgotten, and an epoch may be reported in twice. Leave the folder out of
backups, or restore it only onto a device that has lost its own.
"""

from sottovoce.client.client import Client, Outlook, Status
from sottovoce.client.http import HttpProxy, ProxyApi
from sottovoce.client.recommending import Reason, Recommendation
from sottovoce.client.syncing import Outcome, SyncResult, TermsError
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
