"""The paper's component 3: the server, which opens reports, adds them up, updates and publishes.

It talks only to proxies and never learns whose a report was. An epoch is *open* while devices
report to proxies, *closed* while proxies hand their reports in, and *applied* when the next model
is published. Its private key is deleted in the transaction that applies it.
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
