"""`tests/vectors/plans.json`: what a device decides before it reads its history.

Terms that are compared, coins, moments and counts, which every client must decide alike. To write
it anew: `python -m tests.client.test_plan_vectors`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from sottovoce.client.timing import chance, drawn_plan, is_time, lead, not_before
from sottovoce.core import MECHANISMS
from sottovoce.privacy import Charge
from sottovoce.protocol import Terms
from sottovoce.protocol.terms import RULES
from tests.cases import one_a_line
from tests.protocol.examples import manifest, terms
from tests.protocol.test_terms import BETTER, WORSE

FILE = Path(__file__).parents[1] / "vectors" / "plans.json"
OPENS, CLOSES, HOLD = 1_800_000_000, 1_800_086_400, 604_800
WORDS = ["0000000000000000", "8000000000000000", "bfffffffffffffff", "c000000000000000", "f" * 16]


def comparisons() -> list[dict[str, Any]]:
    """Terms that were accepted, terms that are asked for, and what of them is worse."""
    asked = [
        replace(terms(), **{name: value}) for name, values in WORSE.items() for value in values
    ]
    asked += [replace(terms(), **{name: vs[0]}) for name, vs in BETTER.items()]
    asked += [terms(mechanism="coordinate", parameters={}), terms()]
    worst = {name: values[0] for name, values in WORSE.items() if name != "parameters"}
    asked.append(terms(**{**worst, "parameters": {}}))
    known = [each for each in asked if _can_be_read(each)]
    return [
        {
            "asked": each.as_dict(),
            "worse": [rule.field for rule in RULES if rule.is_worse(terms(), each)],
        }
        for each in known
    ]


def _can_be_read(asked: Terms) -> bool:
    return set(asked.parameters) == set(MECHANISMS[asked.mechanism].public_names())


def coins() -> list[dict[str, Any]]:
    """Two words and a moment; whether to take part, and when to send."""
    nows = [OPENS - 1, OPENS, CLOSES - 3_600, CLOSES - 1, CLOSES, CLOSES + HOLD - 1]
    cases = []
    for share in (0.75, 1.0):
        for now in nows:
            for jitter in (0, 600, 3_600):
                for first, second in pairwise(WORDS):
                    given = {"share": share, "now": now, "jitter": jitter, "words": [first, second]}
                    cases.append({**given, **planned(given)})
    return cases


def planned(given: dict[str, Any]) -> dict[str, Any]:
    one = manifest(share=given["share"])
    drawn = iter(int(word, 16).to_bytes(8, "little") for word in given["words"])
    turns = one.terms.epochs
    plan = drawn_plan(one, turns, given["now"], given["jitter"], lambda _: next(drawn))
    return {
        "in_time": is_time(one, given["now"], given["jitter"]),
        "takes_part": plan.takes_part,
        "send_at": plan.send_at,
    }


CHANCES: list[dict[str, Any]] = [
    {"share": 0.75, "epochs": 20, "charged": 3, "epochs_left": 0},  # endless
    {"share": 1.0, "epochs": 1, "charged": 0, "epochs_left": 0},
    {"share": 0.05, "epochs": 1, "charged": 0, "epochs_left": 19},
    {"share": 0.1, "epochs": 7, "charged": 4, "epochs_left": 11},
    {"share": 2**-32, "epochs": 2**53 - 1, "charged": 1, "epochs_left": 2**53 - 1},
    {"share": 3 / 20, "epochs": 3, "charged": 0, "epochs_left": 20},
    {"share": 1 / 3, "epochs": 3, "charged": 2, "epochs_left": 3},
    {"share": 0.15, "epochs": 3, "charged": 1, "epochs_left": 19},
    {"share": 2**-32, "epochs": 1, "charged": 0, "epochs_left": 2**53 - 1},
    {"share": 0.05, "epochs": 1, "charged": 0, "epochs_left": 1},  # certain
    {"share": 0.05, "epochs": 5, "charged": 1, "epochs_left": 4},
    {"share": 0.05, "epochs": 20, "charged": 0, "epochs_left": 1},
]


def chances() -> list[dict[str, Any]]:
    """How many charges a training has, of how many; the chance, and words on both sides of it."""
    return [{**given, **tossed(given)} for given in CHANCES]


def tossed(given: dict[str, Any]) -> dict[str, Any]:
    changes = {name: value for name, value in given.items() if name != "charged"}
    one, turns = manifest(**changes), given["epochs"] - given["charged"]
    found = chance(one, turns)
    first = min(ceil(found * 2.0**53), 2**53)  # first / 2^53 is the least u that sits out
    words = [(first << 11) - 1] + [first << 11] * (first < 2**53)

    def takes_part(word: int) -> bool:
        drawn = iter([word.to_bytes(8, "little"), bytes(8)])
        return drawn_plan(one, turns, OPENS, 3_600, lambda _: next(drawn)).takes_part

    tosses = [[f"{word:016x}", takes_part(word)] for word in words]
    return {"chance": found, "tosses": tosses}


def leads() -> list[dict[str, Any]]:
    shapes = [(1, 1, 1), (5, 2, 4), (9_781, 16, 100), (2**17, 128, 10_000)]
    cases = []
    for items, factors, reports in shapes:
        one = manifest(items=items, factors=factors, reports=reports, most_items=items)
        late = [-5.0, 0.0, 0.001, lead(one), lead(one) + 0.001, 100.0]
        moments = [not_before(1_000.0, 1_000.0 + each, one) for each in late]
        given = {"items": items, "factors": factors, "reports": reports}
        cases.append({**given, "lead": lead(one), "late": late, "moments": moments})
    return cases


def turns() -> list[dict[str, Any]]:
    """How many charges a training has, of how many; the turns that are left."""
    one = terms(epochs=3)
    charges = [
        Charge(one.training, epoch, bytes([epoch]) * 32, "loudest", 1.0, 1, 0.1, 9)
        for epoch in range(5)
    ]
    return [
        {"epochs": one.epochs, "charged": charged, "left": one.turns_left(charges[:charged])}
        for charged in range(len(charges))
    ]


def content() -> dict[str, Any]:
    fields = asdict(manifest())
    about = {name: fields[name] for name in ("opens", "closes", "epochs_left", "items")}
    return {
        "accepted": terms().as_dict(),
        "manifest": {**about, "hold": terms().hold},
        "comparisons": comparisons(),
        "coins": coins(),
        "chances": chances(),
        "leads": leads(),
        "turns": turns(),
    }


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def test_decisions_are_those_of_the_file() -> None:
    assert json.loads(json.dumps(content())) == stored()


def test_every_kind_of_decision_is_there() -> None:
    assert {case["takes_part"] for case in stored()["coins"]} == {True, False}
    assert {case["in_time"] for case in stored()["coins"]} == {True, False}
    tosses = [[takes_part for _, takes_part in case["tosses"]] for case in stored()["chances"]]
    assert tosses.count([True, False]) > 5
    assert tosses.count([True]) == sum(case["chance"] >= 1 for case in stored()["chances"]) == 4
    assert {bool(case["worse"]) for case in stored()["comparisons"]} == {True, False}
    assert all(Terms.read(case["asked"]) for case in stored()["comparisons"][:1])


def main() -> None:
    FILE.write_text(one_a_line(content()) + "\n")


if __name__ == "__main__":
    main()
