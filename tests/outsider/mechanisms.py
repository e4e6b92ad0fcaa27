"""From words to reports: what the page says under that heading, in its order of operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tests.outsider.wire import row_count

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
    make = {"coordinate": _coordinate, "loudest": _loudest}[task.mechanism]
    return make(task, touched, x, draws)


def pick(word: int, n: int) -> int:
    return word * n >> 64


def flip_below(epsilon: float) -> int:
    """T: a word below it turns a sign."""
    return math.ceil(2**64 / (1 + _exponential(epsilon)))


def uniform_below(epsilon: float, loud: int, directions: int) -> int:
    """B: a word below it names a uniform direction."""
    c, d = -(-(2**64) // loud), 2**64 // (2 * directions)
    return math.ceil(2**64 * c / ((_exponential(epsilon) - 1) * d + c))


def _exponential(epsilon: float) -> Fraction:
    return Fraction(Decimal(epsilon).exp(Context(prec=60)))


def public_bytes(use: str, size: int, seed: int) -> bytes:
    prefix = b"sottovoce directions v2\0" + use.encode() + b"\0" + seed.to_bytes(8, "little")
    numbers = [number.to_bytes(4, "little") for number in range(-(-size // 32))]
    return b"".join(sha256(prefix + number).digest() for number in numbers)


def public_signs(items: int, seed: int) -> list[int]:
    data = public_bytes("signs", -(-items // 8), seed)
    return [-1 if data[i // 8] >> i % 8 & 1 else 1 for i in range(items)]


def public_places(items: int, seed: int) -> list[int]:
    data = public_bytes("order", 4 * items, seed)
    numbers = [int.from_bytes(data[4 * i : 4 * i + 4], "little") for i in range(items)]
    places = [0] * items
    for place, i in enumerate(sorted(range(items), key=lambda i: (numbers[i], i))):
        places[i] = place
    return places


def sign(r: int, i: int) -> int:
    """H[r, i]."""
    return -1 if (r & i).bit_count() & 1 else 1


def transform(values: Sequence[Float]) -> list[Float]:
    """H times the values, of which there are a power of two."""
    result, half = list(values), 1
    while half < len(result):
        for at in range(len(result)):
            if not at & half:
                u, v = result[at], result[at + half]
                result[at], result[at + half] = u + v, u - v
        half *= 2
    return result


def prediction(x: Vector, v: Sequence[np.float32] | Vector) -> np.float32:
    total: np.float32 = x[0] * v[0]
    for f in range(1, len(x)):
        total = total + x[f] * v[f]
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
        e = (one + alpha * p) * (p - prediction(x, task.model[i]))
        g = float(min(max((np.float32(-2) * e) * x[f], -one), one))
        is_plus = (w1 >> 11) * 2.0**-53 < (1 + g) / 2
        reports.append(index << 1 | (is_plus != (w2 < threshold)))
    return reports


def _loudest(task: Task, touched: Sequence[int], x: Vector, draws: Draws) -> list[int]:
    a, loud = gradient_rows(task, touched, x), task.parameters["loud"]
    n = len(a) * len(x)
    listed = loud_directions(a, x, loud, pick(draws[-1][0], 2 * n))
    threshold = uniform_below(task.epsilon, loud, n)
    return [
        pick(w0, 2 * n) if w2 < threshold else listed[pick(w0, loud)] for w0, _, w2, _ in draws[:-1]
    ]


def gradient_rows(task: Task, touched: Sequence[int], x: Vector) -> list[np.float32]:
    """a_r of every row r."""
    items, block = len(task.model), task.parameters["block"]
    signs = public_signs(items, task.parameters["directions_seed"])
    places = public_places(items, task.parameters["directions_seed"])
    one, alpha = np.float32(1), np.float32(task.alpha)
    weights = {}
    for i in touched:
        weight = (one + alpha) - alpha * prediction(x, task.model[i])
        weights[places[i]] = np.float32(signs[i]) * weight
    sums = touched_rows(weights, row_count(items, block), block)
    rotated = rotated_rows(task.model, signs, places, block)
    return [own - prediction(x, row) for own, row in zip(sums, rotated, strict=True)]


def rotated_rows(
    model: Vector, signs: Sequence[int], places: Sequence[int], block: int
) -> list[list[np.float32]]:
    """W."""
    items, factors = model.shape
    rows = row_count(items, block)
    columns = []
    for f in range(factors):
        column = [np.float64(0)] * rows
        for i in range(items):
            column[places[i]] = np.float64(signs[i]) * np.float64(model[i, f])
        for start in range(0, rows, block):
            column[start : start + block] = transform(column[start : start + block])
        columns.append(column)
    return [[np.float32(column[r]) for column in columns] for r in range(rows)]


def touched_rows(weights: Mapping[int, np.float32], rows: int, block: int) -> list[np.float32]:
    """What the touched items give to every row: weights by place, items ascending."""
    width = min(128, block)
    cells = [[np.float32(0)] * width for _ in range(rows // width)]
    for place, weight in weights.items():
        cell = cells[place // width]
        for j in range(width):
            cell[j] = cell[j] + weight * np.float32(sign(place % width, j))
    height = block // width
    for start in range(0, len(cells), height):
        for j in range(width):
            column = transform([cells[start + at][j] for at in range(height)])
            for at in range(height):
                cells[start + at][j] = column[at]
    return [value for cell in cells for value in cell]


def loud_directions(a: Sequence[np.float32], x: Vector, loud: int, offset: int) -> list[int]:
    """The signed directions that agree most, in the order of the page."""
    agreement: list[float] = []
    for row in a:
        for factor in x:
            size = abs(float(row)) * abs(float(factor))
            agreement += (-size, size) if (row > 0) != (factor > 0) else (size, -size)
    least = sorted(agreement, reverse=True)[loud - 1]
    louder = [number for number, agrees in enumerate(agreement) if agrees > least]
    ties = [number for number, agrees in enumerate(agreement) if agrees == least]
    ties.sort(key=lambda number: (number + offset) % len(agreement))
    return (louder + ties)[:loud]
