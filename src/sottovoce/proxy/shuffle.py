"""Put all reports of an epoch in a uniformly random order, in bounded memory.

This is the method of Rao (1961) and Sandelius (1962). Draw a bucket for each report, uniformly and
independently. Shuffle each bucket by itself. Then join the buckets end to end.

*Why every order is equally likely.* Fix an order of the N reports, and sizes n_1 + ... + n_B = N
of the B buckets. Exactly one assignment to buckets gives this order with these sizes: the first n_1
reports of the order in bucket 1, the next n_2 in bucket 2, and so on. It has probability B^-N.
Given this assignment, the shuffles produce the order with probability 1 / (n_1! ... n_B!). The
product of the two probabilities does not depend on the order. Neither does its sum over all sizes,
so all N! orders are equally likely, even if the sizes are known. QED.

A bucket fits into memory. The stored reports are read again for each bucket, so no partly shuffled
reports are ever written to the disk.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from sottovoce.protocol import SEALED_BYTES

# A function that returns the given number of random bytes, such as `os.urandom`.
Entropy = Callable[[int], bytes]

# Bytes of the reports in a bucket. Shuffling takes about twice as much memory.
MAX_BUCKET_BYTES = 2**26
# Reports that are read, scattered or written in one step.
REPORTS_AT_ONCE = 100_000


def draw_words(n: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Draw n uniform 64-bit words."""
    return np.frombuffer(entropy(8 * n), dtype="<u8").astype(np.uint64)


def draw_below(n: int, limit: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw n integers from 0 to `limit - 1`, uniformly."""
    # Words from the last multiple of the limit on would favour small numbers: draw them again.
    last = np.uint64(2**64 // limit * limit - 1)
    words = draw_words(n, entropy)
    while (bad := np.flatnonzero(words > last)).size:
        words[bad] = draw_words(bad.size, entropy)
    return (words % np.uint64(limit)).astype(np.int64)


def draw_permutation(n: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw a uniform permutation of n indices, by sorting n distinct random keys."""
    keys = draw_words(n, entropy)
    order = np.argsort(keys)
    while np.any(np.diff(keys[order]) == 0):
        keys = draw_words(n, entropy)
        order = np.argsort(keys)
    return order


def shuffle(
    read_reports: Callable[[], Iterable[bytes]],
    total: int,
    entropy: Entropy,
    *,
    max_bucket_bytes: int = MAX_BUCKET_BYTES,
) -> Iterator[bytes]:
    """Yield all reports in a uniformly random order, many joined together in each item.

    Args:
        read_reports: Returns all sealed reports, in pieces, in the same order at every call.
        total: The number of reports.
        entropy: Returns random bytes.
        max_bucket_bytes: About how many bytes of reports are in memory at the same time.
    """
    n_buckets = max(-(-total * SEALED_BYTES // max_bucket_bytes), 1)
    buckets = _draw_buckets(total, n_buckets, entropy)
    for bucket, size in enumerate(np.bincount(buckets, minlength=n_buckets)):
        reports = _select_bucket(read_reports(), buckets, bucket, int(size))
        order = draw_permutation(len(reports), entropy)
        for start in range(0, len(order), REPORTS_AT_ONCE):
            yield reports[order[start : start + REPORTS_AT_ONCE]].tobytes()
        # Release this bucket before the next one is read.
        del reports, order


def _draw_buckets(total: int, n_buckets: int, entropy: Entropy) -> NDArray[np.uint16]:
    """Draw the index of the bucket of each report."""
    buckets = np.zeros(total, np.uint16)
    if n_buckets > 1:
        # Draw in pieces, because random words take four times the memory of bucket indices.
        for start in range(0, total, REPORTS_AT_ONCE):
            piece = buckets[start : start + REPORTS_AT_ONCE]
            piece[:] = draw_below(len(piece), n_buckets, entropy)
    return buckets


def _select_bucket(
    pieces: Iterable[bytes], buckets: NDArray[np.uint16], bucket: int, size: int
) -> NDArray[np.uint8]:
    """Return the reports of one bucket, in the order of reading.

    Args:
        pieces: All sealed reports, in pieces.
        buckets: The bucket of each report.
        bucket: The bucket to select.
        size: The number of reports in this bucket.
    """
    selected = np.empty((size, SEALED_BYTES), np.uint8)
    n_read = n_selected = 0
    for reports in _join_pieces(pieces):
        assert n_read + len(reports) <= len(buckets), "reports changed while they were shuffled"
        is_chosen = buckets[n_read : n_read + len(reports)] == bucket
        chosen = reports[is_chosen]
        selected[n_selected : n_selected + len(chosen)] = chosen
        n_read += len(reports)
        n_selected += len(chosen)
    assert (n_read, n_selected) == (len(buckets), size), "reports changed while they were shuffled"
    return selected


def _join_pieces(pieces: Iterable[bytes]) -> Iterator[NDArray[np.uint8]]:
    """Yield reports from small pieces in large arrays, to make few calls of numpy."""
    joined: list[bytes] = []
    size = 0
    for piece in pieces:
        joined.append(piece)
        size += len(piece)
        if size >= SEALED_BYTES * REPORTS_AT_ONCE:
            yield _to_rows(b"".join(joined))
            joined, size = [], 0
    if joined:
        yield _to_rows(b"".join(joined))


def _to_rows(sealed: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(sealed, dtype=np.uint8).reshape(-1, SEALED_BYTES)
