"""Test vectors that every implementation, in any language, must reproduce.

`mechanisms.json`: words and item matrices with the user vectors and reports, to the bit.
`thresholds.json`: the integers that every coin compares with: `flip` is the threshold of a sign,
`uniform` has cases of `loudest`: loud directions, directions without signs, and the threshold. The
files change only when the protocol does. `python -m tests.core.test_vectors` adds missing cases.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core import MECHANISMS, Histories, Shape, draw_initial_items, solve_user_vectors
from sottovoce.core.coin import WORD_RANGE, compute_flip_threshold
from sottovoce.core.loudest import Loudest
from sottovoce.training import Settings
from tests.people import random_people

MECHANISMS_FILE = Path(__file__).parents[1] / "vectors" / "mechanisms.json"
# Items, factors, alpha (0.1 is not exact in float32) and epsilon, which decides the blocks. Equal
# items make many directions tie. The equations of the last one are singular.
MODEL_SHAPES = {
    "small": (5, 1, 1.5, 2.5),
    "some items": (150, 3, 0.1, 2.5),
    "many items and factors": (300, 12, 7.3, 5.0),
    "several large blocks": (600, 2, 1.0, 1.6),
    "a small epsilon": (300, 2, 1.0, 0.5),
    "a large epsilon": (40, 3, 4.0, 12.0),
    "all items alike": (20, 2, 0.1, 3.0),
    "no solution": (6, 2, 0.1, 2.5),
}
ALL_CASES = [(name, shape) for name in MECHANISMS for shape in MODEL_SHAPES]


def compute_case(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    h = Histories.from_lists(case["histories"], case["items"])
    V = np.array([float.fromhex(v) for v in case["item_matrix"]], np.float32)
    V = V.reshape(case["items"], case["factors"])
    words = np.array([int(w, 16) for w in case["words"]], np.uint64)
    words = words.reshape(h.n_users, case["k"] + 1, 4)
    X = solve_user_vectors(V, h, alpha=case["alpha"], regularization=case["regularization"])
    shape = Shape(case["items"], case["factors"], case["alpha"])
    kind = MECHANISMS[case["mechanism"]]
    mechanism = kind.from_manifest(shape, case["epsilon"], case["parameters"])
    return X, mechanism.reports(V, X, h, words)


def make_case(name: str, shape: str) -> dict[str, Any]:
    """Make a case without the answers, with every parameter that a manifest carries."""
    n_items, factors, alpha, epsilon = MODEL_SHAPES[shape]
    h = random_people(4, n_items, seed=n_items)
    words = np.random.default_rng(7).integers(0, 2**64, 4 * 9 * 4, dtype=np.uint64)
    V = draw_initial_items(n_items, factors, 0.25, 7)
    if shape == "all items alike":
        V = np.full((n_items, factors), 0.25, np.float32)
    if shape == "no solution":
        V = np.full((n_items, factors), 2.0**20, np.float32)
    plan = Settings.preset(name, factors=factors, epsilon=epsilon, seed=7)
    return {
        "label": f"{name}, {shape}",
        "mechanism": name,
        "parameters": plan.build(n_items).public_parameters(),
        "epsilon": plan.epsilon,
        "k": 8,
        "factors": factors,
        "alpha": alpha,
        "regularization": 1e-12 if shape == "no solution" else 1e-6,
        "items": n_items,
        "histories": [h[user].tolist() for user in range(4)],
        "item_matrix": [float(v).hex() for v in V.ravel()],
        "words": [f"{int(word):016x}" for word in words],
    }


def compute_answers(case: dict[str, Any]) -> dict[str, Any]:
    X, reports = compute_case(case)
    return {
        "user_vectors": [float(x).hex() for x in X.ravel()],
        "reports": reports.tolist(),
    }


def test_every_mechanism_has_its_vectors() -> None:
    labels = [case["label"] for case in json.loads(MECHANISMS_FILE.read_text())]
    expected = [f"{name}, {shape}" for name, shape in ALL_CASES]
    assert labels == expected, "add the missing cases: python -m tests.core.test_vectors"


@pytest.mark.parametrize("number", range(len(ALL_CASES)))
def test_mechanism_vectors(number: int) -> None:
    case = json.loads(MECHANISMS_FILE.read_text())[number]
    assert compute_answers(case) == {name: case[name] for name in ("user_vectors", "reports")}


def main() -> None:
    """Add missing cases to the files."""
    # Present cases stay, because their parameters may differ from what would be chosen today.
    present = {case["label"]: case for case in json.loads(MECHANISMS_FILE.read_text())}
    cases = [make_case(name, shape) for name, shape in ALL_CASES]
    cases = [present.get(case["label"], {**case, **compute_answers(case)}) for case in cases]
    MECHANISMS_FILE.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    lines = ",\n".join(json.dumps(compute_thresholds(epsilon)) for epsilon in ALL_EPSILONS)
    THRESHOLDS_FILE.write_text("[\n" + lines + "\n]\n")


THRESHOLDS_FILE = Path(__file__).parents[1] / "vectors" / "thresholds.json"
ROUND_EPSILONS = [1e-6, 0.1, 0.5, 1.0, 2.5, 5.0, 6.0, 10.0, 39.9, 40.0]
INEXACT_EPSILONS = [
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
# On both sides of these, a threshold is rounded to different integers.
EDGE_EPSILONS = [
    math.log(WORD_RANGE / flipped - 1) for flipped in (79, 1_000, 1_000_003, 2**40 + 1)
]
ALL_EPSILONS = [
    *ROUND_EPSILONS,
    *INEXACT_EPSILONS,
    *(math.nextafter(near, to) for near in EDGE_EPSILONS for to in (0, 40)),
    *EDGE_EPSILONS,
]
LOUD_SHAPES = [
    (1, 1),
    (1, 8),
    (3, 8),
    (8, 8),
    (85, 256),
    (16_383, 16_384),
    (7, 2**24),
    (625, 312_992),
]


def compute_thresholds(epsilon: float) -> dict[str, Any]:
    uniform = [
        [loud, n, Loudest(Shape(n, 1, 1.0), epsilon, 0, 1, loud).blanket_below]
        for loud, n in LOUD_SHAPES
    ]
    return {
        "epsilon": epsilon,
        "flip": f"{compute_flip_threshold(epsilon):x}",
        "uniform": [[loud, n, f"{below:x}"] for loud, n, below in uniform],
    }


def test_threshold_vectors() -> None:
    assert json.loads(THRESHOLDS_FILE.read_text()) == [
        compute_thresholds(epsilon) for epsilon in ALL_EPSILONS
    ]


if __name__ == "__main__":
    main()
