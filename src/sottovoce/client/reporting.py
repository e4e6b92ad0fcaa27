"""Making a batch: the one place where private data becomes something that may leave."""

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sottovoce.client.store import UnsentBatch
from sottovoce.client.timing import Entropy
from sottovoce.core import Histories, solve_user_vectors
from sottovoce.privacy import Charge
from sottovoce.protocol import Batch, Release, seal_reports
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.tokens import Token

# Draws the random words of a number of users with a number of reports, as
# `sottovoce.core.draw_os_words` does.
DrawWords = Callable[[int, int], NDArray[np.uint64]]


def make_batch(
    release: Release,
    rows: list[int],
    send_at: float,
    draw_words: DrawWords,
    entropy: Entropy,
    token: Token | None = None,
) -> UnsentBatch:
    """Make the batch of a person who touched the items in these rows: exactly k sealed reports.

    A person without a history reports too, because silence would reveal it. For the same reason
    nothing here can fail because of the rows (`sottovoce.core.bounds`).
    """
    manifest, terms = release.manifest, release.manifest.terms
    assert manifest.public_key is not None, "a batch is made only where reports are asked for"
    reports = _compute_reports(release, rows, draw_words(1, terms.reports))
    sealed = seal_reports(reports, manifest.public_key, release.signed.hash)
    token = token or Token(entropy(BATCH_ID_BYTES), b"")
    batch = Batch(manifest.epoch, release.signed.hash, token.id, sealed, token.output).encode()
    charge = Charge(
        training=terms.training,
        epoch=manifest.epoch,
        purpose=hashlib.sha256(batch).digest(),
        mechanism=terms.mechanism,
        epsilon=terms.epsilon,
        reports=terms.reports,
        loud_fraction=terms.loud_fraction,
        clients=terms.least_clients,
        dummies=terms.dummies,
    )
    return UnsentBatch(charge, send_at, manifest.ends, batch=batch)


def _compute_reports(
    release: Release, rows: list[int], random_words: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    manifest = release.manifest
    # If the application has told numpy to raise, an underflow would reveal something of the rows.
    with np.errstate(all="ignore"):
        own = Histories.from_lists([rows], manifest.items)
        x = solve_user_vectors(
            release.V, own, alpha=manifest.alpha, regularization=manifest.regularization
        )
        reports: NDArray[np.uint32] = manifest.build().reports(release.V, x, own, random_words)[0]
    return reports
