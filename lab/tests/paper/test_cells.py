"""Tests of cells and their keys, and of which splits the experiments use."""

from dataclasses import replace

from lab.tests.paper.helpers import list_cells_of
from sottovoce.data import synthetic_people
from sottovoce.training import Settings
from sottovoce_lab.paper import EXPERIMENTS, About, Cell, Grid, Size
from sottovoce_lab.paper.cells import COMPARED_METHODS
from sottovoce_lab.paper.grid import TUNING_SEED, make_settings

SIZE = Size(1000, 500)
CELL = Cell.from_settings("loudest", SIZE, Settings.preset("loudest", epsilon=2.5, reports=100), 0)
ABOUT = About("f" * 64, "x.csv", "x", 75_040, 9_781, 10**7, True, True, 0, scale=1.0, seeds=3)


def test_key_of_a_cell_never_changes() -> None:
    # Results of earlier versions stay valid until `CELL_VERSION` is raised.
    popularity = Cell.from_parameters("popularity", SIZE, 3)
    assert popularity.key == "afa9ca5b6d08fb50fe76cf0165abebc3"
    parameters = {"neighbours": 9, "epsilon": 2.5, "split": "latest"}
    reordered = dict(reversed(parameters.items()))
    dplcf = Cell.from_parameters("dplcf", SIZE, 0, **parameters)
    assert dplcf.key == Cell.from_parameters("dplcf", SIZE, 0, **reordered).key


def test_keys_are_distinct() -> None:
    settings = CELL.settings
    others = [
        replace(CELL, method="paper-alpha"),
        replace(CELL, size=Size(1000)),
        replace(CELL, size=Size(None, 500)),
        replace(CELL, seed=1),
        replace(CELL, draw=1),
        replace(CELL, split="latest"),
        replace(CELL, negatives=0),
        replace(CELL, curve=True),
        replace(CELL, side_information=("tags",)),
        replace(CELL, side_information=("tags", "time")),
        replace(CELL, measured="late"),
        replace(CELL, measured="catalogue"),
        replace(CELL, measured="people"),
        Cell.from_settings("loudest", SIZE, replace(settings, epsilon=1.0), 0),
        Cell.from_settings("loudest", SIZE, replace(settings, alpha=2.0), 0),
        Cell.from_settings("loudest", SIZE, replace(settings, epochs=19), 0),
    ]
    assert len({cell.key for cell in [CELL, *others]}) == 1 + len(others)


def test_seed_of_the_settings_is_replaced_by_the_cells() -> None:
    seeded = Cell.from_settings("loudest", SIZE, replace(CELL.settings, seed=8), 0)
    assert seeded == CELL
    assert seeded.settings.seed == 0


def test_figures_and_tables_share_cells() -> None:
    grid = Grid.from_about(ABOUT)
    cells = {name: set(list_cells_of(EXPERIMENTS[name], grid)) for name in ("fig2", "table4")}
    first_column = [
        grid.build_training(method, Size(users, 1000), 2.5, 100)(seed)
        for users in (1000, 10_000, 50_000)
        for method in COMPARED_METHODS
        for seed in (0, 1, 2)
    ]
    assert set(first_column) <= cells["fig2"] & cells["table4"]
    assert len(cells["fig2"]) == 3 * (2 * 4 * 4 * 3 + 3)
    assert len(cells["table4"]) == 3 * 9 * 4


def test_settings_are_never_chosen_on_reported_splits() -> None:
    grid = Grid.from_about(ABOUT)
    tuning_seeds = {
        "frontier": {TUNING_SEED},
        "tuned": {TUNING_SEED},
        "law": {TUNING_SEED, TUNING_SEED + 1},
        "initial-scale": set(Grid.search_seeds),
    }
    for name, experiment in EXPERIMENTS.items():
        splits = {(cell.seed, cell.draw) for cell in list_cells_of(experiment, grid)}
        chosen_on = {split for split in splits if split[0] >= TUNING_SEED}
        assert chosen_on == {(seed, seed) for seed in tuning_seeds.get(name, set())}
        reported = splits - chosen_on
        assert reported <= {(0, 0), (1, 0), (2, 0)}
        # The reported cells of these two follow from the choice.
        assert bool(reported) is (name not in ("frontier", "tuned"))


def test_small_trainings_have_few_factors() -> None:
    few = make_settings("loudest", 2.5, 1, 20, users=1000, items=1000)
    many = make_settings("loudest", 2.5, 100, 20, users=50_000, items=1000)
    assert few.factors == 1 < 28 == many.factors
    paper = make_settings("paper", 1, 1, 20, users=1000, items=1000)
    assert paper == Settings.preset("paper", epsilon=1.0, reports=1, epochs=20)


def test_fingerprint_covers_timestamps() -> None:
    data = synthetic_people(n_users=30, n_items=20, seed=0)
    first, second, without_times = (
        About.from_data(d, "s", min_interactions=0, scale=1.0, seeds=1)
        for d in (data, data, replace(data, timestamps=None))
    )
    assert first == second
    assert first.data != without_times.data
