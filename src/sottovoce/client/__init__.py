"""The paper's component 1, on a person's own device: what is known stays, noise alone leaves.

A client is a folder of its own with one database, `client.db`: what its owner touched, the model as
last published, the batch on its way, and the ledger of what was spent (`sottovoce.privacy.ledger`).
It speaks to one proxy and trusts one server, whose verification key is pinned.

What a sync does, and why a crash never spends twice
----------------------------------------------------
Every step is on disk before the next one begins:

1. a batch that an earlier sync left behind is brought to its end (steps 5 and 6);
2. the manifest is fetched and must be signed by the pinned key, be no older than the last one, not
   differ from another one of its epoch, and keep to the terms that the owner agreed to;
3. model and catalogue are fetched, compared with their hashes, and accepted in one transaction;
4. the batch is made, and stored together with its charge in one transaction, which reads the ledger
   and checks the limit. An epoch has one charge, whatever became of its batch;
5. the stored bytes are sent, after a random pause;
6. the batch is marked as sent, and its bytes are deleted.

- A crash before 4 is complete: nothing was spent, nothing sent. What was randomised is lost with
  the process and was seen by nobody, so making another batch spends nothing twice.
- A crash later: the same bytes are there, charged, and are sent again; the proxy knows them by
  their id. Nothing is randomised again.
- A batch beyond the lifetime limit is neither stored nor charged nor sent; its epoch is over.
- Forgetting deletes the batch, not its charge, so the epoch is not reported in again.
- A ledger with a record that was changed or is missing is refused: nothing is reported,
  recommending goes on.

Not seen: the database set back as a whole, as by a restored backup, or deleted and begun anew. Then
what was spent since is forgotten, and an epoch may be reported in twice. Leave the folder out of
backups, or restore it only onto a device that has lost its own.
"""

from sottovoce.client.api import ProxyApi
from sottovoce.client.client import Client, Status
from sottovoce.client.http import HttpProxy
from sottovoce.client.recommending import Recommendation
from sottovoce.client.syncing import Outcome, Synced
from sottovoce.client.terms import Terms

__all__ = [
    "Client",
    "HttpProxy",
    "Outcome",
    "ProxyApi",
    "Recommendation",
    "Status",
    "Synced",
    "Terms",
]
