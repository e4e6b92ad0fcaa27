"""The end of an epoch: everybody's reports, shuffled among each other, or nobody's.

The shuffled reports are written and synced first. Then one transaction records the flush: from
there on the epoch is over, and its batches are deleted. A crash before it leaves the batches as
they were, and the next attempt draws a new order.
"""

import logging
from contextlib import suppress
from itertools import chain

from sottovoce.errors import StoreError
from sottovoce.protocol import SignedManifest
from sottovoce.proxy.dummies import draw_dummies, seal_dummies
from sottovoce.proxy.shuffle import Entropy, shuffle
from sottovoce.proxy.store import Flush, ProxyStore

log = logging.getLogger("sottovoce")


def flush(
    store: ProxyStore,
    signed: SignedManifest,
    *,
    min_batches: int,
    chunk_reports: int,
    entropy: Entropy,
) -> tuple[int, Flush]:
    """Shuffle the epoch's batches and dummies, or discard them if there are too few batches.

    The intake must be closed before.

    Returns:
        The number of batches, and what became of them.
    """
    manifest = signed.manifest
    # A write transaction: it waits for a last batch that is on its way to the disk.
    with store.write_batches() as tables:
        n_batches = tables.count_batches()
    n_reports = n_dummies = 0
    if n_batches >= min_batches and n_batches:
        n_reports, n_dummies = n_batches * manifest.terms.reports, manifest.terms.dummies
        # On a full disk the dummies that are missing are drawn for this mix alone, in memory: only
        # the room for mixing is reserved.
        with suppress(StoreError):
            draw_dummies(store, signed, n_dummies, entropy)
        with store.read_batches() as tables:
            unstored = [*seal_dummies(signed, n_dummies - tables.count_dummies(), entropy)]
            shuffled = shuffle(
                lambda: chain(tables.reports(), unstored), n_reports + n_dummies, entropy
            )
            store.write_shuffled(manifest.epoch, shuffled)
    n_shuffled = n_reports + n_dummies
    result = Flush(manifest.epoch, signed.hash, chunk_reports, n_shuffled, n_dummies)
    with store.write() as tables:
        tables.add_flush(result)
    if n_reports:
        log.info(
            "epoch %d: %d reports and %d dummies shuffled into %d chunk(s)",
            *(manifest.epoch, n_reports, n_dummies, result.chunks),
        )
    elif n_batches:
        log.warning(
            "epoch %d: fewer than %d people: discarded, nothing is forwarded",
            *(manifest.epoch, min_batches),
        )
    return n_batches, result


def discard(store: ProxyStore, signed: SignedManifest) -> int:
    """End an epoch without which the server has gone on; return how many reports are lost."""
    manifest = signed.manifest
    with store.write_batches() as tables:
        n_lost = tables.count_batches() * manifest.terms.reports
    with store.write() as tables:
        tables.add_flush(Flush(manifest.epoch, signed.hash, chunk_reports=1, reports=0))
        tables.settle(manifest.epoch)
    return n_lost
