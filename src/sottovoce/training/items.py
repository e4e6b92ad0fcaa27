"""The server's part of the paper's Algorithm 2: the first V, and the next V from sums of signs.

The live server and the simulator call the same functions, so the same reports give the same V.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import draw_initial_items, rotate_factors, sum_squares, update_items
from sottovoce.core.bounds import round_items
from sottovoce.core.mechanism import Mechanism
from sottovoce.training.names import NameCounts
from sottovoce.training.settings import Settings

# Default limit on the length of a row of the estimate, in multiples of the typical row length.
DEFAULT_ROW_LIMIT = 1.0

# The typical row length is this quantile of the lengths of rows that are not zero, times
# max(FULL_MEMORY_EPOCHS / memory, 1). Both numbers were chosen with seeds from 1000 on: smaller
# ones make the lists of small crowds worse, larger ones let attackers pass.
ROW_LENGTH_QUANTILE = 0.75
FULL_MEMORY_EPOCHS = 20

# The length of a public start, relative to what all epochs could move if their reports agreed. It
# is also the largest length of a mean gradient that a step believes in: on the Netflix films it is
# about 0.16, but in a noisy epoch an estimate is longer by chance.
START_LENGTH = 0.15
# The expected squared error of a public start, relative to its squared length. A larger one lets
# reports move a start faster. Chosen with seeds 1003 and 1004: on the Netflix films, 0.8 is as
# good, and 0.22 is worse; on MovieLens 1M, 0.22 is a little better, and with 0.8 a budget of 10 is
# worse than no reports.
START_ERROR = 0.4
# Length of a public start in a training of names, relative to the length of the column of shares
# that the start gives. On the Netflix days, the column of reports was then about as long.
START_LENGTH_WITH_SHARES = 2.0


def make_first_items(settings: Settings, n_items: int) -> NDArray[np.float32]:
    """Return the item matrix that devices receive for their first epoch, without a start."""
    if settings.asks_for_names:
        no_factors = np.zeros((n_items, settings.factors), np.float32)
        return NameCounts.make_empty(n_items).update_items(no_factors)
    V = draw_initial_items(
        n_items, settings.factors, settings.initial_scale, settings.seed, settings.head_start
    )
    return _prepare_release(V, settings, 0)


def make_items_from_start(settings: Settings, start: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the item matrix of the first epoch of a training that has a public start.

    Args:
        settings: The training's settings, with the number of factors of the start; in a training of
            names one more, for the shares.
        start: The item matrix of the start. If the settings have more factors, the additional ones
            are those of a first matrix.
    """
    if settings.asks_for_names:
        shares = NameCounts.from_items(start).compute_shares()
        return np.concatenate([round_items(shares)[:, None], set_start_length(start)], axis=1)
    V = set_length(start, START_LENGTH * settings.rate * settings.memory)
    if settings.factors > V.shape[1]:
        first = make_first_items(settings, len(V))
        first[:, : V.shape[1]] = V
        first[~V.any(axis=1)] = 0
        V = first
    return _prepare_release(V, settings, 0)


