"""A uniformly random order of all reports of an epoch, in bounded memory.

The scatter of Rao (1961) and Sandelius (1962): every report falls into a bucket drawn uniformly and
independently, then each bucket is shuffled by itself, then the buckets are laid end to end.

*Why every order is equally likely.* Fix an order of the N reports, and sizes n_1 + ... + n_B = N of
the B buckets. Exactly one way of falling gives this order with these sizes: the first n_1 reports
of the order in bucket 1, the next n_2 in bucket 2, and so on, which has probability B^-N. Given
that, the shuffles give the order with probability 1 / (n_1! ... n_B!). The product does not depend
on the order. Summed over all sizes it still does not: all N! orders are equally likely, and knowing
the sizes changes nothing. QED.

Randomness is an argument: `os.urandom` in the service.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MOST_DUMMIES
from sottovoce.protocol import SEALED, Manifest, SignedManifest, seal_reports
from sottovoce.proxy.store import Flush, ProxyStore, Tables

Entropy = Callable[[int], bytes]
"""So many random bytes."""

BUCKET = 20_000
"""Reports in a bucket, about: one megabyte."""
GROUP = 100_000
"""Reports that are dealt out at once."""


def words(n: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Uniform 64-bit words."""
    return np.frombuffer(entropy(8 * n), dtype="<u8").astype(np.uint64)


def uniform(n: int, below: int, entropy: Entropy) -> NDArray[np.int64]:
    """Whole numbers from 0, each equally likely: words past the last multiple are drawn anew."""
    last = np.uint64(2**64 // below * below - 1)
    drawn = words(n, entropy)
    while (bad := np.flatnonzero(drawn > last)).size:
        drawn[bad] = words(bad.size, entropy)
    return (drawn % np.uint64(below)).astype(np.int64)


def permutation(n: int, entropy: Entropy) -> NDArray[np.int64]:
    """Every order of n things is equally likely: the order of n random keys that all differ."""
    keys = words(n, entropy)
    order = np.argsort(keys)
    while np.any(np.diff(keys[order]) == 0):
        keys = words(n, entropy)
        order = np.argsort(keys)
    return order


def shuffled(
    batches: Iterable[bytes],
    total: int,
    pieces: Tables,
    entropy: Entropy,
    *,
    bucket: int = BUCKET,
    group: int = GROUP,
) -> Iterator[bytes]:
    """All `total` reports of the batches in a uniformly random order, a bucket at a time."""
    buckets = -(-total // bucket)
    pieces.begin_pieces()
    for part, reports in enumerate(_groups(batches, group)):
        _scatter(reports, buckets, part, pieces, entropy)
    for number in range(buckets):
        reports = _rows(pieces.bucket(number))
        yield reports[permutation(len(reports), entropy)].tobytes()
    pieces.end_pieces()


def cut(runs: Iterable[bytes], reports: int) -> Iterator[bytes]:
    """The same sequence in runs of exactly so many reports; the last may be shorter.

    So the sizes say nothing but the total.
    """
    size = SEALED * reports
    rest = bytearray()
    for run in runs:
        rest += run
        while len(rest) >= size:
            yield bytes(rest[:size])
            del rest[:size]
    if rest:
        yield bytes(rest)


def _groups(batches: Iterable[bytes], reports: int) -> Iterator[NDArray[np.uint8]]:
    gathered = bytearray()
    for sealed in batches:
        gathered += sealed
        if len(gathered) >= SEALED * reports:
            yield _rows(bytes(gathered))
            gathered.clear()
    if gathered:
        yield _rows(bytes(gathered))


def _scatter(
    reports: NDArray[np.uint8], buckets: int, part: int, pieces: Tables, entropy: Entropy
) -> None:
    """Each report into its bucket; the order within a piece is shuffled away afterwards."""
    fallen = uniform(len(reports), buckets, entropy)
    order = np.argsort(fallen, kind="stable")
    edges = np.searchsorted(fallen[order], np.arange(buckets + 1))
    sorted_reports = reports[order]
    for number in range(buckets):
        piece = sorted_reports[edges[number] : edges[number + 1]]
        if len(piece):
            pieces.add_piece(number, part, piece.tobytes())


def _rows(sealed: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(sealed, dtype=np.uint8).reshape(-1, SEALED)


# The proxy's own reports, of nobody: uniform, so that they hide a person as the noise of other
# people does, also where all other people are fake.
#
# They are drawn and sealed while the epoch is open, as time goes by, and lie on disk like the
# others: its end takes no longer for them, and a crash neither loses nor doubles one.

DRAWN = 1000
"""Dummies that are sealed and stored at once: about a tenth of a second."""
A_BEAT = 50_000
"""And in one beat, at most, before the epoch's end: whatever a server asks for."""


def dummies_due(manifest: Manifest, now: float) -> int:
    """How many of them there should be by now."""
    passed = (now - manifest.opens) / (manifest.closes - manifest.opens)
    return int(manifest.terms.dummies * min(max(passed, 0.0), 1.0))


def draw_dummies(
    store: ProxyStore,
    signed: SignedManifest,
    due: int,
    entropy: Entropy,
    *,
    most: int = MOST_DUMMIES,
) -> None:
    """Until there are so many, and no more than the most at once."""
    manifest = signed.manifest
    assert manifest.public_key is not None, "an epoch that asks for reports"
    n_signed = 2 * manifest.build().n_directions if due else 0
    with store.read() as tables:
        missing = min(due - tables.count_dummies(), most)
    while missing > 0:
        drawn = uniform(min(missing, DRAWN), n_signed, entropy).astype(np.uint32)
        sealed = seal_reports(drawn, manifest.public_key, signed.hash)
        with store.write() as tables:
            tables.add_dummies(sealed)
        missing -= len(drawn)


# The end of an epoch: everybody's reports, shuffled among each other, or nobody's.
#
# One transaction counts the batches, deals their reports out, writes the chunks and deletes the
# batches. Before it nothing is shuffled, after it nothing tells which reports came together; a
# crash in between leaves the batches as they were, and the next attempt draws a new order.

log = logging.getLogger("sottovoce")


def flush(
    store: ProxyStore, signed: SignedManifest, *, least: int, chunk_reports: int, entropy: Entropy
) -> tuple[int, Flush]:
    """Turn the epoch's batches, so many, into chunks; with fewer than `least`, into nothing.

    All its dummies go with them, and none is drawn for nobody.
    """
    manifest = signed.manifest
    with store.write() as tables:  # not `read`: a last batch may be on its way to the disk
        is_crowd = tables.count_batches() >= least
    if is_crowd:
        draw_dummies(store, signed, manifest.terms.dummies, entropy)
    with store.write() as tables:
        batches = tables.count_batches()
        reports = batches * manifest.terms.reports if batches >= least else 0
        total, chunks = reports + (manifest.terms.dummies if reports else 0), 0
        if total:
            everything = chain(tables.batches(), tables.dummies())
            runs = shuffled(everything, total, tables, entropy)
            for chunks, sealed in enumerate(cut(runs, chunk_reports), start=1):
                tables.add_chunk(manifest.epoch, chunks - 1, sealed)
        tables.delete_batches()
        done = Flush(manifest.epoch, signed.hash, chunks, total)
        tables.add_flush(done)
    if total:
        said = "epoch %d: %d reports and %d dummies shuffled into %d chunk(s)"
        log.info(said, manifest.epoch, reports, total - reports, chunks)
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
