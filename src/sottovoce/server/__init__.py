"""The server, which is component 3 of the paper.

It opens reports, adds them up, updates the model and publishes it. It talks only to proxies and
never learns which person sent a report. An epoch is *open* while devices report to proxies,
*closed* while proxies hand their reports in, and *applied* when the next model is published. The
private key of an epoch is deleted in the transaction that applies the epoch.
"""

from sottovoce.server.app import build_app
from sottovoce.server.keys import Keys
from sottovoce.server.opening import InProcessOpener, Opener, OpenerPool
from sottovoce.server.server import Server
from sottovoce.server.settings import ProxyAccess, ServerSettings
from sottovoce.server.store import ServerStore

__all__ = [
    "InProcessOpener",
    "Keys",
    "Opener",
    "OpenerPool",
    "ProxyAccess",
    "Server",
    "ServerSettings",
    "ServerStore",
    "build_app",
]
