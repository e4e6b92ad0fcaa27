"""`tests/vectors/promises.json`: what any client, in any language, must promise under given terms.

Terms go in, the two epsilons of a lifetime come out: `local` exactly, `central` to a relative 1e-9
(sums and elementary functions may round differently). The file changes only when the bound does. To
write it anew: `python -m tests.privacy.test_promise_vectors`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy import Reporting, promise

FILE = Path(__file__).parents[1] / "vectors" / "promises.json"
NAMES = ("epsilon", "loud_fraction", "reports", "epochs", "clients", "delta")
CASES: list[tuple[float, float, int, int, int, float]] = [
    # The presets, at the default crowd and at large ones.
    *((5.0, 0.0318, 1, 2, clients, 1e-6) for clients in (1, 2, 100, 1_000, 50_000, 10_000_000)),
    *((2.5, 0.165, 100, 20, clients, 1e-6) for clients in (100, 75_040)),
    *((2.5, 0.5, 100, 20, clients, 1e-6) for clients in (100, 50_000, 1_000_000)),
    (0.5, 0.5, 50, 20, 10_000, 1e-8),
    (6.0, 0.5, 250, 20, 50_000, 1e-6),
    # One report in a lifetime.
    *((epsilon, 0.05, 1, 1, 1_000_000, 1e-9) for epsilon in (1.0, 4.0, 7.0)),
    # A blanket that is often small, and one that is hardly there.
    *((8.0, rho, 1, 2, 50_000, 1e-6) for rho in (0.03, 0.165, 0.5)),
    (8.0, 0.5, 10, 1, 50_000, 1e-6),
    (10.0, 0.002, 25, 20, 75_040, 1e-6),
    (40.0, 0.5, 1, 1, 10_000_000, 1e-6),
    # Small crowds, where nothing is grouped; and where grouping begins.
    *((1.5, rho, 3, 1, clients, 1e-3) for rho in (0.01, 0.25, 0.5) for clients in (2, 3, 10)),
    *((1.0, 0.3, 10, 4, clients, 1e-6) for clients in (400, 700, 3_000)),
    # The ends.
    (1e-6, 0.5, 1, 1, 1_000, 1e-6),
    (1e-6, 0.5, 10_000, 1_000, 2, 1e-6),
    (0.01, 0.345, 100, 1_000, 1_000_000, 1e-6),
    (1.0, 1e-6, 10, 10, 1_000, 1e-6),
    (1.0, 0.2, 10_000, 100_000, 10_000_000, 1e-6),
    (1.0, 0.2, 10, 10, 1_000, 0.5),
    (1.0, 0.2, 10, 10, 30, 1e-100),
]


def made(given: dict[str, Any]) -> dict[str, float]:
    event = Reporting(*(given[name] for name in ("epsilon", "reports", "epochs", "loud_fraction")))
    found = promise(event, given["clients"], given["delta"])
    return {"local": found.local, "central": found.central}


def stored() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(FILE.read_text())
    return content


def test_the_file_has_these_cases() -> None:
    assert [tuple(case[name] for name in NAMES) for case in stored()] == CASES


@pytest.mark.parametrize("number", range(len(CASES)))
def test_promises_are_as_the_file_says(number: int) -> None:
    case = stored()[number]
    found = made(case)
    assert found["local"] == case["local"]
    assert found["central"] == pytest.approx(case["central"], rel=1e-9, abs=0)


def main() -> None:
    cases = [dict(zip(NAMES, case, strict=True)) for case in CASES]
    lines = ",\n".join(json.dumps({**case, **made(case)}) for case in cases)
    FILE.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
