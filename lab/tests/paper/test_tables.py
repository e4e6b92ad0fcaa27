import csv
import io
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lab.tests.paper.helpers import SMOKE
from sottovoce.data import synthetic_people
from sottovoce.protocol import SEALED_BYTES, Catalogue, Item, batch_size, encode_items
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper import EXPERIMENTS, CellStore, Scale, published
from sottovoce_lab.paper.published import measure_message_bytes
from sottovoce_lab.paper.tables import (
    Contest,
    Table,
    format_difference,
    is_better,
    make_records,
    summarize_contests,
)

PAPER = Path(__file__).parents[4] / "shared" / "paper" / "minto2021.tex"
MACROS4 = ("smsm", "sm", "smla", "ms", "mm", "ml", "ls", "lm", "lala")
MACROS5 = {
    "MF-NP": "mfnp{}",
    "DPLCF": "dplcf{}",
    "FMF-LDP-100": "fmfldpLarge{}f",
    "FMF-LDP-250": "fmfldpLarge{}",
}


def test_sums_of_the_papers_numbers() -> None:
    assert sum(published.TABLE4.values()) == pytest.approx(3.2216)
    assert sum(map(sum, published.TABLE5.values())) == pytest.approx(6.0789)
    assert list(published.TABLE4) == [
        (users, items) for users in (1000, 10_000, 50_000) for items in (1000, 5000, None)
    ]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_the_papers_numbers_are_the_papers() -> None:
    found = re.findall(r"\\newcommand\{\\(\w+)\}\{([0-9.]+)\}", PAPER.read_text())
    macros = {name: float(value) for name, value in found}
    assert list(published.TABLE4.values()) == [macros[name] for name in MACROS4]
    for row, name in MACROS5.items():
        said = tuple(macros[name.format(cutoff)] for cutoff in ("Two", "Five", "Ten"))
        assert published.TABLE5[row] == said


def test_bytes_are_those_of_the_encodings() -> None:
    people = synthetic_people(n_users=20, n_items=30, seed=0)
    counted = measure_message_bytes(people, reports=7, factors=5)
    assert counted["batch_sealed"] == batch_size(7) == 56 + 7 * SEALED_BYTES
    assert counted["reports_unsealed"] == 28
    assert counted["model"] == len(encode_items(np.ones((30, 5), np.float32)))
    assert counted["model"] > 4 * 30 * 5
    items = [Item(*each) for each in people.list_items()]
    assert any(item.tags for item in items)
    assert counted["catalogue_once"] == len(Catalogue.from_items(items).raw)
    assert 64 < counted["manifest"] < 2000


def test_csv_has_every_number() -> None:
    records = [
        *make_records(Interval.from_values([0.1, 0.2, 0.4]), users=5),
        *make_records(Interval.from_values([0.3]), users=6, method="a,b"),
        *make_records(None, users=7),
    ]
    table = Table("t", "T", ("users",), [("5",)], records)
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [float(row["mean"]) for row in read] == [pytest.approx(0.7 / 3), 0.3]
    assert read[1]["half_width95"] == ""
    assert read[1]["method"] == "a,b"


def test_verdict_names_what_is_not_won() -> None:
    clear, unclear = (
        Interval.from_values([0.1, 0.11, 0.12]),
        Interval.from_values([0.1, -0.05, 0.1]),
    )
    assert is_better(clear)
    assert not is_better(unclear)
    assert not is_better(Interval.from_values([-0.1]))
    contest = partial(Contest, "loudest", "paper")
    notes = summarize_contests([contest("here", clear), contest("there", unclear)])
    assert len(notes) == 1
    assert "loudest beats preset paper in 1 of 2 cells" in notes[0]
    assert f"there ({format_difference(unclear)})" in notes[0]
    assert "here (" not in notes[0].replace("there (", "")
    assert "95% interval" in notes[0]
    assert "single split" in summarize_contests([contest("here", Interval.from_values([0.1]))])[0]
    assert summarize_contests([contest("here", None)]) == []


@pytest.mark.filterwarnings("ignore:No artists with labels")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_is_shown_before_anything_is_known(name: str, tmp_path: Path) -> None:
    scale = Scale.from_about(SMOKE)
    experiment = EXPERIMENTS[name](scale, CellStore.create(tmp_path, scale.about))
    assert experiment.list_cells()
    assert not any(table.has_numbers for table in experiment.build_tables())
    experiment.draw(Figure())
