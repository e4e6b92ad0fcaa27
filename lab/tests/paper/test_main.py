"""The main table in small, its bootstrap, and how baselines are tuned."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.tests.paper.helpers import SMOKE, WHOLE, cells_of
from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation.evaluation.metrics import hit_ratio, summarize_ranks
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce_lab.baselines import rank
from sottovoce_lab.baselines.models import Popularity
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Runner, Scale, compute, main
from sottovoce_lab.paper.bootstrap import Difference, compute_resampled_means
from sottovoce_lab.paper.cells import Size
from sottovoce_lab.paper.main import (
    GRID_STARTS,
    METRICS,
    PARAMETER_GRIDS,
    Main,
    Tuned,
    is_on_edge,
    list_neighbours,
)
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.runner import run_cell
from sottovoce_lab.paper.scale import (
    ALS_BY_METRIC,
    EASE_RIDGE_BY_METRIC,
    TUNING_SEED,
    compute_delta,
)

CHEAP = ["random", "popularity", "mf", "ease"]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=50, seed=0)


def silent(_: int) -> Any:
    return nullcontext(lambda *_: None)


def test_an_interval_covers_what_it_should() -> None:
    """Pairs that belong together: the interval is of the difference, not of the two."""
    rng, covered, widths = np.random.default_rng(0), 0, []
    for _ in range(100):
        shared = rng.normal(0, 1, 120)
        mine, other = (shared + rng.normal(moved, 0.2, 120) for moved in (0.3, 0.1))
        draws = [compute_resampled_means({"x": each})["x"] for each in (mine, other)]
        apart = Difference.of(float((mine - other).mean()), [draws[0]], [draws[1]])
        covered += apart.low <= 0.2 <= apart.high
        widths.append(apart.high - apart.low)
    assert 0.88 < covered / 100 < 1
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 0.2 * np.sqrt(2 / 120), rel=0.1)


def test_draws_are_the_same_for_every_method() -> None:
    values = np.arange(30.0)
    both = compute_resampled_means({"a": values, "b": 2 * values})
    assert np.allclose(np.multiply(2, both["a"]), both["b"], atol=1e-6)
    assert compute_resampled_means({"b": 2 * values})["b"] == both["b"]


def test_whole_catalogue_and_sample_are_those_of_each_alone(people: Interactions) -> None:
    cell = Cell.from_parameters("popularity", Size(), 1)
    both = run_cell(replace(cell, measured="catalogue", known=("tags",)), CellContext(people, 1))
    sampled = run_cell(replace(cell, known=("tags",)), CellContext(people, 1))
    assert both["final"]["hr@10"] == sampled["final"]["hr@10"]
    assert both["known"]["tags"]["hr@10"] == sampled["known"]["tags"]["hr@10"]
    prepared = CellContext(people, 1).prepared(cell)
    split = prepared.candidates.split
    full = rank(Popularity.fit(split.train), sample_candidates(split, 0, 1))
    assert both["final"]["hr@10 all"] == hit_ratio(full, 10)
    assert both["final"]["ndcg@100 all"] == summarize_ranks(full, [100])["ndcg@100"]
    assert np.mean(both["draws"]["tags hr@10 all"]) == pytest.approx(
        both["known"]["tags"]["hr@10 all"], abs=0.01
    )


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_engines_rank_as_everything_else_does(people: Interactions, engine: str) -> None:
    scale = Scale.from_about(SMOKE)
    cell = replace(scale.build_mf(Size())(0), measured="catalogue")
    found = run_cell(cell, CellContext(people, 1, engine))
    alone = run_cell(replace(cell, measured="left-out"), CellContext(people, 1))
    assert found["final"]["hr@10"] == alone["final"]["hr@10"]


def test_the_table_in_small(tmp_path: Path, people: Interactions) -> None:
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=2)
    store = CellStore.create(tmp_path, about)
    scale = Scale.from_about(about)
    compute([Main], scale, Runner(people, store, 1), CHEAP, silent)
    for table in Main(scale, store).build_tables():
        rows = {row[0]: row[1:] for row in table.rows}
        assert rows["random"][0].startswith("0.2")  # of 50 items nobody has 99 untouched ones
        assert rows["popularity"][1] == rows["popularity, tags"][1] == "-"
        assert set(rows["ours, budget 10"][:6]) == {"-"}
        better = next(each for each in table.records if each["method"].startswith("EASE"))
        assert better["low"] <= better["apart"] <= better["high"]
    assert compute([Main], scale, Runner(people, store, 1), CHEAP, silent) == 0


def test_nothing_is_chosen_on_what_the_table_shows() -> None:
    scale = Scale.from_about(WHOLE)
    assert {cell.seed for cell in cells_of(Main, scale)} == {0, 1}
    assert {cell.seed for cell in cells_of(Tuned, scale)} == {TUNING_SEED}
    cells = cells_of(Main, scale)
    ways = {(cell.split, cell.known) for cell in cells if cell.method == "loudest" and cell.known}
    assert ways == {("random", ("tags",)), ("latest", ("tags", "both"))}
    assert {(cell.split, cell.options["epsilon"]) for cell in cells if cell.method == "dp-als"} == {
        ("random", 1.0),
        ("latest", 1.0),
    }


def test_the_climb_ends_where_no_neighbour_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a made-up quality with one best setting inside the grid, and one on its edge."""
    scale, store = Scale.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    best = {"factors": 96, "regularization": 30.0, "alpha": 3.0, "ridge": 32_000.0}

    def quality(cell: Cell, _: CellContext) -> dict[str, Any]:
        named = {name: cell.options[name] for name in best if name in cell.options}
        grid = PARAMETER_GRIDS[cell.method]
        away = sum(
            abs(grid[name].index(value) - grid[name].index(best[name]))
            for name, value in named.items()
        )
        return {"final": dict.fromkeys(METRICS, 1 - 0.1 * away)}

    people = synthetic_people(n_users=20, n_items=20, seed=0)
    compute([Tuned], scale, Runner(people, store, 1, quality), [], silent)
    (table,) = Tuned(scale, store).build_tables()
    chosen = {each["method"]: each for each in table.records if each["best"]}
    assert chosen["mf"]["factors"] == 96
    assert not chosen["mf"]["edge"]
    assert chosen["ease"]["ridge"] == 32_000.0
    assert chosen["ease"]["edge"]
    assert "at the grid's edge" in table.rows[-1][-1]
    tried = [each for each in table.records if each["method"] == "mf"]
    setting = {name: chosen["mf"][name] for name in PARAMETER_GRIDS["mf"]}
    around = list_neighbours("mf", setting)
    assert len(around) == 2 * 3 + 4
    for each in around:
        assert any(all(one[name] == each[name] for name in each) for one in tried)


def test_what_is_used_is_inside_the_grids() -> None:
    """But for factors, where more do not fit a card's processor: the report says so."""
    most, fewer = PARAMETER_GRIDS["mf"]["factors"][-1], PARAMETER_GRIDS["mf"]["factors"][-2]
    for method, start in GRID_STARTS.items():
        assert not is_on_edge(method, start)
    for metric in main.TUNED_FOR:
        setting = ALS_BY_METRIC[metric]
        within = {**setting, "factors": fewer} if setting["factors"] == most else setting
        assert not is_on_edge("mf", within)
        assert not is_on_edge("ease", {"ridge": EASE_RIDGE_BY_METRIC[metric]})


def test_delta_is_below_one_in_the_number_of_people() -> None:
    assert compute_delta(75_040) == compute_delta(100_000) == 1e-6
    assert compute_delta(10_000_000) == pytest.approx(1e-8)