def set_start_length(start: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale the factors of a start for a training of names, in which they stay as they are."""
    shares = NameCounts.from_items(start).compute_shares()
    length = START_LENGTH_WITH_SHARES * np.sqrt(sum_squares(shares))
    return round_items(set_length(start, length))


def set_length(V: NDArray[np.float32], length: float) -> NDArray[np.float32]:
    """Scale V, so that the root of the sum of its squared entries is `length`."""
    scale = length / np.sqrt(max(sum_squares(V), 1e-300))
    return np.asarray(V * scale, np.float32)


def inherit_items(V: NDArray[np.float32], settings: Settings) -> NDArray[np.float32]:
    """Return the first item matrix of a training that continues from another training's model.

    If the new training has fewer factors, the matrix is the best approximation of the old one with
    this number of factors. If it has more, the additional factors are those of a first matrix.

    Args:
        V: The last item matrix of the other training.
        settings: Settings of the new training.
    """
    n_inherited = min(settings.factors, *V.shape)
    first = make_first_items(settings, len(V))
    first[:, :n_inherited] = fit_factors(V, n_inherited)
    first[~V.any(axis=1)] = 0  # a row of zeros marks an item that nobody has reported on yet
    return _prepare_release(first, settings, 0)


def fit_factors(V: NDArray[np.float32], factors: int) -> NDArray[np.float32]:
    """Return the best approximation of V with this number of columns; zeros fill more columns.

    Rows of zeros stay as they are.
    """
    U, sizes, _ = np.linalg.svd(V.astype(np.float64), full_matrices=False)
    n_kept = min(factors, len(sizes))
    fitted = np.zeros((len(V), factors), np.float32)
    fitted[:, :n_kept] = (U * sizes)[:, :n_kept]
    fitted[~V.any(axis=1)] = 0
    return round_items(fitted)


def compute_next_items(
    V: NDArray[np.float32],
    sums: NDArray[np.int64],
    n_reports: int,
    epochs_done: int,
    settings: Settings,
    mechanism: Mechanism,
    *,
    row_limit: float = 0.0,
    has_start: bool = False,
) -> NDArray[np.float32]:
    """Compute the item matrix of the next epoch from the reports of an epoch.

    Args:
        V: The item matrix of this epoch.
        sums: Sum of the reported signs of each direction, dummies included.
        n_reports: Number of people's reports in the sums, without dummies.
        epochs_done: Number of epochs so far, including this one.
        settings: The training's settings.
        mechanism: The mechanism that made the reports.
        row_limit: Largest length of a row of the estimated gradient, in multiples of the typical
            row length; 0 means no limit.
        has_start: Whether the training has a public start, which noise must not destroy.
    """
    estimate = mechanism.estimate(sums, n_reports)
    fade = settings.fade
    if has_start:
        share = compute_share_of_epoch(estimate, n_reports, epochs_done, settings, mechanism)
        estimate *= share * settings.memory
        fade = 1 - share
    else:
        estimate *= compute_step_weight(n_reports, settings.dummies)
    if row_limit:
        estimate = limit_row_lengths(estimate, row_limit, settings.memory)
    return apply_update(V, estimate, epochs_done, settings, fade)


def limit_row_lengths(
    estimate: NDArray[np.float64], times: float, memory: float
) -> NDArray[np.float64]:
    """Shorten rows that are longer than `times` the typical row length, and keep their directions.

    This limits attackers who push one item in every epoch.

    Args:
        estimate: The estimated mean gradient, M x F.
        times: Largest length of a row, in multiples of the typical row length.
        memory: `Settings.memory` of the training.

    >>> rows = np.array([[0.0], [1.0], [2.0], [2.0], [2.0], [-9.0]])
    >>> limit_row_lengths(rows, 1.5, 20.0).ravel().tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, -3.0]
    """
    return clip_row_lengths(estimate, times * measure_typical_row_length(estimate, memory))


def measure_typical_row_length(estimate: NDArray[np.float64], memory: float) -> float:
    """Return the typical row length: a quantile of the lengths that are not 0, scaled by memory.

    If all rows are 0, it is 0.

    Args:
        estimate: The estimated mean gradient, M x F.
        memory: `Settings.memory` of the training.
    """
    lengths = np.linalg.norm(estimate, axis=1)
    # If few people report, most rows are zero, and a quantile of all rows would be zero, too.
    moved = lengths[lengths > 0]
    # A model that remembers few epochs must learn more in each of them, so its rows may be longer.
    scale = max(FULL_MEMORY_EPOCHS / memory, 1.0)
    return float(np.quantile(moved, ROW_LENGTH_QUANTILE)) * scale if len(moved) else 0.0


def clip_row_lengths(rows: NDArray[np.float64], max_length: float) -> NDArray[np.float64]:
    """Shorten rows that are longer than `max_length`, and keep their directions."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, max_length / np.maximum(lengths, 1e-300)))


def compute_share_of_epoch(
    estimate: NDArray[np.float64],
    n_reports: int,
    epochs_done: int,
    settings: Settings,
    mechanism: Mechanism,
) -> float:
    """Return the share of an epoch in the next item matrix of a training with a public start.

    The start and every epoch are estimates of the same matrix, and each counts by the inverse of
    its squared error, as in a Kalman filter. So reports without a signal leave the start as it is,
    and many reports replace it.

    Args:
        estimate: The estimated mean gradient of the epoch.
        n_reports: Number of people's reports, without dummies.
        epochs_done: Number of epochs so far, including this one.
        settings: The training's settings.
        mechanism: The mechanism that made the reports.
    """
    # Reports are independent, so the squared length of the estimate is, in the mean, the squared
    # length of the signal plus that of the noise: the sum over single reports.
    one_report = np.zeros(mechanism.n_sums, np.int64)
    one_report[0] = 1
    squared_length = sum_squares(mechanism.estimate(one_report, n_reports))
    noise = squared_length * (n_reports + settings.dummies)
    signal = min(max(sum_squares(estimate) - noise, 0.0), START_LENGTH**2)
    # The squared error of the start, relative to that of the epoch.
    weight = START_ERROR * signal / noise
    return weight / (1 + min(epochs_done, settings.memory) * weight)


def compute_step_weight(reports: int, dummies: int) -> float:
    """Return the weight of an epoch's step, which is below 1 if most reports are dummies.

    With few people among many dummies, nearly all of a step is noise: one person among 176 dummies
    would undo what hundreds have taught. The weight is 1 if at least a third of the reports are
    from people. In every plan this is so if the expected number of people take part.

    Args:
        reports: Number of people's reports, without dummies.
        dummies: Number of dummies.

    >>> [round(compute_step_weight(*n), 3) for n in ((1_000, 0), (1_000, 2_000), (1, 176))]
    [1.0, 1.0, 0.017]
    """
    return min(1.0, 3 * reports / (reports + dummies))


def apply_update(
    V: NDArray[np.float32],
    estimate: NDArray[np.float64],
    epochs_done: int,
    settings: Settings,
    fade: float | None = None,
) -> NDArray[np.float32]:
    """Return the next V for an estimate of the mean gradient, M x F.

    Args:
        V: The item matrix of this epoch.
        estimate: The estimated mean gradient.
        epochs_done: Number of epochs so far, including this one.
        settings: The training's settings.
        fade: Factor of V; None: that of the settings.
    """
    V = update_items(
        V,
        estimate,
        rate=settings.rate,
        steps=settings.steps,
        regularization=settings.regularization,
        fade=settings.fade if fade is None else fade,
    )
    return _prepare_release(V, settings, epochs_done)


def _prepare_release(
    V: NDArray[np.float32], settings: Settings, epochs_done: int
) -> NDArray[np.float32]:
    """Rotate V to the next epoch's basis if `settings.rotate`, and round it."""
    return round_items(rotate_factors(V, settings.seed, epochs_done) if settings.rotate else V)
