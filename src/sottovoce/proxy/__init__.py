"""The proxy, component 2 of the paper.

It strips what identifies senders, holds the reports of an epoch until a crowd has come, shuffles
them, and forwards them to the server. See docs/architecture.md.
"""

from sottovoce.proxy.app import build_app
from sottovoce.proxy.proxy import Proxy
from sottovoce.proxy.settings import ProxySettings, Rate, Tls
from sottovoce.proxy.store import ProxyStore
from sottovoce.proxy.upstream import HttpUpstream, Upstream, connect
from sottovoce.service.page import Page

__all__ = [
    "HttpUpstream",
    "Page",
    "Proxy",
    "ProxySettings",
    "ProxyStore",
    "Rate",
    "Tls",
    "Upstream",
    "build_app",
    "connect",
]
