"""Side information, people who come late, and who pays: measures, cells and tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE, cells_of
from sottovoce.core import Histories, solve_user_vectors
from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.errors import DataError
from sottovoce.simulation import Simulation, build_engine, simulate
from sottovoce.simulation.evaluation.metrics import compute_hits, summarize_ranks
from sottovoce.simulation.evaluation.ranking import rank_factors, sample_candidates
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings
from sottovoce_lab.baselines import DPALS, DPLCF, MatrixFactorization, TrustedSettings
from sottovoce_lab.baselines.models import rank_scores
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Runner, Scale, Size, Table
from sottovoce_lab.paper.cells import SideKind
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.people import (
    FIFTH_COUNT,
    FifthsExperiment,
    Late,
    LatePeopleExperiment,
    PublishedFactors,
    SideInformationExperiment,
    assign_fifths,
    count_late_people,
    get_fifth_metric,
    hold_out_people,
    measure_late,
    measure_people,
)
from sottovoce_lab.paper.runner import run_cell
from sottovoce_lab.paper.scale import DPLCF_NEIGHBOURS, MF_PARAMETERS, make_settings

FEW = {**MF_PARAMETERS, "iterations": 2, "factors": 3}
SETTINGS = Settings.preset("loudest", epochs=2, reports=10, factors=2, ridge=0.5)
TRUSTED = TrustedSettings(epsilon=5.0, factors=2, steps=2)
CELLS = [
    Cell.from_parameters("popularity", Size(), 1),
    Cell.from_parameters("mf", Size(), 1, **FEW),
    Cell.from_settings("loudest", Size(), SETTINGS, 1),
    Cell.from_settings("paper", Size(), Settings.preset("paper", epochs=2, reports=10), 1),
]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=80, n_items=50, seed=0)


def measured_of(cell: Cell, people: Interactions, measured: Any) -> dict[str, Any]:
    return run_cell(replace(cell, measured=measured), CellContext(people, 1))


# Fifths.


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_equal_weights_make_equal_fifths_in_order(values: list[int]) -> None:
    found = assign_fifths(np.array(values), np.ones(len(values)))
    sizes = np.bincount(found, minlength=FIFTH_COUNT)
    assert sizes.max() - sizes.min() <= 1
    assert all(
        found[a] <= found[b]
        for a in range(len(values))
        for b in range(len(values))
        if values[a] < values[b]
    )


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_a_fifth_of_the_weight_is_exceeded_by_no_more_than_one_item(counts: list[int]) -> None:
    weights = np.array(counts)
    found = assign_fifths(weights, weights)
    heavy = np.bincount(found, weights=weights, minlength=FIFTH_COUNT)
    assert len(heavy) == FIFTH_COUNT
    assert np.abs(heavy - weights.sum() / FIFTH_COUNT).max() <= max(counts)


# Late people.


def test_a_late_person_is_one_in_five_at_most() -> None:
    assert [count_late_people(people) for people in (75_040, 25_000, 24_999, 400)] == [
        5_000, 5_000, 4_999, 80,
    ]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_a_model_of_the_others_is_measured_on_who_is_late(cell: Cell, people: Interactions) -> None:
    result = measured_of(cell, people, "late")
    assert (
        {*result["final"]} == {*result["known"]["tags"]} == {"recall@20", "recall@50", "ndcg@100"}
    )
    assert all(0 < value <= 1 for value in result["final"].values())
    assert result["known"]["tags"] != result["final"]
    untagged = measured_of(cell, replace(people, tags=None), "late")
    assert untagged["final"] == result["final"]
    assert untagged["known"] == {}


def whole(late: Late) -> list[tuple[int, ...]]:
    """Everybody who is late, with all that they touched."""
    both = zip(range(late.known.n_users), range(late.hidden.n_users), strict=True)
    return [(*sorted([*late.known[k].tolist(), *late.hidden[h].tolist()]),) for k, h in both]


def test_late_people_and_the_others_are_everybody(people: Interactions) -> None:
    """And a fifth of what the late ones touched is hidden."""
    late = hold_out_people(people, 16, seed=1)
    others = [(*late.others.histories[user].tolist(),) for user in range(64)]
    everybody = [(*people.histories[user].tolist(),) for user in range(80)]
    assert sorted(whole(late) + others) == sorted(everybody)
    hidden, known = np.diff(late.hidden.indptr), np.diff(late.known.indptr)
    assert np.array_equal(hidden, (hidden + known) // 5)
    assert hidden.min() >= 1


def test_who_has_few_items_is_never_late() -> None:
    data = Interactions.from_lists("few", [[0, 1, 2, 3], [0, 1, 2, 3, 4], [5]], n_items=6)
    assert whole(hold_out_people(data, 1)) == [(0, 1, 2, 3, 4)]
    for people in (0, 2):
        with pytest.raises(DataError):
            hold_out_people(data, people)


def test_what_is_hidden_of_late_people_teaches_nobody(people: Interactions) -> None:
    """Matrix factorisation of the others alone, and vectors of what late devices have."""
    late = hold_out_people(people, 16, seed=1)
    V = MatrixFactorization.fit(late.others.histories, **FEW, seed=1, threads=1).V
    solving = {name: FEW[name] for name in ("alpha", "regularization")}
    X = solve_user_vectors(V, late.known, **solving)
    found = []
    for user in range(16):
        scores = V @ X[user]
        scores[late.known[user]] = -np.inf
        hidden = {*late.hidden[user].tolist()}
        found.append(len(hidden & {*np.argsort(-scores)[:20].tolist()}) / min(20, len(hidden)))
    result = measured_of(CELLS[1], people, "late")
    assert result["final"]["recall@20"] == pytest.approx(np.mean(found), abs=1e-3)


def test_devices_solve_with_the_ridge_of_their_training(people: Interactions) -> None:
    """And the training is that of the others, to the last bit."""
    late = hold_out_people(people, 16, seed=1)
    settings = replace(SETTINGS, seed=1)
    with build_engine("reference", late.others.histories, settings) as engine:
        *_, last = train(settings, engine, start_training(settings, people.n_items))
    V = last.V
    model = PublishedFactors(V, settings.alpha, settings.compute_user_ridge(V))
    assert measure_late(model, late)["final"] == measured_of(CELLS[2], people, "late")["final"]


def test_dp_als_folds_late_people_in_as_it_does_its_own(people: Interactions) -> None:
    train = people.histories
    model = DPALS.fit(train, TRUSTED, seed=1, threads=1)
    folded = PublishedFactors(model.V, TRUSTED.alpha, TRUSTED.regularization).vectors(train)
    np.testing.assert_allclose(folded, model.X, rtol=1e-4, atol=1e-5)


# Everybody by fifths.


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.method)
def test_the_whole_is_as_everywhere_else(cell: Cell, people: Interactions) -> None:
    result = measured_of(cell, people, "people")
    usual = run_cell(cell, CellContext(people, 1))
    assert {name: result["final"][name] for name in usual["final"]} == usual["final"]
    assert result.get("budget") == usual.get("budget")


def test_fifths_are_means_over_those_in_them(people: Interactions) -> None:
    split = leave_one_out(people, "random", 1)
    candidates = sample_candidates(split, 30, 1)
    rng = np.random.default_rng(0)
    V = rng.normal(size=(50, 3)).astype(np.float32)
    model = PublishedFactors(V, 1.0, 0.1)
    found = measure_people(model, candidates)
    hit = compute_hits(rank_factors(model.vectors(split.train), V, candidates), 10)
    lengths = np.diff(split.train.indptr)
    quiet = np.argsort(lengths, kind="stable")[:16]
    assert found["final"][get_fifth_metric("history", 0)] == pytest.approx(hit[quiet].mean())
    assert found["fifths"]["history"][0] == (lengths.min(), lengths[quiet].max())
    counts = split.train.popularity()
    order = np.argsort(counts, kind="stable")
    middle = np.cumsum(counts[order]) - counts[order] / 2
    popular = order[middle >= 0.8 * counts.sum()]
    asked = np.isin(split.test, popular)
    assert found["final"][get_fifth_metric("item", 4)] == pytest.approx(hit[asked].mean())
    assert found["fifths"]["item"][4] == len(popular)
    assert sum(found["fifths"]["item"]) == 50


def test_a_fifth_without_a_test_item_has_no_number() -> None:
    """One item has nearly all interactions: two fifths are of nothing."""
    lists = [[0, 1 + user % 3] for user in range(30)]
    data = Interactions("one", Histories.from_lists(lists, 9), np.arange(30), np.arange(9))
    final = measured_of(CELLS[0], data, "people")["final"]
    known = [fifth for fifth in range(FIFTH_COUNT) if get_fifth_metric("item", fifth) in final]
    assert known
    assert len(known) < FIFTH_COUNT
    assert all(get_fifth_metric("history", fifth) in final for fifth in range(FIFTH_COUNT))


KNOWN_METHODS = (
    "popularity", "MF-NP", "loudest, budget 10", "loudest, budget 100", "loudest, k 20",
)  # fmt: skip
NEIGHBOURLY = "DPLCF, 2.5 an item"
WAYS: tuple[SideKind, ...] = ("tags", "time", "both")


def computed(folder: Path, people: Interactions, seeds: int = 1) -> tuple[Scale, CellStore]:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=seeds)
    store, scale = CellStore.create(folder, about), Scale.from_about(about)
    Runner(people, store, 1).run(cells_of(SideInformationExperiment, scale))
    return scale, store


def numbers_of(table: Table) -> dict[tuple[str, str], tuple[str, ...]]:
    """By method and split: its four numbers."""
    return {(row[0], row[1]): row[2:6] for row in table.rows}


def test_known_has_a_row_for_every_method(tmp_path: Path, people: Interactions) -> None:
    scale, store = computed(tmp_path, people, seeds=2)
    (table,) = SideInformationExperiment(scale, store).build_tables()
    assert table.name == "known"
    assert table.headings == (
        "method", "left out", "alone", "with tags", "with time", "with both", "local budget",
        "central budget",
    )  # fmt: skip
    rows = numbers_of(table)
    assert [method for method, split in rows if split == "random"] == [*KNOWN_METHODS]
    assert [method for method, split in rows if split == "latest"] == [
        *KNOWN_METHODS[:2], NEIGHBOURLY, *KNOWN_METHODS[2:],
    ]  # fmt: skip
    for (method, split), (alone, tags, time, both) in rows.items():
        assert alone != "-"
        assert (tags == "-") is (method == NEIGHBOURLY)
        assert (time == "-") is (split == "random")
        assert (both == "-") is (split == "random" or method == NEIGHBOURLY)
    shown = sum(number != "-" for numbers in rows.values() for number in numbers)
    assert len(table.records) == shown == 5 * 2 + 5 * 4 + 2
    assert all(record["runs"] == 2 for record in table.records)
    assert {record["known"] for record in table.records} == {"alone", *WAYS}
    figure = Figure()
    SideInformationExperiment(scale, store).draw(figure)
    assert len(figure.axes[0].get_yticks()) == len(rows)


@pytest.mark.parametrize("lacking", ["timestamps", "tags"])
def test_data_that_lacks_something_has_fewer_rows_or_numbers(
    tmp_path: Path, people: Interactions, lacking: str
) -> None:
    data = (
        replace(people, timestamps=None) if lacking == "timestamps" else replace(people, tags=None)
    )
    (table,) = SideInformationExperiment(*computed(tmp_path, data)).build_tables()
    if lacking == "timestamps":
        assert {split for _, split in numbers_of(table)} == {"random"}
    else:
        assert all(tags == both == "-" for _, tags, _, both in numbers_of(table).values())
        assert {record["known"] for record in table.records} == {"alone", "time"}


# Cells.


def result_of(cell: Cell, people: Interactions) -> dict[str, Any]:
    return run_cell(replace(cell, known=WAYS), CellContext(people, 1))


def test_a_training_is_ranked_as_its_simulation_with_the_same_knowledge(
    people: Interactions,
) -> None:
    settings = Settings.preset("loudest", epochs=2, reports=10, factors=2)
    cell = Cell.from_settings("loudest", Size(), settings, 0, split="latest")
    result = result_of(cell, people)
    assert {*result["known"]} == {*WAYS}
    for way, tags, time in (("tags", True, False), ("time", False, True), ("both", True, True)):
        plan = Simulation(settings, "latest", evaluate_every=0, tags=tags, time=time)
        run = simulate(people, plan)
        assert result["known"][way] == run.final
        assert result["final"] == run.without
    assert "known" not in run_cell(cell, CellContext(people, 1))


def test_dplcf_takes_the_order_alone(people: Interactions) -> None:
    named: dict[str, Any] = {"epsilon": 2.5, "neighbours": DPLCF_NEIGHBOURS}
    result = result_of(Cell.from_parameters("dplcf", Size(), 0, split="latest", **named), people)
    split = leave_one_out(people, "latest", 0)
    order = SideInformation.from_split(people, split, tags=False, time=True).weights
    model = replace(DPLCF.fit(split.train, **named, seed=0), weights=order)
    ranks = rank_scores(model, sample_candidates(split, 99, 0))
    assert {*result["known"]} == {"time"}
    assert result["known"]["time"] == pytest.approx(summarize_ranks(ranks))
    assert result["known"]["time"] != result["final"]


LATE_METHODS = (
    "popularity", "MF-NP", "FCF", "DP-ALS, central 1", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip
METRICS = ("recall@20", "recall@50", "ndcg@100")


def late_results(
    folder: Path, about: About = SMOKE, *, tags: bool = True
) -> tuple[Scale, CellStore]:
    """Made-up results: quality by seed, more with tags."""
    scale, store = Scale.from_about(about), CellStore.create(folder, about)
    for cell in cells_of(LatePeopleExperiment, scale):
        alone = {metric: 0.1 * (cell.seed + place) for place, metric in enumerate(METRICS, 1)}
        more = {metric: value + 0.05 for metric, value in alone.items()}
        known = {"tags": more} if tags else {}
        store.put(cell, {"final": alone, "known": known}, 0.0)
    return scale, store


@pytest.mark.parametrize("tags", [True, False])
def test_every_method_has_a_row_and_every_number_a_record(tmp_path: Path, tags: bool) -> None:
    scale, store = late_results(tmp_path, tags=tags)
    (table,) = LatePeopleExperiment(scale, store).build_tables()
    assert [row[0] for row in table.rows] == [*LATE_METHODS]
    assert table.headings[1:7] == (
        "Recall@20", "Recall@50", "NDCG@100", "Recall@20, tags", "Recall@50, tags",
        "NDCG@100, tags",
    )  # fmt: skip
    assert len(table.records) == len(LATE_METHODS) * (6 if tags else 3)
    means = [record["mean"] for record in table.records if record["method"] == "MF-NP"]
    assert means == pytest.approx([0.15, 0.25, 0.35] + [0.2, 0.3, 0.4] * tags)
    assert ("-" in table.rows[0][1:7]) is not tags
    assert "80 people" in table.notes[0]
    assert "the 320 others" in table.notes[0]
    figure = Figure()
    LatePeopleExperiment(scale, store).draw(figure)
    assert [axes.get_xlabel() for axes in figure.axes] == ["Recall@20", "NDCG@100"]
    top, bottom = figure.axes[0].get_ylim()
    assert top > bottom, "the first row is on top"


def test_settings_are_for_those_who_report() -> None:
    about = replace(SMOKE, scale=1.0, users=20_000, items=9_781)
    cells = cells_of(LatePeopleExperiment, Scale.from_about(about))
    assert {cell.measured for cell in cells} == {"late"}
    planned = make_settings("loudest", 2.5, 100, 20, users=15_000, items=9_781)
    mine = [cell for cell in cells if cell.method == "loudest" and cell.seed == 0]
    assert planned in [cell.settings for cell in mine]
    assert len(mine) == 3


PAYING_METHODS = (
    "popularity", "MF-NP", "MF-NP, 5 factors", "preset paper, k 20", "loudest, k 20",
    "loudest, budget 10", "loudest, budget 100",
)  # fmt: skip


def paying_results(folder: Path, seeds: int = 2) -> tuple[Scale, CellStore]:
    """Made-up results: MF-NP has twice as much in the first fifth, all the same in the last."""
    scale, store = Scale.from_about(SMOKE, seeds), CellStore.create(folder, SMOKE)
    for cell in cells_of(FifthsExperiment, scale):
        best = cell.method == "mf" and cell.options["factors"] != 5
        base = 0.2 + 0.1 * cell.seed
        by_fifth = {
            get_fifth_metric(kind, fifth): base * (2 if best and fifth == 0 else 1)
            for kind in ("history", "item")
            for fifth in range(FIFTH_COUNT)
        }
        if not best:
            del by_fifth[get_fifth_metric("item", 4)]
        final = {"hr@10": base, **by_fifth, "coverage@10": 0.5, "gini@10": 0.25}
        parts = {"history": [[1, 2]] * 4 + [[3, 1000]], "item": [90, 30, 20, 7, 3]}
        store.put(cell, {"final": final, "fifths": parts}, 0.0)
    return scale, store


def test_every_method_is_in_every_table(tmp_path: Path) -> None:
    scale, store = paying_results(tmp_path)
    tables = FifthsExperiment(scale, store).build_tables()
    assert [table.name for table in tables] == [
        "people-history", "people-history-kept", "people-item", "people-item-kept",
        "people-exposure",
    ]  # fmt: skip
    for table in tables:
        assert [row[0] for row in table.rows] == [*PAYING_METHODS]
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert all(record["runs"] == 2 for record in table.records)
    history, kept, item, *_ = tables
    assert history.headings[2:7] == ("1: 1 to 2", "2: 1 to 2", "3: 1 to 2", "4: 1 to 2",
                                     "5: 3 to 1,000")  # fmt: skip
    assert item.headings[2] == "1: 90 items"
    assert [record["fifth"] for record in history.records[:6]] == ["all", 1, 2, 3, 4, 5]
    assert len(history.records) == len(PAYING_METHODS) * 6
    assert len(kept.records) == len(PAYING_METHODS) * 5
    assert len(item.records) == len(PAYING_METHODS) * 6 - (len(PAYING_METHODS) - 1)


def test_what_is_kept_is_divided_split_by_split(tmp_path: Path) -> None:
    _, kept, *_ = FifthsExperiment(*paying_results(tmp_path)).build_tables()
    ours = [record for record in kept.records if record["method"] == "loudest, k 20"]
    assert [record["mean"] for record in ours] == pytest.approx([0.5, 1, 1, 1, 1])
    assert [record["half_width95"] for record in ours] == pytest.approx([0] * 5)
    itself = [record["mean"] for record in kept.records if record["method"] == "MF-NP"]
    assert itself == [1.0] * 5
