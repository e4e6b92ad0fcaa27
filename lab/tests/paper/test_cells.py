from dataclasses import replace

from lab.tests.paper.helpers import cells_of
from sottovoce.data import synthetic_people
from sottovoce.training import Settings
from sottovoce_lab.paper import EXPERIMENTS, About, Cell, Scale, Size
from sottovoce_lab.paper.cells import COMPARED_METHODS
from sottovoce_lab.paper.scale import TUNING_SEED, make_settings

SIZE = Size(1000, 500)
CELL = Cell.from_settings("loudest", SIZE, Settings.preset("loudest", epsilon=2.5, reports=100), 0)
ABOUT = About("f" * 64, "x.csv", "x", 75_040, 9_781, 10**7, True, True, 0, scale=1.0, seeds=3)


def test_the_key_of_a_cell_never_changes() -> None:
    """Results of earlier versions stay valid; whoever changes a method raises `VERSION`."""
    assert Cell.from_parameters("popularity", SIZE, 3).key == "afa9ca5b6d08fb50fe76cf0165abebc3"
    assert Cell.from_parameters(
        "dplcf", SIZE, 0, neighbours=9, epsilon=2.5, split="latest"
    ).key == (Cell.from_parameters("dplcf", SIZE, 0, epsilon=2.5, split="latest", neighbours=9).key)


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
        replace(CELL, known=("tags",)),
        replace(CELL, known=("tags", "time")),
        replace(CELL, measured="late"),
        replace(CELL, measured="catalogue"),
        replace(CELL, measured="people"),
        Cell.from_settings("loudest", SIZE, replace(settings, epsilon=1.0), 0),
        Cell.from_settings("loudest", SIZE, replace(settings, alpha=2.0), 0),
        Cell.from_settings("loudest", SIZE, replace(settings, epochs=19), 0),
    ]
    assert len({cell.key for cell in [CELL, *others]}) == 1 + len(others)


def test_the_settings_own_seed_does_not_count() -> None:
    seeded = Cell.from_settings("loudest", SIZE, replace(CELL.settings, seed=8), 0)
    assert seeded == CELL
    assert seeded.settings.seed == 0


def test_figures_and_tables_share_cells() -> None:
    scale = Scale.from_about(ABOUT)
    cells = {name: set(cells_of(each, scale)) for name, each in EXPERIMENTS.items()}
    first_column = [
        scale.build_training(method, Size(users, 1000), 2.5, 100)(seed)
        for users in (1000, 10_000, 50_000)
        for method in COMPARED_METHODS
        for seed in (0, 1, 2)
    ]
    assert set(first_column) <= cells["fig2"] & cells["table4"]
    assert len(cells["fig2"]) == 3 * (2 * 4 * 4 * 3 + 3)
    assert len(cells["table4"]) == 3 * 9 * 4


def test_what_is_chosen_is_never_chosen_on_what_is_reported() -> None:
    scale = Scale.from_about(ABOUT)
    for name, experiment in EXPERIMENTS.items():
        cells = cells_of(experiment, scale)
        chosen_on = {(cell.seed, cell.draw) for cell in cells if cell.seed >= TUNING_SEED}
        reported = {(cell.seed, cell.draw) for cell in cells if cell.seed < TUNING_SEED}
        seeds = {
            "frontier": [TUNING_SEED],
            "tuned": [TUNING_SEED],
            "law": [TUNING_SEED, TUNING_SEED + 1],
        }.get(name, [])
        assert chosen_on == {(seed, seed) for seed in seeds}
        assert reported <= {(0, 0), (1, 0), (2, 0)}
        assert bool(reported) is (name not in ("frontier", "tuned")), "what follows from the choice"


def test_few_factors_where_there_is_little_to_learn_from() -> None:
    few = make_settings("loudest", 2.5, 1, 20, users=1000, items=1000)
    many = make_settings("loudest", 2.5, 100, 20, users=50_000, items=1000)
    assert few.factors == 1 < 20 == many.factors
    paper = make_settings("paper", 1, 1, 20, users=1000, items=1000)
    assert paper == Settings.preset("paper", epsilon=1.0, reports=1, epochs=20)


def test_about_knows_other_data() -> None:
    some = synthetic_people(n_users=30, n_items=20, seed=0)
    later = replace(some, timestamps=None)
    both = [About.from_data(d, "s", min_interactions=0, scale=1.0, seeds=1) for d in (some, later)]
    assert both[0].data != both[1].data
    assert both[0] == About.from_data(some, "s", min_interactions=0, scale=1.0, seeds=1)
