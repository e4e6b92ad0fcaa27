"""The end of an epoch: shuffle its reports or discard them, then hand them to the server.

The proxy first writes the shuffled reports to the disk. Then one transaction records the flush.
After it the epoch is over, and the batches are deleted. A crash before this transaction leaves the
batches as they were, and the next attempt draws a new order.

Handing over can be repeated at any point, and no report is counted twice. The name of a chunk is
derived from its bytes, which do not change once they are stored, and the server counts each name
once.
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

    Close the intake before you call this.

    Args:
        store: The store of the proxy.
        signed: The manifest of the epoch.
        min_batches: The crowd; with fewer batches the epoch is discarded.
        chunk_reports: Reports in a chunk.
        entropy: Returns random bytes.

    Returns:
        The number of batches, and the ended epoch, which has no reports if it was discarded.
    """
    manifest = signed.manifest
    # A write transaction waits until the last batch that was accepted is on disk.
    with store.write_batches() as tables:
        n_batches = tables.count_batches()
    n_reports = n_dummies = 0
    if n_batches >= min_batches and n_batches:
        n_reports, n_dummies = n_batches * manifest.terms.reports, manifest.terms.dummies
        # If the disk is too full to store the missing dummies, draw them in memory below: only the
        # shuffled reports have reserved room.
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
        # The shuffled reports are on disk, so the batches may be deleted after this.
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
    """End an epoch that the server has ended without us; return how many reports are lost."""
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
    """Send the chunks of an epoch to the server, then commit the epoch.

    Args:
        store: The store of the proxy.
        upstream: The server.
        flushed: The epoch.
        current_epoch: The epoch that the server publishes now.

    Returns:
        How many reports of the epoch are lost.
    """
    delivered = flushed.delivered
    try:
        # Send chunks in order, so that a single number tells which of them have arrived.
        for position in range(flushed.delivered, flushed.chunks):
            sealed = store.read_chunk(flushed, position)
            upstream.put_chunk(Chunk(flushed.epoch, flushed.manifest_hash, sealed))
            delivered = position + 1
            _store_delivered(store, flushed, delivered)
        _commit(store, upstream, flushed)
    except RefusedError as error:
        # A server at a later epoch takes no more chunks of this one, and does not even know the
        # epoch if its database was restored. Give up then: trying again would block all later
        # epochs.
        if flushed.epoch >= current_epoch and not isinstance(error, ClosedError):
            raise
        # Without dummies, the server counts every chunk that has arrived. With dummies, it counts
        # chunks only after the proxy has committed the epoch.
        n_counted = 0 if flushed.dummies else flushed.count_reports(delivered)
        return _log_lost(flushed, flushed.reports - n_counted, error)
    except LostError as error:
        return _log_lost(flushed, flushed.reports, error)
    return 0


def _commit(store: ProxyStore, upstream: Upstream, flushed: FlushedEpoch) -> None:
    """Commit the epoch. If the server has other counts, mark all chunks as undelivered.

    The next tick then sends all chunks again.
    """
    try:
        upstream.commit(flushed.epoch, flushed.manifest_hash, flushed.chunks, flushed.reports)
    except ClosedError:
        raise
    except RefusedError:
        _store_delivered(store, flushed, 0)
        raise


def _store_delivered(store: ProxyStore, flushed: FlushedEpoch, delivered: int) -> None:
    # A disk that cannot be written must not stop the delivery: the stored number only avoids that
    # chunks are sent again, and the server recognises repeated chunks.
    with suppress(StoreError), store.write() as tables:
        tables.set_delivered(flushed.epoch, delivered)


def _log_lost(flushed: FlushedEpoch, n_reports: int, error: SottovoceError) -> int:
    if n_reports:
        log.error("epoch %d: %d reports are lost: %s", flushed.epoch, n_reports, error)
    return n_reports
