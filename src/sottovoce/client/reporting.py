"""Making a batch: the one place where something private becomes something that may leave."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sottovoce.client.store import Waiting
from sottovoce.errors import SettingsError
from sottovoce.model import Histories, user_vectors
from sottovoce.privacy import Charge
from sottovoce.protocol import Batch, seal_reports
from sottovoce.protocol.batch import ID

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.protocol import Edition

    Words = Callable[[int, int], NDArray[np.uint64]]
    """(users, reports) to random words, as `sottovoce.mechanism.os_words`."""
    Entropy = Callable[[int], bytes]
    """So many random bytes, as `os.urandom`."""

_UNIT = 2.0**-53


def make_batch(edition: Edition, rows: list[int], words: Words, entropy: Entropy) -> Waiting:
    """Exactly k sealed reports of whoever touched these rows; of nobody's history just as many.

    To stay silent with nothing to say would be saying it.
    """
    manifest = edition.manifest
    if manifest.public_key is None:
        raise SettingsError("this manifest asks for no reports")
    own = Histories.from_lists([rows], manifest.items)
    x = user_vectors(edition.V, own, alpha=manifest.alpha, regularization=manifest.regularization)
    reports = manifest.build().reports(edition.V, x, own, words(1, manifest.reports))
    sealed = seal_reports(reports[0], manifest.public_key, edition.signed.hash)
    batch = Batch(manifest.epoch, edition.signed.hash, entropy(ID), sealed).encode()
    purpose = hashlib.sha256(batch).digest()
    charge = Charge(manifest.epoch, purpose, manifest.mechanism, manifest.epsilon, manifest.reports)
    return Waiting(charge, manifest.closes, batch)


def pause_before_sending(most: float, entropy: Entropy) -> float:
    """Uniform in [0, most): when a batch arrives must not say when its device woke up."""
    return most * ((int.from_bytes(entropy(8), "little") >> 11) * _UNIT)
