"""The proxy's own reports: uniformly random, so that they hide a person as others' noise does.

They protect people even if everybody else in the crowd is fake. They are drawn and sealed while the
epoch is open, as time passes, and stored with the batches. So the end of the epoch takes no longer
because of them, and a crash neither loses nor doubles one.
"""

from collections.abc import Iterator

import numpy as np

from sottovoce.core.bounds import MAX_DUMMIES
from sottovoce.protocol import Manifest, SignedManifest, seal_reports
from sottovoce.proxy.shuffle import Entropy, draw_below
from sottovoce.proxy.store import ProxyStore

# Dummies that are sealed and stored in one transaction: about a tenth of a second of work.
DUMMIES_AT_ONCE = 1000
# Dummies that one tick draws before the end of the epoch, however many the terms ask for.
MAX_DUMMIES_PER_TICK = 50_000


def count_due_dummies(manifest: Manifest, now: float) -> int:
    """Return how many dummies there should be by now."""
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
    """Draw and store the dummies that are due and missing, but at most `limit` of them."""
    with store.read_batches() as tables:
        missing = min(due - tables.count_dummies(), limit)
    for sealed in seal_dummies(signed, missing, entropy):
        with store.write_batches() as tables:
            tables.add_dummies(sealed)


def seal_dummies(signed: SignedManifest, count: int, entropy: Entropy) -> Iterator[bytes]:
    """Draw and seal dummies, several at a time."""
    manifest = signed.manifest
    assert manifest.public_key is not None, "an epoch that asks for reports"
    n_signed = 2 * manifest.build().n_directions if count > 0 else 0
    for start in range(0, count, DUMMIES_AT_ONCE):
        size = min(count - start, DUMMIES_AT_ONCE)
        drawn = draw_below(size, n_signed, entropy).astype(np.uint32)
        yield seal_reports(drawn, manifest.public_key, signed.hash)
