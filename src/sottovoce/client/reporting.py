"""Making a batch. Only this module turns private data into bytes that may leave the device."""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from sottovoce.client.store import UnsentBatch
from sottovoce.client.timing import Entropy
from sottovoce.core import Histories, solve_user_vectors
from sottovoce.privacy import Charge
from sottovoce.protocol import Batch, Release, seal_reports
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.tokens import Token

# A function like `sottovoce.core.draw_os_words`: draws the random words for a number of users (the
# first argument) with a number of reports each (the second).
DrawWords = Callable[[int, int], NDArray[np.uint64]]


def find_reported_rows(release: Release, moments: Mapping[str, int]) -> list[int]:
    """Return the rows of the items that reports are made of, ascending.

    These are all touched items that the catalogue knows. In a training of names, they are only
    those that were touched last.

    Args:
        release: The current release.
        moments: The moment when each item was touched, by item id; a later moment is larger.
    """
    numbers = release.catalogue.numbers
    row_moments = {numbers[item]: moment for item, moment in moments.items() if item in numbers}
    if release.manifest.terms.asks_for_names:
        latest = max(row_moments.values(), default=0)
        row_moments = {row: moment for row, moment in row_moments.items() if moment == latest}
    return sorted(row_moments)


def make_batch(
    release: Release,
    rows: list[int],
    send_at: float,
    draw_words: DrawWords,
    entropy: Entropy,
    token: Token | None = None,
) -> UnsentBatch:
    """Make the batch of a person: always `terms.reports` sealed reports.

    A person without a history reports too, because silence would reveal that the history is empty.
    For the same reason no value of `rows` can make this function fail (`sottovoce.core.bounds`).

    Args:
        release: The current release; its manifest asks for reports.
        rows: The rows of the items that reports are made of (`find_reported_rows`).
        send_at: When to send the batch, in Unix seconds.
        draw_words: Draws the random words of the reports.
        entropy: Draws the batch id if there is no token.
        token: The token for this epoch, if reports need an account.
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
        clients=terms.min_clients,
        dummies=terms.dummies,
    )
    return UnsentBatch(charge, send_at, manifest.ends, batch=batch)


def _compute_reports(
    release: Release, rows: list[int], random_words: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    manifest = release.manifest
    # If the application has told numpy to raise errors, an underflow that depends on the rows would
    # fail here, and the missing batch would reveal something about the rows.
    with np.errstate(all="ignore"):
        own = Histories.from_lists([rows], manifest.items)
        x = solve_user_vectors(
            release.V, own, alpha=manifest.alpha, regularization=manifest.regularization
        )
        reports: NDArray[np.uint32] = manifest.build().reports(release.V, x, own, random_words)[0]
    return reports
