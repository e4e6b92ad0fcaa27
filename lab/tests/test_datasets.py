"""The report's data sets, built from small invented files in the formats of their publishers."""

from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sottovoce.cli.app import app
from sottovoce.data import leave_one_out, load
from sottovoce.errors import DataError, SottovoceError
from sottovoce_lab.datasets import NETFLIX_ORDER_SEED, build_netflix_subset, build_online_retail
from tests.processes import make_caller

call = make_caller(app)
DAY_SECONDS = 86_400
# A rating is a film, a person and a day since 1970.
Rating = tuple[int, int, int]
SHOP_SHEET = """\
InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country
536365,85123A,"LAMP, RED",6,12/1/2010 8:26,2.55,17850,United Kingdom
536366,85123A,"LAMP, RED",1,12/1/2010 8:25,2.55,17850,United Kingdom
C536379,22633,HANDS,-1,12/2/2010 9:00,1.85,17850,United Kingdom
536380,22633,HANDS,1,12/2/2010 9:00,1.85,,United Kingdom
536381,22633,HANDS,3,12/3/2010 10:00,1.85,12583,France
"""


@pytest.fixture(scope="module")
def ratings() -> list[Rating]:
    """Invent ratings of 80 films by 60 people on 5 days; half of the people rate many films."""
    rng = np.random.default_rng(1)
    rated = []
    for person in range(60):
        n = int(rng.integers(62, 80)) if person % 2 else 30
        films = rng.permutation(80)[:n] + 1
        days = rng.integers(12_000, 12_005, n)
        rated += [
            (int(film), 1000 + 7 * person, int(day)) for film, day in zip(films, days, strict=True)
        ]
    return rated


@pytest.fixture(scope="module")
def prize(ratings: list[Rating], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write them as the files that were combined for Kaggle."""
    folder = tmp_path_factory.mktemp("prize")
    lines = defaultdict(list)
    for film, person, day in ratings:
        lines[film].append(f"{person},3,{date(1970, 1, 1) + timedelta(day)}\n")
    for number, films in ((1, range(1, 50)), (2, range(50, 81))):
        text = "".join(f"{film}:\n{''.join(lines[film])}" for film in films)
        (folder / f"combined_data_{number}.txt").write_text(text)
    return folder


def test_most_rated_films_and_active_people_are_selected(
    ratings: list[Rating], prize: Path
) -> None:
    table = build_netflix_subset(prize, films=70, people=15)
    # The same in plain Python.
    counts: dict[int, int] = defaultdict(int)
    for film, _, _ in ratings:
        counts[film] += 1
    films = sorted(sorted(counts, key=lambda film: (-counts[film], film))[:70])
    own: dict[int, dict[int, int]] = defaultdict(dict)
    for film, person, day in ratings:
        if film in films:
            own[person][film] = day
    active = [person for person in sorted(own) if len(own[person]) >= 60]
    assert 15 < len(active) < 30
    rng = np.random.default_rng(NETFLIX_ORDER_SEED)
    numbers = dict(zip(films, rng.permutation(70).tolist(), strict=True))
    people = [active[place] for place in rng.permutation(len(active))[:15]]
    expected = {
        (number, numbers[film], day)
        for number, person in enumerate(people)
        for film, day in own[person].items()
    }
    rows = table.with_columns(pl.col("timestamp") // DAY_SECONDS).rows()
    assert rows == sorted(rows)
    assert set(rows) == expected
    assert len(rows) == len(expected)


def test_one_rating_of_the_last_day_is_the_latest(prize: Path, tmp_path: Path) -> None:
    table = build_netflix_subset(prize, films=70, people=15)
    again = build_netflix_subset(prize, films=70, people=15)
    assert table.equals(again)
    by_user = table.group_by("user").agg(
        marked=(pl.col("timestamp") % DAY_SECONDS).sum(),
        last=pl.col("timestamp").max() % DAY_SECONDS,
    )
    assert set(by_user.select("marked", "last").rows()) == {(1, 1)}
    # So a split does not draw.
    table.write_parquet(tmp_path / "subset.parquet")
    data = load(tmp_path / "subset.parquet")
    first, second = (leave_one_out(data, "latest", seed).test.tolist() for seed in (0, 1))
    assert first == second


def test_clicks_count_once_and_in_seconds(tmp_path: Path) -> None:
    header = "user_id,session_id,click_article_id,click_timestamp,click_os\n"
    (tmp_path / "clicks_hour_000.csv").write_text(
        header + "5,1,70,1506826800999,17\n3,1,60,1506826801000,2\n"
    )
    (tmp_path / "clicks_hour_001.csv").write_text(header + "5,2,70,1506826700000,17\n")
    out = tmp_path / "news.parquet"
    text = call("prepare", "globo-news", str(tmp_path), str(out))
    assert "2 people, 2 items, 2 interactions" in text
    assert "another size: 322,897 people" in text
    assert pl.read_parquet(out).rows() == [(3, 60, 1506826801), (5, 70, 1506826700)]
    assert load(out).n_users == 2


def test_first_purchases_of_known_customers_are_selected(tmp_path: Path) -> None:
    path = tmp_path / "retail.csv"
    path.write_text(SHOP_SHEET)
    expected = [(12583, "22633", 1291370400), (17850, "85123A", 1291191900)]
    assert build_online_retail(path).rows() == expected
    path.write_text(SHOP_SHEET.replace("12/3/2010 10:00", "3 December"))
    with pytest.raises(DataError, match="timestamp"):
        build_online_retail(path)


@pytest.mark.parametrize("name", ["netflix-75k", "globo-news", "online-retail", "netflix"])
def test_sources_without_the_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("user,item\n1,2\n")
    source = tmp_path / "other.csv" if name == "online-retail" else tmp_path
    with pytest.raises(SottovoceError):
        call("prepare", name, str(source), str(tmp_path / "out.parquet"))
    assert not (tmp_path / "out.parquet").exists()
