"""From words to reports: what the page says under that heading, in its order of operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tests.outsider.wire import power

Vector = NDArray[np.float32]
Float = TypeVar("Float", np.float32, np.float64)
Draws = Sequence[Sequence[int]]
"""Four words for each report, and four more, which serve ties."""


class Task(NamedTuple):
    """What reports are made from, but for the person's items and the words."""

    mechanism: str
    parameters: Mapping[str, int]
    epsilon: float
    model: Vector
    alpha: float
    regularization: float


def make_reports(task: Task, history: Iterable[int], words: Sequence[int]) -> list[int]:
    touched = sorted(set(history))
    x = user_vector(task.model, touched, task.alpha, task.regularization)
    draws = [words[at : at + 4] for at in range(0, len(words), 4)]
    make = {"coordinate": _coordinate, "hadamard": _hadamard, "loudest": _loudest}[task.mechanism]
    return make(task, touched, x, draws)


def pick(word: int, n: int) -> int:
    return word * n >> 64


def flip_below(epsilon: float) -> int:
    """T: a word below it turns a sign."""
    return math.ceil(2**64 / (1 + _exponential(epsilon)))


def uniform_below(epsilon: float, loud: int, rows: int) -> int:
    """B: a word below it names a uniform row."""
    c = 2 * rows * -(-(2**64) // loud)
    return math.ceil(2**64 * c / (2**64 * (_exponential(epsilon) - 1) + c))


def _exponential(epsilon: float) -> Fraction:
    return Fraction(Decimal(epsilon).exp(Context(prec=60)))


def public_signs(axis: str, n: int, seed: int) -> Vector:
    prefix = b"sottovoce directions v1\0" + axis.encode() + b"\0" + seed.to_bytes(8, "little")
    numbers = [number.to_bytes(4, "little") for number in range(-(-n // 256))]
    blocks = b"".join(sha256(prefix + number).digest() for number in numbers)
    bits = np.unpackbits(np.frombuffer(blocks, np.uint8), bitorder="little")[:n]
    return (1 - 2 * bits.astype(np.float32)).astype(np.float32)


def transform(values: NDArray[Float]) -> NDArray[Float]:
    """H times the values, along the first axis."""
    n: int = power(len(values))
    rest: tuple[int, ...] = values.shape[1:]
    result = np.zeros((n, *rest), values.dtype)
    result[: len(values)] = values
    half = 1
    while half < n:
        pairs = result.reshape(n // (2 * half), 2, half, *rest)
        sums, differences = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        result = np.stack([sums, differences], axis=1).reshape(n, *rest)
        half *= 2
    return result


def predictions(x: Vector, rows: Vector) -> Vector:
    """x.v of every row, factor after factor."""
    total: Vector = x[0] * rows[:, 0]
    for f in range(1, len(x)):
        total = total + x[f] * rows[:, f]
    return total


@np.errstate(all="ignore")
def user_vector(model: Vector, touched: Sequence[int], alpha: float, lambda_: float) -> Vector:
    v, factors = model.astype(np.float64), model.shape[1]
    gram, own, z = np.zeros((factors, factors)), np.zeros((factors, factors)), np.zeros(factors)
    for row in v:
        gram += np.outer(row, row)
    for i in touched:
        own += np.outer(v[i], v[i])
        z += v[i]
    system = (gram + alpha * own) + lambda_ * np.eye(factors)
    x = _solved(system, (1 + alpha) * z).astype(np.float32)
    return x if np.all(np.abs(x) <= 2.0**40) else np.zeros_like(x)


def _solved(a: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cholesky by columns, forward and back substitution, in place."""
    factors = len(x)
    for j in range(factors):
        for m in range(j):
            a[j:, j] -= a[j:, m] * a[j, m]
        a[j, j] = np.sqrt(a[j, j])
        a[j + 1 :, j] /= a[j, j]
    for i in range(factors):
        for m in range(i):
            x[i] -= a[i, m] * x[m]
        x[i] /= a[i, i]
    for i in reversed(range(factors)):
        for m in range(i + 1, factors):
            x[i] -= a[m, i] * x[m]
        x[i] /= a[i, i]
    return x


def _coordinate(task: Task, touched: Sequence[int], x: Vector, draws: Draws) -> list[int]:
    items, factors = task.model.shape
    threshold = flip_below(task.epsilon)
    one, alpha, reports = np.float32(1), np.float32(task.alpha), []
    for w0, w1, w2, _ in draws[:-1]:
        index = pick(w0, items * factors)
        i, f = divmod(index, factors)
        p = np.float32(i in touched)
        e = (one + alpha * p) * (p - predictions(x, task.model[i : i + 1])[0])
        g = float(min(max((np.float32(-2) * e) * x[f], -one), one))
        is_plus = (w1 >> 11) * 2.0**-53 < (1 + g) / 2
        reports.append(index << 1 | (is_plus != (w2 < threshold)))
    return reports


class Rotated(NamedTuple):
    weights: Vector
    """Of the touched items."""
    predictions: Vector
    """x.W_r of every row r."""
    b: Vector


def _rotated(task: Task, touched: Sequence[int], x: Vector) -> Rotated:
    items, factors = task.model.shape
    seed, one, alpha = task.parameters["directions_seed"], np.float32(1), np.float32(task.alpha)
    s, t = public_signs("items", items, seed), public_signs("factors", factors, seed)
    rotated = transform(s[:, None] * task.model.astype(np.float64)).astype(np.float32)
    own = predictions(x, task.model[list(touched)])
    weights = s[list(touched)] * ((one + alpha) - alpha * own)
    return Rotated(weights, predictions(x, rotated), transform(t * x))


def _hadamard(task: Task, touched: Sequence[int], x: Vector, draws: Draws) -> list[int]:
    weights, shares, b = _rotated(task, touched, x)
    threshold, reports = flip_below(task.epsilon), []
    for w0, w1, w2, _ in draws[:-1]:
        index = pick(w0, len(shares) * len(b))
        r, q = divmod(index, len(b))
        total = np.float32(0)
        for i, weight in zip(touched, weights, strict=True):
            total = total + (-weight if (r & i).bit_count() & 1 else weight)
        a = total - shares[r]
        is_plus = w1 >> 63 == 1 if a == 0 or b[q] == 0 else bool(a > 0) != bool(b[q] > 0)
        reports.append(index << 1 | (is_plus != (w2 < threshold)))
    return reports


def _loudest(task: Task, touched: Sequence[int], x: Vector, draws: Draws) -> list[int]:
    weights, shares, b = _rotated(task, touched, x)
    rows, loud = len(shares), task.parameters["loud"]
    a = _all_rows(touched, weights, rows) - shares
    mask = pick(draws[-1][0], 2 * rows)
    louds = _loud_rows(a, mask, loud)
    threshold, reports = uniform_below(task.epsilon, loud, rows), []
    for w0, w1, w2, _ in draws[:-1]:
        q, rank = pick(w0, len(b)), pick(w1, loud)
        if w2 < threshold:
            row = pick(w1, 2 * rows)
        elif b[q] == 0:
            row = rank ^ mask
        else:
            row = louds[rank] ^ int(b[q] > 0)
        reports.append(((row >> 1) * len(b) + q) << 1 | row & 1)
    return reports


def _all_rows(touched: Sequence[int], weights: Vector, rows: int) -> Vector:
    """What the touched items give to every row, in blocks of 128."""
    width = min(128, rows)
    signs = transform(np.eye(width, dtype=np.float32))
    cells = np.zeros((rows // width, width), np.float32)
    for i, weight in zip(touched, weights, strict=True):
        cells[i // width] += weight * signs[i % width]
    return transform(cells).reshape(rows)


def _loud_rows(a: Vector, mask: int, loud: int) -> list[int]:
    signed_rows = np.arange(2 * len(a))
    agreement = np.stack([-a, a], axis=1).reshape(2 * len(a))
    first: NDArray[Any] = np.lexsort((signed_rows ^ mask, -agreement))[:loud]
    return sorted(int(row) for row in first)
