"""`tests/vectors/thresholds.json`: the integers that every coin, in any language, compares with.

`flip` is the threshold of a sign, `uniform` that of `loudest` with so many loud directions out of
twice so many. The file changes only when the protocol does. To write it anew:
`python -m tests.core.test_threshold_vectors`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from sottovoce.core.coin import WORD, flip_threshold
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Shape

FILE = Path(__file__).parents[1] / "vectors" / "thresholds.json"
PLAIN = [1e-6, 0.1, 0.5, 1.0, 2.5, 5.0, 6.0, 10.0, 39.9, 40.0]
AWKWARD = [
    math.nextafter(1e-6, 1),
    0.1 + 0.2,
    math.log(2),
    math.log(3),
    math.nextafter(1.0, 0),
    math.nextafter(1.0, 2),
    math.pi,
    math.e,
    1 / 3,
    22.180709777918249,
    math.nextafter(40.0, 0),
]
NEAR = [math.log(WORD / flipped - 1) for flipped in (79, 1_000, 1_000_003, 2**40 + 1)]
EPSILONS = [*PLAIN, *AWKWARD, *(math.nextafter(near, to) for near in NEAR for to in (0, 40)), *NEAR]
"""Near: on both sides of where a threshold goes from one integer to the next."""
SHAPES = [(1, 1), (1, 8), (3, 8), (8, 8), (85, 256), (16_383, 16_384), (7, 2**24), (625, 312_992)]


def made(epsilon: float) -> dict[str, Any]:
    uniform = [
        [loud, n, Loudest(Shape(n, 1, 1.0), epsilon, 0, 1, loud).blanket_below]
        for loud, n in SHAPES
    ]
    return {
        "epsilon": epsilon,
        "flip": f"{flip_threshold(epsilon):x}",
        "uniform": [[loud, n, f"{below:x}"] for loud, n, below in uniform],
    }


def test_thresholds() -> None:
    assert json.loads(FILE.read_text()) == [made(epsilon) for epsilon in EPSILONS]


def test_every_threshold_is_a_word() -> None:
    for case in json.loads(FILE.read_text()):
        words = [case["flip"], *(below for _, _, below in case["uniform"])]
        assert all(0 < int(word, 16) < WORD for word in words)


def main() -> None:
    lines = ",\n".join(json.dumps(made(epsilon)) for epsilon in EPSILONS)
    FILE.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
