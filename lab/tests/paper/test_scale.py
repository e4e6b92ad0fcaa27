"""A share of the people: sizes, labels, and the paper's numbers beside them."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.tests.paper.helpers import SMOKE, WHOLE, cells_of
from sottovoce_lab.paper import EXPERIMENTS, CellStore, Scale, Size
from sottovoce_lab.paper.attacker import AttackerExperiment
from sottovoce_lab.paper.liars import PoisoningExperiment
from sottovoce_lab.paper.published import TABLE4, Figure3, Table4

TENTH = replace(WHOLE, scale=0.1)


def test_every_population_is_a_share_and_nothing_else_is() -> None:
    whole, tenth = Scale.from_about(WHOLE), Scale.from_about(TENTH)
    assert (tenth.users, tenth.curve_users) == ((100, 1_000, 5_000), (1_000, 5_000))
    assert (tenth.people, tenth.full) == (7_504, Size(7_504))
    assert (whole.people, whole.full) == (75_040, Size())
    assert [10 * people for people in tenth.fitted_people] == list(whole.fitted_people)
    assert [10 * people for people in tenth.checked_people] == list(whole.checked_people)
    assert 10 * tenth.max_people == whole.max_people
    people = {"users", "curve_users", "everybody", "full"}
    people |= {"fitted_people", "checked_people", "max_people"}
    assert replace(tenth, about=WHOLE, **{name: getattr(whole, name) for name in people}) == whole


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ("cost", "frontier")])
def test_cells_are_as_many_and_smaller(name: str) -> None:
    """But for the law, which has nothing to say about crowds that learn nothing."""
    whole, tenth = (
        cells_of(EXPERIMENTS[name], Scale.from_about(about)) for about in (WHOLE, TENTH)
    )
    assert len(tenth) == len(whole) or name == "law"
    assert max(cell.size.users or 0 for cell in tenth) <= 7_504
    assert all(cell.size.users for cell in tenth)


def test_few_people_are_not_fewer_than_a_hundred_and_stand_for_the_largest() -> None:
    scale = Scale.from_about(replace(WHOLE, scale=0.01))
    assert scale.users == (100, 500)
    assert [scale.find_paper_users(scale.make_small_size(users)) for users in scale.users] == [
        10_000,
        50_000,
    ]
    assert not set(scale.fitted_people) & set(scale.checked_people)


def test_data_with_few_people_has_the_papers_crowds_in_small() -> None:
    few = replace(WHOLE, users=6_040, items=3_706)
    assert Scale.from_about(few).users == (1_000,)
    tenth = Scale.from_about(replace(few, scale=0.1))
    assert (tenth.users, tenth.people) == ((100, 1_000, 5_000), 604)
    store = CellStore(Path("nowhere"), tenth.about)
    assert PoisoningExperiment(tenth, store)._size().users == 1_000
    assert AttackerExperiment(tenth, store)._size().users == 500


def test_the_papers_numbers_and_sizes_stand_beside_ours(tmp_path: Path) -> None:
    scale, store = Scale.from_about(TENTH), CellStore.create(tmp_path, TENTH)
    (table,) = Table4(scale, store).build_tables()
    at = table.headings.index("paper")
    assert [row[at] for row in table.rows] == [f"{said:.4f}" for said in TABLE4.values()]
    assert [row[0] for row in table.rows[::3]] == [
        "100 (paper: 1,000)", "1,000 (paper: 10,000)", "5,000 (paper: 50,000)"
    ]  # fmt: skip
    (curves,) = Figure3(scale, store).build_tables()
    assert [row[3:] for row in curves.rows if row[2] == "paper"][-1] == ("-", "0.65", "-", "0.70")
    assert "Scale 0.1" in TENTH.describe()


def test_where_the_paper_has_no_number_there_is_no_column_for_it(tmp_path: Path) -> None:
    scale, store = Scale.from_about(SMOKE), CellStore.create(tmp_path, SMOKE)
    for family in Table4(scale, store)._families(scale.make_small_size(scale.users[0])).values():
        store.put(family(0), {"final": {"hr@10": 0.5}}, 1.0)
    (table,) = Table4(scale, store).build_tables()
    assert "paper" in table.headings
    assert "paper" not in table.visible_rows[0]
    assert "preset paper" in table.visible_rows[0]
    assert {len(row) for row in table.visible_rows} == {len(table.headings) - 1}
    (curves,) = Figure3(scale, store).build_tables()
    assert "paper" not in {row[2] for row in curves.rows}
