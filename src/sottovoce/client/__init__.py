"""The paper's component 1, on a person's own device: what is known stays, noise alone leaves.

A client is a folder of its own: `client.db` (what its owner touched, the model as last published,
the batch on its way) and `ledger` (what was spent, see `sottovoce.privacy.ledger`). It speaks to
one proxy and trusts one server, whose verification key is pinned.

What a sync does, and why a crash never spends twice
----------------------------------------------------
Every step is on disk before the next one begins:

1. a batch that an earlier sync left behind is brought to its end (steps 5 to 8);
2. the manifest is fetched and must be signed by the pinned key, be no older than the last one, not
   differ from another one of its epoch, and keep to the terms that the owner agreed to;
3. model and catalogue are fetched, compared with their hashes, and accepted in one transaction;
4. the batch is made, *once*, and stored: the row of an epoch forbids another batch in that epoch,
   whatever became of the first;
5. the ledger is charged under the SHA-256 of the stored bytes;
6. the charge, and the ledger's head, are noted in the database;
7. the stored bytes are sent, after a random pause;
8. the row is marked as sent, and its bytes are deleted.

- A crash before 4: nothing was randomised, nothing spent, nothing sent.
- A crash between 4 and 8: the same bytes are there. Charging them again writes nothing, sending
  them again is known to the proxy by their id. Nothing is ever randomised a second time.
- A database that was set back to before 4 has no row; but the ledger, which was not, has a charge
  for the epoch, and then nothing is reported in it again.
- A ledger that was set back does not contain the head noted in 6 and is refused, like one that is
  lost: nothing is reported, recommending goes on.

Not seen: the whole folder set back to an earlier state. Leave it out of backups, or restore it
only onto a device that has lost its own.
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
