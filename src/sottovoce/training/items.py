"""The server's half of the paper's Algorithm 2: the first V, and from sums of signs the next one.

Live server and simulator call the same functions, so the same reports give the same bits.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import initial_items, rotate_factors, update
from sottovoce.core.bounds import flushed
from sottovoce.core.mechanism import Mechanism
from sottovoce.training.settings import Settings

ROW_LIMIT = 1.0
"""Of a live server, unless its operator says otherwise."""
USUAL, MANY = 0.75, 20
"""How `usual_way` counts, by seeds from 1000 on: medians, or fewer epochs, cost small crowds up to
0.15 of HR@10, and longer ways let liars pass (lab/docs/report.md)."""


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
    *,
    row_limit: float = 0.0,
) -> NDArray[np.float32]:
    """All that the server does at the end of an epoch; `epochs_done` counts this one.

    With a `row_limit` no row moves farther than `limited` lets it; 0: as far as reports say.
    """
    estimate = mechanism.estimate(sums, n_reports) * weight(n_reports, settings.dummies)
    if row_limit:
        estimate = limited(estimate, row_limit, settings.memory)
    return moved_items(V, estimate, epochs_done, settings)


def limited(estimate: NDArray[np.float64], times: float, memory: float) -> NDArray[np.float64]:
    """No row longer than so many times `usual_way`; a longer one keeps its direction.

    Against liars, who push one item in every epoch.

    >>> limited(np.array([[0.0], [1.0], [2.0], [2.0], [2.0], [-9.0]]), 1.5, 20.0).ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, -3.0]
    """
    return shortened(estimate, times * usual_way(estimate, memory))


def usual_way(estimate: NDArray[np.float64], memory: float) -> float:
    """What three quarters of the rows that move at all stay within.

    Most rows do not where few people report. A model made of fewer than `MANY` epochs has to learn
    as much in each as others do in several.
    """
    lengths = np.linalg.norm(estimate, axis=1)
    moved = lengths[lengths > 0]
    return float(np.quantile(moved, USUAL)) * max(MANY / memory, 1.0) if len(moved) else 0.0


def shortened(rows: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """No row longer than this; a longer one keeps its direction."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, most / np.maximum(lengths, 1e-300)))


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
