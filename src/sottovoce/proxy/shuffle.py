"""A uniformly random order of all reports of an epoch, in bounded memory.

The scatter of Rao (1961) and Sandelius (1962): every report gets a bucket, drawn uniformly and
independently, then each bucket is shuffled by itself, then the buckets are laid end to end.

*Why every order is equally likely.* Fix an order of the N reports, and sizes n_1 + ... + n_B = N
of the B buckets. Exactly one assignment to buckets gives this order with these sizes: the first n_1
reports of the order in bucket 1, the next n_2 in bucket 2, and so on. It has probability B^-N.
Given that, the shuffles give the order with probability 1 / (n_1! ... n_B!). The product does not
depend on the order. Summed over all sizes it still does not: all N! orders are equally likely, and
knowing the sizes changes nothing. QED.

A bucket fits into memory. The stored reports are read again for each bucket, so the disk never has
them in an order between that of the batches and the final one.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from sottovoce.protocol import SEALED_BYTES

# Returns this many random bytes: `os.urandom` in the service.
Entropy = Callable[[int], bytes]

# Size of the reports of one bucket; shuffling takes about twice as much memory.
MAX_BUCKET_BYTES = 2**26
# Reports that are read, scattered or written in one step.
REPORTS_AT_ONCE = 100_000


def draw_words(n: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Draw uniform 64-bit words."""
    return np.frombuffer(entropy(8 * n), dtype="<u8").astype(np.uint64)


def draw_below(n: int, limit: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw whole numbers from 0 to `limit - 1`, each equally likely."""
    # Words past the last multiple of the limit would favour small numbers: draw them again.
    last = np.uint64(2**64 // limit * limit - 1)
    words = draw_words(n, entropy)
    while (bad := np.flatnonzero(words > last)).size:
        words[bad] = draw_words(bad.size, entropy)
    return (words % np.uint64(limit)).astype(np.int64)


def draw_permutation(n: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw an order of n things, each equally likely: the order of n distinct random keys."""
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
    """Yield all reports in a uniformly random order, several at a time.

    Args:
        read_reports: Returns all sealed reports, in pieces, in the same order at every call.
        total: The number of reports.
        entropy: Where random bytes come from.
        max_bucket_bytes: About how many bytes of reports are held in memory at once.
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
    """Draw the bucket of each report."""
    buckets = np.zeros(total, np.uint16)
    if n_buckets > 1:
        # In pieces, because the random words take four times the memory of the buckets.
        for start in range(0, total, REPORTS_AT_ONCE):
            piece = buckets[start : start + REPORTS_AT_ONCE]
            piece[:] = draw_below(len(piece), n_buckets, entropy)
    return buckets


def _select_bucket(
    pieces: Iterable[bytes], buckets: NDArray[np.uint16], bucket: int, size: int
) -> NDArray[np.uint8]:
    """Return the reports of one bucket, in the order in which they are read."""
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
    """Yield the reports of small pieces in large arrays, since each call of numpy has a cost."""
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
