"""`tests/vectors/promises.json`: what any client, in any language, must promise under given terms.

Terms, what was charged before, and a limit go in. The two epsilons of everything come out, `local`
exactly, `central` to a relative 1e-9 (sums and elementary functions may round differently); the
turns that are left, how many of them the limit allows, and the sentence. The file changes only when
the promise does. To write it anew: `python -m tests.privacy.test_promise_vectors`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy import Charge, Ledger
from tests.protocol.examples import terms

FILE = Path(__file__).parents[1] / "vectors" / "promises.json"
NAMES = ("epsilon", "loud_fraction", "reports", "epochs", "clients", "delta")
Numbers = tuple[float, float, int, int, int, float]
LIMIT = 30.0
ALONE: list[Numbers] = [
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
STRONG: Numbers = (5.0, 0.0318, 1, 2, 1_000, 1e-6)
DEAR: Numbers = (10.0, 0.0318, 1, 2, 1_000, 1e-6)


def charged(times: int, training: str = "other", numbers: Numbers = STRONG) -> dict[str, Any]:
    """A training whose epochs were charged so often."""
    epsilon, loud_fraction, reports, _, clients, _ = numbers
    kind = {"epsilon": epsilon, "reports": reports, "loud_fraction": loud_fraction}
    return {"training": training, **kind, "clients": clients, "times": times}


AFTER: list[tuple[Numbers, float, list[dict[str, Any]]]] = [
    # In the middle of a training, at its end, and beyond an end that came nearer.
    *((STRONG, LIMIT, [charged(times, "own")]) for times in (1, 2, 3)),
    # A second training with the same numbers, a third, and the limit raised.
    (DEAR, LIMIT, [charged(2, numbers=DEAR)]),
    (DEAR, 45.0, [charged(2, numbers=DEAR)]),
    (DEAR, LIMIT, [charged(2, numbers=DEAR), charged(1, "own", DEAR)]),
    (DEAR, 60.0, [charged(2, numbers=DEAR), charged(2, "third", DEAR)]),
    # Beyond a limit that was lowered.
    (DEAR, 15.0, [charged(2, numbers=DEAR)]),
    # Other kinds of reports, and other crowds: the least of a kind, and none at all.
    (STRONG, LIMIT, [charged(20, numbers=(1.0, 0.165, 4, 20, 50_000, 1e-6))]),
    *(
        (STRONG, LIMIT, [charged(2, numbers=(5.0, 0.0318, 1, 2, clients, 1e-6))])
        for clients in (1, 100, 100_000)
    ),
    (STRONG, 1e4, [charged(20, "other", (2.5, 0.5, 100, 20, 75_040, 1e-6)), charged(1, "own")]),
    # Amounts that no float has.
    ((0.1, 0.2, 3, 7, 500, 1e-6), 1.2, [charged(1, "other", (0.3, 0.3, 1, 1, 700, 1e-6))]),
    ((0.1, 0.2, 1, 10, 500, 1e-6), 1.0, []),
    # More kinds than are composed.
    (STRONG, 1e3, [charged(3, "other", (1 + n / 8, 0.1, 2, 9, 5_000, 1e-6)) for n in range(10)]),
]
CASES = [*((numbers, LIMIT, []) for numbers in ALONE), *AFTER]


def given(numbers: Numbers, limit: float, charges: list[dict[str, Any]]) -> dict[str, Any]:
    return {**dict(zip(NAMES, numbers, strict=True)), "limit": limit, "charges": charges}


def made(given: dict[str, Any]) -> dict[str, Any]:
    fields = {name: given[name] for name in ("epsilon", "loud_fraction", "reports", "epochs")}
    asked = terms(**fields, least_clients=given["clients"])
    ledger, trainings = Ledger(1e300), {"own": asked.training}
    for charge in given["charges"]:
        name, times = charge["training"], charge["times"]
        kind = {key: charge[key] for key in ("epsilon", "reports", "loud_fraction", "clients")}
        training = trainings.setdefault(name, name.ljust(16).encode())
        for _ in range(times):
            number = len(ledger.entries)
            ledger.charge(Charge(training, number, number.to_bytes(32), "loudest", **kind))
    ledger.set_limit(given["limit"])
    found = asked.promise(ledger.charges, given["delta"])
    return {
        "local": found.local,
        "central": found.central,
        "turns_left": asked.turns_left(ledger.charges),
        "within_limit": asked.turns_within(ledger),
        "sentence": found.sentence(),
    }


def stored() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(FILE.read_text())
    return content


def test_the_file_has_these_cases() -> None:
    names = given(*CASES[0])
    assert [{name: case[name] for name in names} for case in stored()] == [
        given(*case) for case in CASES
    ]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_promises_are_as_the_file_says(number: int) -> None:
    case = stored()[number]
    found = made(case)
    assert found.pop("central") == pytest.approx(case["central"], rel=1e-9, abs=0)
    assert found == {name: case[name] for name in found}


def main() -> None:
    cases = [given(*case) for case in CASES]
    lines = ",\n".join(json.dumps({**case, **made(case)}) for case in cases)
    FILE.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
