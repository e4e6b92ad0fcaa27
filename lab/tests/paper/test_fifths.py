"""Tests of quality by fifths of people and items."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.paper.helpers import SMOKE, list_cells_of
from sottovoce.core import Histories
from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.simulation.evaluation.metrics import compute_hits
from sottovoce.simulation.evaluation.ranking import rank_factors, sample_candidates
from sottovoce.training import Settings
from sottovoce_lab.paper import Cell, CellStore, Grid, Size
from sottovoce_lab.paper.fifths import (
    FIFTH_COUNT,
    FifthsExperiment,
    assign_fifths,
    get_fifth_metric,
    measure_fifths,
)
from sottovoce_lab.paper.grid import MF_PARAMETERS
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.published_models import PublishedFactors
from sottovoce_lab.paper.runner import run_cell

CELLS = [
    Cell.from_parameters("popularity", Size(), 1),
    Cell.from_parameters("mf", Size(), 1, **{**MF_PARAMETERS, "iterations": 2, "factors": 3}),
    Cell.from_settings("loudest", Size(), Settings.preset("loudest", epochs=2, reports=10), 1),
]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def measure(cell: Cell, people: Interactions) -> dict[str, Any]:
    return run_cell(replace(cell, measured="people"), CellContext(people, 1))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_equal_weights_make_equal_fifths_in_order(values: list[int]) -> None:
    fifths = assign_fifths(np.array(values), np.ones(len(values)))
    sizes = np.bincount(fifths, minlength=FIFTH_COUNT)
    assert sizes.max() - sizes.min() <= 1
    assert all(
        fifths[a] <= fifths[b]
        for a in range(len(values))
        for b in range(len(values))
        if values[a] < values[b]
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_fifths_differ_by_at_most_one_item(counts: list[int]) -> None:
    weights = np.array(counts)
    fifths = assign_fifths(weights, weights)
    sums = np.bincount(fifths, weights=weights, minlength=FIFTH_COUNT)
    assert len(sums) == FIFTH_COUNT
    assert np.abs(sums - weights.sum() / FIFTH_COUNT).max() <= max(counts)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_total_equals_the_usual_result(cell: Cell, people: Interactions) -> None:
    result, usual = measure(cell, people), run_cell(cell, CellContext(people, 1))
    assert {name: result["final"][name] for name in usual["final"]} == usual["final"]
    assert result.get("budget") == usual.get("budget")


def test_fifths_are_means_over_their_members(people: Interactions) -> None:
    split = leave_one_out(people, "random", 1)
    candidates = sample_candidates(split, 30, 1)
    V = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    model = PublishedFactors(V, 1.0, 0.1)
    result = measure_fifths(model, candidates)
    is_hit = compute_hits(rank_factors(model.solve_vectors(split.train), V, candidates), 10)
    lengths = np.diff(split.train.indptr)
    least_active = np.argsort(lengths, kind="stable")[:16]
    expected = is_hit[least_active].mean()
    assert result["final"][get_fifth_metric("history", 0)] == pytest.approx(expected)
    assert result["fifths"]["history"][0] == (lengths.min(), lengths[least_active].max())
    counts = split.train.popularity()
    order = np.argsort(counts, kind="stable")
    middle = np.cumsum(counts[order]) - counts[order] / 2
    popular = order[middle >= 0.8 * counts.sum()]
    expected = is_hit[np.isin(split.test, popular)].mean()
    assert result["final"][get_fifth_metric("item", 4)] == pytest.approx(expected)
    assert result["fifths"]["item"][4] == len(popular)
    assert sum(result["fifths"]["item"]) == 50


def test_fifth_without_a_tested_item_has_no_number() -> None:
    # One item has nearly all interactions, so two fifths are empty.
    lists = [[0, 1 + user % 3] for user in range(30)]
    data = Interactions("one", Histories.from_lists(lists, 9), np.arange(30), np.arange(9))
    final = measure(CELLS[0], data)["final"]
    fifths = [fifth for fifth in range(FIFTH_COUNT) if get_fifth_metric("item", fifth) in final]
    assert 0 < len(fifths) < FIFTH_COUNT
    assert all(get_fifth_metric("history", fifth) in final for fifth in range(FIFTH_COUNT))


METHODS = (
    "popularity", "MF-NP", "MF-NP, 5 factors", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip


def fill_store(folder: Path, seeds: int = 2) -> tuple[Grid, CellStore]:
    """Store results in which MF-NP is twice as good as others in the first fifth only."""
    grid, store = Grid.from_about(SMOKE, seeds), CellStore.create(folder, SMOKE)
    for cell in list_cells_of(FifthsExperiment, grid):
        is_best = cell.method == "mf" and cell.options["factors"] != 5
        quality = 0.2 + 0.1 * cell.seed
        by_fifth = {
            get_fifth_metric(kind, fifth): quality * (2 if is_best and fifth == 0 else 1)
            for kind in ("history", "item")
            for fifth in range(FIFTH_COUNT)
        }
        if not is_best:
            del by_fifth[get_fifth_metric("item", 4)]
        final = {"hr@10": quality, **by_fifth, "coverage@10": 0.5, "gini@10": 0.25}
        fifths = {"history": [[1, 2]] * 4 + [[3, 1000]], "item": [90, 30, 20, 7, 3]}
        store.put(cell, {"final": final, "fifths": fifths}, 0.0)
    return grid, store


def test_every_method_is_in_every_table(tmp_path: Path) -> None:
    grid, store = fill_store(tmp_path)
    tables = FifthsExperiment(grid, store).build_tables()
    assert [table.name for table in tables] == [
        "people-history", "people-history-kept", "people-item", "people-item-kept",
        "people-exposure",
    ]  # fmt: skip
    for table in tables:
        assert [row[0] for row in table.rows] == [*METHODS]
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(len(record["values"].split()) == 2 for record in table.records)
    history, shares, item, *_ = tables
    assert history.headings[2:7] == ("1: 1 to 2", "2: 1 to 2", "3: 1 to 2", "4: 1 to 2",
                                     "5: 3 to 1,000")  # fmt: skip
    assert item.headings[2] == "1: 90 items"
    assert [record["fifth"] for record in history.records[:6]] == ["all", 1, 2, 3, 4, 5]
    assert len(history.records) == len(METHODS) * 6
    assert len(shares.records) == len(METHODS) * 5
    assert len(item.records) == len(METHODS) * 6 - (len(METHODS) - 1)


def test_shares_are_divided_split_by_split(tmp_path: Path) -> None:
    _, shares, *_ = FifthsExperiment(*fill_store(tmp_path)).build_tables()
    ours = [record for record in shares.records if record["method"] == "loudest, k 20"]
    assert [record["mean"] for record in ours] == pytest.approx([0.5, 1, 1, 1, 1])
    assert [record["half_width95"] for record in ours] == pytest.approx([0] * 5)
    best = [record["mean"] for record in shares.records if record["method"] == "MF-NP"]
    assert best == [1.0] * 5
