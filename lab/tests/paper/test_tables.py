"""Tests of what experiments share: tables, contests, the paper's numbers, and empty results."""

import csv
import io
import re
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper import EXPERIMENTS, CellStore, Grid
from sottovoce_lab.paper.contests import Contest, is_win, summarize_contests
from sottovoce_lab.paper.paper_numbers import TABLE4, TABLE5
from sottovoce_lab.paper.tables import Table, format_difference, make_records

PAPER_SOURCE = Path(__file__).parents[4] / "shared" / "paper" / "minto2021.tex"
# Names of macros in the paper's source.
TABLE4_MACROS = ("smsm", "sm", "smla", "ms", "mm", "ml", "ls", "lm", "lala")
TABLE5_MACROS = {
    "MF-NP": "mfnp{}",
    "DPLCF": "dplcf{}",
    "FMF-LDP-100": "fmfldpLarge{}f",
    "FMF-LDP-250": "fmfldpLarge{}",
}


def test_sums_of_the_papers_numbers() -> None:
    assert sum(TABLE4.values()) == pytest.approx(3.2216)
    assert sum(map(sum, TABLE5.values())) == pytest.approx(6.0789)
    assert list(TABLE4) == [
        (users, items) for users in (1000, 10_000, 50_000) for items in (1000, 5000, None)
    ]


@pytest.mark.skipif(not PAPER_SOURCE.exists(), reason="the paper's source is not here")
def test_papers_numbers_equal_its_source() -> None:
    commands = re.findall(r"\\newcommand\{\\(\w+)\}\{([0-9.]+)\}", PAPER_SOURCE.read_text())
    macros = {name: float(value) for name, value in commands}
    assert list(TABLE4.values()) == [macros[name] for name in TABLE4_MACROS]
    for row, name in TABLE5_MACROS.items():
        expected = tuple(macros[name.format(length)] for length in ("Two", "Five", "Ten"))
        assert TABLE5[row] == expected


def test_csv_has_every_number() -> None:
    records = [
        *make_records(Interval.from_values([0.1, 0.2, 0.4]), users=5),
        *make_records(Interval.from_values([0.3]), users=6, method="a,b"),
        *make_records(None, users=7),
    ]
    table = Table("t", "T", ("users",), [("5",)], records)
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [float(row["mean"]) for row in rows] == [pytest.approx(0.7 / 3), 0.3]
    assert rows[1]["half_width95"] == ""
    assert rows[1]["method"] == "a,b"


def test_summary_of_contests_names_losses() -> None:
    clear = Interval.from_values([0.1, 0.11, 0.12])
    unclear = Interval.from_values([0.1, -0.05, 0.1])
    assert is_win(clear)
    assert not is_win(unclear)
    assert not is_win(Interval.from_values([-0.1]))
    contest = partial(Contest, "loudest", "paper")
    sentences = summarize_contests([contest("here", clear), contest("there", unclear)])
    assert len(sentences) == 1
    assert "loudest beats preset paper in 1 of 2 cells" in sentences[0]
    assert f"there ({format_difference(unclear)})" in sentences[0]
    assert "here (" not in sentences[0].replace("there (", "")
    assert "95% interval" in sentences[0]
    single = summarize_contests([contest("here", Interval.from_values([0.1]))])
    assert "single split" in single[0]
    assert summarize_contests([contest("here", None)]) == []


@pytest.mark.filterwarnings("ignore:No artists with labels")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_without_results_have_no_numbers(name: str, tmp_path: Path) -> None:
    grid = Grid.from_about(SMOKE)
    experiment = EXPERIMENTS[name](grid, CellStore.create(tmp_path, grid.about))
    assert experiment.list_cells()
    assert not any(table.has_numbers for table in experiment.build_tables())
    experiment.draw(Figure())
