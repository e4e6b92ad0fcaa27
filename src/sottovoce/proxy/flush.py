"""The end of an epoch: shuffle its reports or discard them, then hand them to the server.

The shuffled reports are written and synced first. Then one transaction records the flush: from
there on the epoch is over, and its batches are deleted. A crash before it leaves the batches as
they were, and the next attempt draws a new order.

Handing over can be repeated at any point without counting a report twice: a chunk is named by its
bytes, which are fixed once it is stored, and the server counts each name once.
"""

import logging
from contextlib import suppress
from itertools import chain

from sottovoce.errors import ClosedError, LostError, RefusedError, SottovoceError, StoreError
from sottovoce.protocol import Chunk, SignedManifest
from sottovoce.proxy.dummies import draw_dummies, seal_dummies
from sottovoce.proxy.shuffle import Entropy, shuffle
from sottovoce.proxy.store import FlushedEpoch, ProxyStore
from sottovoce.proxy.upstream import Upstream

log = logging.getLogger("sottovoce")


def flush(
    store: ProxyStore,
    signed: SignedManifest,
    *,
    min_batches: int,
    chunk_reports: int,
    entropy: Entropy,
) -> tuple[int, FlushedEpoch]:
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
        # On a full disk the missing dummies are drawn in memory for this shuffle: only the room for
        # the shuffled reports is reserved.
        with suppress(StoreError):
            draw_dummies(store, signed, n_dummies, entropy)
        with store.read_batches() as tables:
            unstored = [*seal_dummies(signed, n_dummies - tables.count_dummies(), entropy)]
            shuffled = shuffle(
                lambda: chain(tables.read_reports(), unstored), n_reports + n_dummies, entropy
            )
            store.write_shuffled(manifest.epoch, shuffled)
    n_shuffled = n_reports + n_dummies
    result = FlushedEpoch(manifest.epoch, signed.hash, chunk_reports, n_shuffled, n_dummies)
    with store.write() as tables:
        # The shuffled file is on disk by now: after this the batches may be deleted.
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
    """End an epoch that the server has left behind; return how many reports are lost."""
    manifest = signed.manifest
    with store.write_batches() as tables:
        n_lost = tables.count_batches() * manifest.terms.reports
    with store.write() as tables:
        tables.add_flush(FlushedEpoch(manifest.epoch, signed.hash, chunk_reports=1, reports=0))
        tables.settle(manifest.epoch)
    return n_lost


def hand_over(
    store: ProxyStore, upstream: Upstream, flushed: FlushedEpoch, current_epoch: int
) -> int:
    """Send the chunks of one epoch, then commit it; return how many of its reports are lost.

    `current_epoch` is the epoch that the server publishes now.
    """
    delivered = flushed.delivered
    try:
        # In order, so that one number says which chunks have arrived.
        for position in range(flushed.delivered, flushed.chunks):
            sealed = store.read_chunk(flushed, position)
            upstream.put_chunk(Chunk(flushed.epoch, flushed.manifest_hash, sealed))
            delivered = position + 1
            _store_delivered(store, flushed, delivered)
        _commit(store, upstream, flushed)
    except RefusedError as error:
        # A server at a later epoch takes nothing of this one any more. It may not even know the
        # epoch, if its database was restored: asking for ever would keep all later epochs here.
        if flushed.epoch >= current_epoch and not isinstance(error, ClosedError):
            raise
        # A server counts every chunk that has arrived, unless there are dummies: then it counts
        # nothing of a proxy that has not confirmed that this was all.
        n_counted = 0 if flushed.dummies else flushed.count_reports(delivered)
        return _log_lost(flushed, flushed.reports - n_counted, error)
    except LostError as error:
        return _log_lost(flushed, flushed.reports, error)
    return 0


def _commit(store: ProxyStore, upstream: Upstream, flushed: FlushedEpoch) -> None:
    """Commit the epoch. If the server has other counts, mark all chunks undelivered.

    The next tick then sends them again.
    """
    try:
        upstream.commit(flushed.epoch, flushed.manifest_hash, flushed.chunks, flushed.reports)
    except ClosedError:
        raise
    except RefusedError:
        _store_delivered(store, flushed, 0)
        raise


def _store_delivered(store: ProxyStore, flushed: FlushedEpoch, delivered: int) -> None:
    # Storing it only saves repetition, since the server recognises repeated chunks: a disk that
    # cannot be written must not stop the delivery.
    with suppress(StoreError), store.write() as tables:
        tables.set_delivered(flushed.epoch, delivered)


def _log_lost(flushed: FlushedEpoch, n_reports: int, error: SottovoceError) -> int:
    if n_reports:
        log.error("epoch %d: %d reports are lost: %s", flushed.epoch, n_reports, error)
    return n_reports
