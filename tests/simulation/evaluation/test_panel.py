"""The panel, and `tests/vectors/panel.json`: what the page must compute from it as well.

To write the file anew: `python -m tests.simulation.evaluation.test_panel`.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core import draw_initial_items, solve_user_vectors
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags, build_tags, make_empty_tags
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.errors import DataError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.panel import Panel
from sottovoce.simulation.evaluation.metrics import summarize_ranks
from sottovoce.simulation.evaluation.panel import (
    make_panel,
    measure_on_panel,
    measure_popularity_on_panel,
)
from sottovoce.simulation.evaluation.ranking import (
    DEFAULT_NEGATIVES,
    rank_factors,
    sample_candidates,
)

FILE = Path(__file__).parents[2] / "vectors" / "panel.json"
HASH = bytes(range(32))
ITEMS = 130
PEOPLE = synthetic_people(12, ITEMS, seed=5)
PEOPLE_TAGS = json.loads(json.dumps(list(PEOPLE.tags if PEOPLE.tags is not None else [])))


def item_matrix(kind: str) -> np.ndarray:
    """`plain`: all different; `ties`: many rows alike, so that ranks share places; `zero`."""
    V = draw_initial_items(ITEMS, 3, 0.5, 11, head_start=1.0)
    if kind == "ties":
        V = V[np.arange(ITEMS) // 26]
    return np.zeros_like(V) if kind == "zero" else V


def make(kind: str) -> dict[str, Any]:
    """Without the answer; in the last case competitors are few and of different number."""
    panel = json.loads(make_panel(PEOPLE, HASH, seed=3).encode())
    if kind == "few":
        for number, person in enumerate(panel["people"]):
            del person["others"][1 + number :]
    V = item_matrix(kind)
    return {
        "kind": kind,
        "tags": PEOPLE_TAGS if kind == "tags" else None,
        "alpha": 1.5,
        "regularization": 0.01,
        "items": ITEMS,
        "factors": V.shape[1],
        "item_matrix": [float(v).hex() for v in V.ravel()],
        "panel": panel,
    }


def answer(case: dict[str, Any]) -> float:
    V = np.array([float.fromhex(v) for v in case["item_matrix"]], np.float32)
    V = V.reshape(case["items"], case["factors"])
    panel = Panel.decode(json.dumps(case["panel"]).encode())
    tags = make_empty_tags(len(V))
    if case["tags"] is not None:
        tags = build_tags([{**film, "genre": tuple(film["genre"])} for film in case["tags"]])
    return measure_on_panel(wide(V, case["alpha"], case["regularization"], tags), panel)


def wide(V: np.ndarray, alpha: float, regularization: float, tags: Tags | None = None) -> WideModel:
    return WideModel.from_model(
        V, tags or make_empty_tags(len(V)), alpha=alpha, regularization=regularization
    )


@pytest.mark.parametrize("case", json.loads(FILE.read_text()), ids=lambda case: case["kind"])
def test_vectors(case: dict[str, Any]) -> None:
    assert answer(case) == case["hr@10"]
    assert make(case["kind"]) == {name: case[name] for name in case if name != "hr@10"}


def test_the_numbers_are_those_of_every_other_evaluation() -> None:
    V = item_matrix("ties")
    candidates = sample_candidates(leave_one_out(PEOPLE, "random", 3), DEFAULT_NEGATIVES, 3)
    X = solve_user_vectors(V, candidates.split.train, alpha=2.0, regularization=0.1)
    known = summarize_ranks(rank_factors(X, V, candidates))["hr@10"]
    assert measure_on_panel(wide(V, 2.0, 0.1), make_panel(PEOPLE, HASH, seed=3)) == known


def test_popularity_is_that_of_others() -> None:
    crowd, panel = synthetic_people(500, ITEMS, seed=6).histories, make_panel(PEOPLE, HASH)
    assert measure_popularity_on_panel(panel, make_empty_tags(ITEMS)) is None
    counted = replace(panel, touched=tuple(crowd.popularity().tolist()))
    popular = build_popularity_model(crowd.popularity(), crowd.n_users, make_empty_tags(ITEMS))
    assert measure_popularity_on_panel(counted, make_empty_tags(ITEMS)) == measure_on_panel(
        popular, panel
    )


def test_a_model_of_another_size() -> None:
    with pytest.raises(DataError):
        measure_on_panel(wide(item_matrix("plain")[:5], 1.0, 0.1), make_panel(PEOPLE, HASH))


def test_the_documented_way_to_a_panel_for_another_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/operators.md: the same people, whatever has become of the items."""
    text = (Path(__file__).parents[3] / "docs" / "operators.md").read_text()
    code = text.partition("### The panel")[2].split("```python\n")[1]
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("user,item\n" + "".join(f"u{n % 3},{n}\n" for n in range(12)))
    ids = ["new", *(str(number) for number in reversed(range(1, 12)))]  # without 0
    catalogue = Catalogue.from_items(Item(each, f"Film {each}") for each in ids)
    Path("films.json").write_bytes(catalogue.raw)
    exec(code.partition("```")[0], {})
    panel = Panel.decode(Path("panel.json").read_bytes())
    assert panel.catalogue == catalogue.hash
    touched = [{ids[row] for row in (*each.seen, each.left)} for each in panel.people]
    assert touched == [{"3", "6", "9"}, {"1", "4", "7", "10"}, {"2", "5", "8", "11"}]
    assert all(0 in each.others for each in panel.people), "what is new competes"


if __name__ == "__main__":
    cases = [make(kind) for kind in ("plain", "tags", "ties", "zero", "few")]
    lines = [json.dumps({**case, "hr@10": answer(case)}) for case in cases]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
