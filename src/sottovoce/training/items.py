"""The server's half of the paper's Algorithm 2: the first V, and from sums of signs the next one.

Live server and simulator call the same functions, so the same reports give the same bits.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import initial_items, rotate_factors, update
from sottovoce.core.bounds import flushed
from sottovoce.core.mechanism import Mechanism
from sottovoce.training.settings import Settings


def first_items(settings: Settings, n_items: int) -> NDArray[np.float32]:
    """What the devices are given for their first epoch."""
    V = initial_items(
        n_items, settings.factors, settings.initial_scale, settings.seed, settings.head_start
    )
    return _published(V, settings, 0)


def inherited_items(V: NDArray[np.float32], settings: Settings) -> NDArray[np.float32]:
    """What another training begins with: the last model of the one before, with its own factors.

    Fewer of them say the most that so many can; further ones begin like those of a first matrix.
    """
    U, sizes, _ = np.linalg.svd(V.astype(np.float64), full_matrices=False)
    kept = min(settings.factors, len(sizes))
    begun = first_items(settings, len(V))
    begun[:, :kept] = (U * sizes)[:, :kept]
    begun[~V.any(axis=1)] = 0  # an item that nobody has reported on yet stays one
    return _published(begun, settings, 0)


def next_items(
    V: NDArray[np.float32],
    sums: NDArray[np.int64],
    n_reports: int,
    epochs_done: int,
    settings: Settings,
    mechanism: Mechanism,
) -> NDArray[np.float32]:
    """All that the server does at the end of an epoch; `epochs_done` counts this one."""
    estimate = mechanism.estimate(sums, n_reports) * weight(n_reports, settings.dummies)
    return moved_items(V, estimate, epochs_done, settings)


def weight(reports: int, dummies: int) -> float:
    """Of an epoch's step: where few people report among many dummies, nearly all of it is noise.

    One visitor among 176 dummies would otherwise undo what hundreds have taught. Full as long as a
    third of the reports are people's, which all plans for the people who then come are.

    >>> weight(1_000, 0), weight(1_000, 2_000), round(weight(1, 176), 3)
    (1.0, 1.0, 0.017)
    """
    return min(1.0, 3 * reports / (reports + dummies))


def moved_items(
    V: NDArray[np.float32], estimate: NDArray[np.float64], epochs_done: int, settings: Settings
) -> NDArray[np.float32]:
    """The next V from an estimate of the mean gradient, however it was made."""
    V = update(
        V,
        estimate,
        rate=settings.rate,
        steps=settings.steps,
        regularization=settings.regularization,
        fade=settings.fade,
    )
    return _published(V, settings, epochs_done)


def _published(V: NDArray[np.float32], settings: Settings, epochs_done: int) -> NDArray[np.float32]:
    """What the devices are given for their next epoch."""
    return flushed(rotate_factors(V, settings.seed, epochs_done) if settings.rotate else V)
