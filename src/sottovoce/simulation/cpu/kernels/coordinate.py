"""The compiled kernel of `sottovoce.core.coordinate`, with the same order of operations."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.coordinate import CoordinateConstants
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.philox import compute_draw_products, fill_words, multiply_high
from sottovoce.simulation.evaluation.kernels import compile_inner, score
from sottovoce.simulation.interface import EpochConstants

Scratch = tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]

# Python numbers would turn float32 arithmetic into float64.
_ONE_FLOAT = np.float32(1)
_ZERO_FLOAT = np.float32(0)
_MINUS_TWO = np.float32(-2)


@compile_inner
def make_scratch(
    c: EpochConstants,
    m: CoordinateConstants,  # noqa: ARG001 - the signature of all kernels
    longest: int,  # noqa: ARG001
) -> Scratch:
    """Allocate memory: a flag for each item, the products of the draws, one person's words."""
    k = c.reports
    return np.zeros(c.V.shape[0], np.uint8), compute_draw_products(k), np.empty((k, 3), np.uint64)


@compile_inner
def fill_reports(
    numbers: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    X: NDArray[np.float32],
    c: EpochConstants,
    m: CoordinateConstants,
    scratch: Scratch,
    out: NDArray[np.uint32],
) -> None:
    """Write the reports of one user after the other into `out`."""
    for u in range(X.shape[0]):
        items = indices[indptr[u] : indptr[u + 1]]
        report_entries(numbers[u], items, X[u], c, m, scratch, out[u])


@compile_inner
def report_entries(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    c: EpochConstants,
    m: CoordinateConstants,
    scratch: Scratch,
    out: NDArray[np.uint32],
) -> None:
    """Run Algorithm 1 of the paper k times for one user."""
    # `touched` is all zero before and after this call.
    touched, draw_products, random_words = scratch
    # All words are drawn first: drawing keeps the processor's multiplier busy, but the loop below
    # waits for memory.
    fill_words(c.seed, c.epoch, user, draw_products, random_words)
    for i in items:
        touched[i] = 1
    alpha = np.float32(c.alpha)
    factors = np.uint64(x.shape[0])
    for j in range(out.shape[0]):
        direction, choice, coin = random_words[j, 0], random_words[j, 1], random_words[j, 2]
        index = multiply_high(direction, c.n_directions)
        item = index // factors
        p = _ONE_FLOAT if touched[item] else _ZERO_FLOAT
        e = (_ONE_FLOAT + alpha * p) * (p - score(x, c.V[item]))
        g = (_MINUS_TWO * e) * x[index - item * factors]
        value = np.float64(min(max(g, -_ONE_FLOAT), _ONE_FLOAT))
        plus = np.float64(choice >> np.uint64(11)) * 2.0**-53 < (1.0 + value) / 2.0
        flip = coin < m.threshold
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != flip)
    for i in items:
        touched[i] = 0


plug_in(CoordinateConstants, make_scratch, fill_reports)
