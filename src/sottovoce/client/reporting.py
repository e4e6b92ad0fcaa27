"""Making a batch: the one place where something private becomes something that may leave."""

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

DrawWords = Callable[[int, int], NDArray[np.uint64]]
"""(users, reports) to random words, as `sottovoce.core.draw_os_words`."""


def make_batch(
    release: Release,
    rows: list[int],
    send_at: float,
    words: DrawWords,
    entropy: Entropy,
    token: Token | None = None,
) -> UnsentBatch:
    """Exactly k sealed reports of a person who touched these rows; also of an empty history.

    To stay silent with nothing to say would be saying it. For the same reason nothing here can fail
    because of the rows: see `sottovoce.core.bounds`.
    """
    manifest, terms = release.manifest, release.manifest.terms
    assert manifest.public_key is not None, "a batch is made only where reports are asked for"
    reports = _reports(release, rows, words(1, terms.reports))
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


def _reports(release: Release, rows: list[int], drawn: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Whatever the application has told numpy: an underflow that raised would tell who touched."""
    manifest = release.manifest
    with np.errstate(all="ignore"):
        own = Histories.from_lists([rows], manifest.items)
        x = solve_user_vectors(
            release.V, own, alpha=manifest.alpha, regularization=manifest.regularization
        )
        made: NDArray[np.uint32] = manifest.build().reports(release.V, x, own, drawn)[0]
    return made
