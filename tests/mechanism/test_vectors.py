"""`tests/vectors/mechanisms.json`: what every implementation, in any language, must reproduce.

Words and item matrices go in, user vectors and reports come out, bit for bit. The file changes only
when the protocol does. To write it anew: `python -m tests.mechanism.test_vectors`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.mechanism import MECHANISMS
from sottovoce.model import Histories, initial_items, user_vectors
from sottovoce.training import Settings
from tests.people import random_people

FILE = Path(__file__).parents[1] / "vectors" / "mechanisms.json"
CASES = [(name, items, factors) for name in MECHANISMS for items, factors in ((5, 1), (150, 3))]


def compute(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    plan = Settings.preset(case["settings"]["mechanism"], **case["settings"])
    h = Histories.from_lists(case["histories"], case["n_items"])
    V = np.array([float.fromhex(v) for v in case["item_matrix"]], np.float32)
    V = V.reshape(case["n_items"], plan.factors)
    words = np.array([int(w, 16) for w in case["words"]], np.uint64)
    words = words.reshape(h.n_users, plan.reports + 1, 4)
    X = user_vectors(V, h, alpha=plan.alpha, regularization=plan.regularization)
    return X, plan.build(h.n_items).reports(V, X, h, words)


def make(name: str, n_items: int, factors: int) -> dict[str, Any]:
    """Without the answers."""
    h = random_people(4, n_items, seed=n_items)
    words = np.random.default_rng(7).integers(0, 2**64, 4 * 9 * 4, dtype=np.uint64)
    V = initial_items(n_items, factors, 0.25, 7)
    return {
        "settings": {"mechanism": name, "factors": factors, "reports": 8, "seed": 7, "alpha": 1.5},
        "n_items": n_items,
        "histories": [h[user].tolist() for user in range(4)],
        "item_matrix": [float(v).hex() for v in V.ravel()],
        "words": [f"{int(word):016x}" for word in words],
    }


def answers(case: dict[str, Any]) -> dict[str, Any]:
    X, reports = compute(case)
    return {
        "user_vectors": [float(x).hex() for x in X.ravel()],
        "reports": reports.tolist(),
    }


def test_every_mechanism_has_its_vectors() -> None:
    known = [
        (case["settings"]["mechanism"], case["n_items"], case["settings"]["factors"])
        for case in json.loads(FILE.read_text())
    ]
    assert known == CASES, "write the new ones: python -m tests.mechanism.test_vectors"


@pytest.mark.parametrize("number", range(len(CASES)))
def test_vectors(number: int) -> None:
    case = json.loads(FILE.read_text())[number]
    assert answers(case) == {name: case[name] for name in ("user_vectors", "reports")}


def main() -> None:
    cases = [make(*case) for case in CASES]
    cases = [{**case, **answers(case)} for case in cases]
    FILE.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
