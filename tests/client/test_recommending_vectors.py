"""`tests/vectors/recommending.json`: what devices make of a model, tags and an order.

Every client must come to the same lists and reasons. To write it anew:
`python -m tests.client.test_recommending_vectors`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.client.recommending import Personal, recommendations
from sottovoce.core.recommending import recency
from sottovoce.protocol import Catalogue, Edition, Item
from tests.protocol.test_vectors import signed

FILE = Path(__file__).parents[1] / "vectors" / "recommending.json"
GENRES = ("Horror", "Comedy", "Drama", "Western")
FACTORS = 3


def films(n: int, *, tagged: bool = True) -> list[dict[str, Any]]:
    """Some have no tags, one has a genre of its own, prices are no whole numbers."""
    found: list[dict[str, Any]] = []
    for number in range(n):
        tags: dict[str, Any] = {}
        if tagged and number % 7:
            tags["genre"] = [GENRES[number % 4], *(["Short"] if number % 5 == 0 else [])]
            tags["year"] = 1950 + (number * 13) % 70
        if tagged and number % 3 == 0:
            tags["price"] = (number * 37 % 100) / 8
        found.append({"id": f"film-{number}", "title": f"Film {number}", "tags": tags})
    if tagged:
        found[1]["tags"]["genre"] = ["Alone", "Horror"]
    return found


def item_matrix(n: int, *, new: int = 0) -> list[list[float]]:
    """Popularity falls with the number; the last `new` items are not known yet."""
    rng = np.random.default_rng(n)
    V = 0.3 * rng.standard_normal((n, FACTORS)) / np.sqrt(1 + np.arange(n))[:, None]
    V[:, 0] += 1 / (1 + np.arange(n) / 8)
    V[n - new :] = 0
    return [[float(value) for value in row] for row in np.round(V * 1024) / 1024]


def questions() -> list[dict[str, Any]]:
    several = {"film-5": 3, "film-9": 1, "film-12": 3, "film-33": 2, "gone": 9}
    return [
        {"name": "tags and an order", "items": films(60), "V": item_matrix(60), "touched": several},
        {
            "name": "new items",
            "items": films(60),
            "V": item_matrix(60, new=9),
            "touched": {"film-1": 1, "film-5": 2, "film-57": 3},
        },
        {"name": "no history", "items": films(40), "V": item_matrix(40, new=4), "touched": {}},
        {
            "name": "no tags",
            "items": films(30, tagged=False),
            "V": item_matrix(30, new=2),
            "touched": {"film-2": 5, "film-3": 4},
        },
        {
            "name": "nothing learnt yet",
            "items": films(60),
            "V": item_matrix(60),
            "touched": several,
            "reports_behind": 0,
        },
        {
            "name": "more tags than are used",
            "items": [
                {
                    "id": f"{n}",
                    "title": "x",
                    "tags": {"brand": [f"b{n % 70}"], "a_b": [f"{n % 71}"]},
                }
                for n in range(1500)
            ],
            "V": item_matrix(1500),
            "touched": {"3": 1, "150": 1, "300": 2, "301": 3},
        },
    ]


def asked(question: dict[str, Any]) -> tuple[Edition, dict[str, int]]:
    catalogue = Catalogue.of(
        Item(
            each["id"],
            each["title"],
            {k: tuple(v) if isinstance(v, list) else v for k, v in each["tags"].items()},
        )
        for each in question["items"]
    )
    one = signed()
    manifest = replace(
        one.manifest,
        alpha=4.0,
        regularization=0.125,
        reports_behind=question.get("reports_behind", 1000),
    )
    V = np.array(question["V"], np.float32)
    return Edition(replace(one, manifest=manifest), V, catalogue), question["touched"]


def answer(question: dict[str, Any]) -> dict[str, Any]:
    edition, touched = asked(question)
    personal = Personal.of(edition, touched)
    numbers = edition.catalogue.numbers
    known = {item: at for item, at in touched.items() if item in numbers}
    return {
        "tags": [[tag.kind, tag.name] for tag in edition.catalogue.tags.names],
        "popularity": personal.model.popularity.tolist(),
        "weights": dict(
            zip(known, recency(np.array([*known.values()], int)).tolist(), strict=True)
        ),
        "scores": personal.scores().tolist(),
        "best": [
            [each.id, [_reason(reason.what, reason.share) for reason in each.because]]
            for each in recommendations(edition, touched, 5)
        ],
    }


def _reason(what: Any, share: float) -> list[Any]:
    return [what.id if isinstance(what, Item) else [what.kind, what.name], share]


def vectors() -> list[dict[str, Any]]:
    return [{**question, "answer": answer(question)} for question in questions()]


@pytest.mark.parametrize(
    "case", json.loads(FILE.read_text()) if FILE.exists() else [], ids=lambda case: case["name"]
)
def test_lists_and_reasons_are_the_stored_ones(case: dict[str, Any]) -> None:
    found, stored = answer(case), case["answer"]
    assert found["tags"] == stored["tags"]
    for name in ("popularity", "scores"):
        np.testing.assert_allclose(found[name], stored[name], rtol=1e-9, atol=1e-12)
    assert found["weights"] == pytest.approx(stored["weights"], rel=1e-12)
    for (here, reasons), (there, known) in zip(found["best"], stored["best"], strict=True):
        assert here == there
        assert [what for what, _ in reasons] == [what for what, _ in known]
        np.testing.assert_allclose([s for _, s in reasons], [s for _, s in known], rtol=1e-7)


def test_the_file_is_up_to_date() -> None:
    stored = json.loads(FILE.read_text())
    assert [{k: v for k, v in case.items() if k != "answer"} for case in stored] == questions()


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), separators=(",", ":")) + "\n")
