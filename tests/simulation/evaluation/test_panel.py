"""The panel, and `tests/vectors/panel.json`, from which the page must compute the same.

Write that file with `python -m tests.simulation.evaluation.test_panel`.
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

VECTORS_FILE = Path(__file__).parents[2] / "vectors" / "panel.json"
CATALOGUE_HASH = bytes(range(32))
N_ITEMS = 130
PEOPLE = synthetic_people(12, N_ITEMS, seed=5)
PEOPLE_TAGS = json.loads(json.dumps(list(PEOPLE.tags if PEOPLE.tags is not None else [])))


def make_item_matrix(kind: str) -> np.ndarray:
    """Make an item matrix: of zeros, with equal rows for `ties`, else with different ones."""
    V = draw_initial_items(N_ITEMS, 3, 0.5, 11, head_start=1.0)
    if kind == "ties":
        V = V[np.arange(N_ITEMS) // 26]
    return np.zeros_like(V) if kind == "zero" else V


def make_case(kind: str) -> dict[str, Any]:
    """Make a vector without its answer; in `few` each person has another number of others."""
    panel = json.loads(make_panel(PEOPLE, CATALOGUE_HASH, seed=3).encode())
    if kind == "few":
        for number, person in enumerate(panel["people"]):
            del person["others"][1 + number :]
    V = make_item_matrix(kind)
    return {
        "kind": kind,
        "tags": PEOPLE_TAGS if kind == "tags" else None,
        "alpha": 1.5,
        "regularization": 0.01,
        "items": N_ITEMS,
        "factors": V.shape[1],
        "item_matrix": [float(v).hex() for v in V.ravel()],
        "panel": panel,
    }


def compute_answer(case: dict[str, Any]) -> float:
    V = np.array([float.fromhex(v) for v in case["item_matrix"]], np.float32)
    V = V.reshape(case["items"], case["factors"])
    panel = Panel.decode(json.dumps(case["panel"]).encode())
    tags = make_empty_tags(len(V))
    if case["tags"] is not None:
        tags = build_tags([{**film, "genre": tuple(film["genre"])} for film in case["tags"]])
    return measure_on_panel(make_model(V, case["alpha"], case["regularization"], tags), panel)


def make_model(
    V: np.ndarray, alpha: float, regularization: float, tags: Tags | None = None
) -> WideModel:
    return WideModel.from_model(
        V, tags or make_empty_tags(len(V)), alpha=alpha, regularization=regularization
    )


@pytest.mark.parametrize(
    "case", json.loads(VECTORS_FILE.read_text()), ids=lambda case: case["kind"]
)
def test_vectors(case: dict[str, Any]) -> None:
    assert compute_answer(case) == case["hr@10"]
    assert make_case(case["kind"]) == {name: case[name] for name in case if name != "hr@10"}


def test_panel_measures_the_same_as_other_evaluations() -> None:
    V = make_item_matrix("ties")
    candidates = sample_candidates(leave_one_out(PEOPLE, "random", 3), DEFAULT_NEGATIVES, 3)
    X = solve_user_vectors(V, candidates.split.train, alpha=2.0, regularization=0.1)
    expected = summarize_ranks(rank_factors(X, V, candidates))["hr@10"]
    assert (
        measure_on_panel(make_model(V, 2.0, 0.1), make_panel(PEOPLE, CATALOGUE_HASH, seed=3))
        == expected
    )


def test_popularity_is_that_of_the_counts_in_the_panel() -> None:
    crowd, panel = (
        synthetic_people(500, N_ITEMS, seed=6).histories,
        make_panel(PEOPLE, CATALOGUE_HASH),
    )
    assert measure_popularity_on_panel(panel, make_empty_tags(N_ITEMS)) is None
    counted = replace(panel, touched=tuple(crowd.popularity().tolist()))
    popular = build_popularity_model(crowd.popularity(), crowd.n_users, make_empty_tags(N_ITEMS))
    assert measure_popularity_on_panel(counted, make_empty_tags(N_ITEMS)) == measure_on_panel(
        popular, panel
    )


def test_model_with_fewer_items_is_refused() -> None:
    with pytest.raises(DataError):
        measure_on_panel(
            make_model(make_item_matrix("plain")[:5], 1.0, 0.1), make_panel(PEOPLE, CATALOGUE_HASH)
        )


def test_documented_code_makes_a_panel_for_another_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "operators.md").read_text()
    code = text.partition("### The panel")[2].split("```python\n")[1]
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("user,item\n" + "".join(f"u{n % 3},{n}\n" for n in range(12)))
    # The catalogue has a new item, lacks item 0, and has another order.
    ids = ["new", *(str(number) for number in reversed(range(1, 12)))]
    catalogue = Catalogue.from_items(Item(item, f"Film {item}") for item in ids)
    Path("films.json").write_bytes(catalogue.raw)
    exec(code.partition("```")[0], {})
    panel = Panel.decode(Path("panel.json").read_bytes())
    assert panel.catalogue == catalogue.hash
    touched = [{ids[row] for row in (*person.seen, person.left)} for person in panel.people]
    assert touched == [{"3", "6", "9"}, {"1", "4", "7", "10"}, {"2", "5", "8", "11"}]
    assert all(0 in person.others for person in panel.people), "the new item competes"


if __name__ == "__main__":
    cases = [make_case(kind) for kind in ("plain", "tags", "ties", "zero", "few")]
    lines = [json.dumps({**case, "hr@10": compute_answer(case)}) for case in cases]
    VECTORS_FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
