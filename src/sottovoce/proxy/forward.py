"""Forwarding: every chunk, then the commit, again and again until the server confirms.

Nothing here can count twice: a chunk is named by its bytes, which are fixed once it is stored, and
the server counts a name once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sottovoce.errors import ClosedError, RefusedError
from sottovoce.protocol import Chunk

if TYPE_CHECKING:
    from sottovoce.proxy.store import Flush, ProxyStore
    from sottovoce.proxy.upstream import Upstream

log = logging.getLogger("sottovoce")


def forward(store: ProxyStore, upstream: Upstream, flush: Flush, present: int) -> bool:
    """Hand one epoch over and forget it; False when the server no longer takes it.

    A server that is at a later epoch, `present`, takes nothing of this one any more: whatever it
    refuses is lost. It may not know the epoch at all, if its database was restored; to ask for ever
    would keep all later epochs here.
    """
    taken = True
    try:
        _deliver(store, upstream, flush)
        _confirm(store, upstream, flush)
    except RefusedError as error:
        if flush.epoch >= present and not isinstance(error, ClosedError):
            raise
        taken = False
        if flush.reports:
            log.error("epoch %d: %d reports are lost: %s", flush.epoch, flush.reports, error)
    with store.write() as tables:
        tables.settle(flush.epoch)
    return taken


def _deliver(store: ProxyStore, upstream: Upstream, flush: Flush) -> None:
    for position in range(flush.delivered, flush.chunks):
        with store.read() as tables:
            sealed = tables.chunk(flush.epoch, position)
        upstream.put_chunk(Chunk(flush.epoch, flush.manifest_hash, sealed))
        with store.write() as tables:
            tables.set_delivered(flush.epoch, position + 1)


def _confirm(store: ProxyStore, upstream: Upstream, flush: Flush) -> None:
    """A server that has other numbers than we sent gets everything once more, at the next beat."""
    try:
        upstream.commit(flush.epoch, flush.manifest_hash, flush.chunks, flush.reports)
    except ClosedError:
        raise
    except RefusedError:
        with store.write() as tables:
            tables.set_delivered(flush.epoch, 0)
        raise
