"""Dummies: uniformly random reports of the proxy, which hide people as the noise of others does.

Dummies protect a person even if everybody else in the crowd is fake. The proxy draws and seals
some at every tick while the epoch is open, and stores them with the batches. So they do not delay
the end of the epoch, and a crash neither loses a dummy nor adds one twice.
"""

from collections.abc import Iterator

import numpy as np

from sottovoce.core.bounds import MAX_DUMMIES
from sottovoce.protocol import Manifest, SignedManifest, seal_reports
from sottovoce.proxy.shuffle import Entropy, draw_below
from sottovoce.proxy.store import ProxyStore

# Dummies that one transaction stores. Sealing them takes about a tenth of a second.
DUMMIES_AT_ONCE = 1000
# Dummies that one tick draws before the end of the epoch, even if more are due.
MAX_DUMMIES_PER_TICK = 50_000


def count_due_dummies(manifest: Manifest, now: float) -> int:
    """Return how many dummies should be stored at the time `now`, in Unix seconds.

    The number grows evenly from the opening to the closing of the epoch.
    """
    elapsed = (now - manifest.opens) / (manifest.closes - manifest.opens)
    return int(manifest.terms.dummies * min(max(elapsed, 0.0), 1.0))


def draw_dummies(
    store: ProxyStore,
    signed: SignedManifest,
    due: int,
    entropy: Entropy,
    *,
    limit: int = MAX_DUMMIES,
) -> None:
    """Draw and store dummies until `due` are stored, but at most `limit` new ones."""
    with store.read_batches() as tables:
        missing = min(due - tables.count_dummies(), limit)
    for sealed in seal_dummies(signed, missing, entropy):
        with store.write_batches() as tables:
            tables.add_dummies(sealed)


def seal_dummies(signed: SignedManifest, count: int, entropy: Entropy) -> Iterator[bytes]:
    """Draw dummies and yield them sealed, up to `DUMMIES_AT_ONCE` joined together."""
    manifest = signed.manifest
    assert manifest.public_key is not None, "an epoch that asks for reports"
    n_signed = 2 * manifest.build().n_directions if count > 0 else 0
    for start in range(0, count, DUMMIES_AT_ONCE):
        size = min(count - start, DUMMIES_AT_ONCE)
        drawn = draw_below(size, n_signed, entropy).astype(np.uint32)
        yield seal_reports(drawn, manifest.public_key, signed.hash)
