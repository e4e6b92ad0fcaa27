"""The end of an epoch: everybody's reports, shuffled among each other, or nobody's.

One transaction counts the batches, deals their reports out, writes the chunks and deletes the
batches. Before it nothing is shuffled, after it nothing tells which reports came together; a crash
in between leaves the batches as they were, and the next attempt draws a new order.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sottovoce.proxy.shuffle import cut, shuffled
from sottovoce.proxy.store import Flush

if TYPE_CHECKING:
    from sottovoce.protocol import SignedManifest
    from sottovoce.proxy.shuffle import Entropy
    from sottovoce.proxy.store import ProxyStore

log = logging.getLogger("sottovoce")


def flush(
    store: ProxyStore, signed: SignedManifest, *, least: int, chunk_reports: int, entropy: Entropy
) -> tuple[int, Flush]:
    """Turn the epoch's batches, so many, into chunks; with fewer than `least`, into nothing."""
    manifest = signed.manifest
    with store.write() as tables:
        batches = tables.count_batches()
        total = batches * manifest.terms.reports if batches >= least else 0
        chunks = 0
        if total:
            runs = shuffled(tables.batches(), total, tables, entropy)
            for chunks, sealed in enumerate(cut(runs, chunk_reports), start=1):
                tables.add_chunk(manifest.epoch, chunks - 1, sealed)
        tables.delete_batches()
        done = Flush(manifest.epoch, signed.hash, chunks, total)
        tables.add_flush(done)
    if total:
        log.info("epoch %d: %d reports shuffled into %d chunks", manifest.epoch, total, chunks)
    elif batches:
        log.warning(
            "epoch %d: fewer than %d people: discarded, nothing is forwarded", manifest.epoch, least
        )
    return batches, done


def discard(store: ProxyStore, signed: SignedManifest) -> int:
    """The server has gone on without us: drop the batches; how many reports were lost."""
    manifest = signed.manifest
    with store.write() as tables:
        lost = tables.count_batches() * manifest.terms.reports
        tables.delete_batches()
        tables.add_flush(Flush(manifest.epoch, signed.hash, 0, 0))
        tables.settle(manifest.epoch)
    return lost
