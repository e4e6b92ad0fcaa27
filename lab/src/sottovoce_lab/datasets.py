"""The report's data sets, built from the files of their publishers.

Their licences do not allow us to pass them on. Anyone who has the publishers' files can build them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data import load
from sottovoce.data.files import convert_read_errors, get_first_line
from sottovoce.errors import DataError, MissingExtraError

# Subset of the Netflix Prize: the most rated films, and people who rated enough of these.
NETFLIX_FILM_COUNT = 9_781
NETFLIX_PEOPLE_COUNT = 75_040
MIN_FILMS_PER_PERSON = 60
# Seed that draws the new numbers of the films and people of this subset.
NETFLIX_ORDER_SEED = 20261115
# Globo.com's timestamps are in milliseconds.
MILLISECONDS_PER_SECOND = 1_000
# Dates of the shop's sales in its sheet as a CSV file: as UCI, spreadsheets and pandas write them.
SALE_DATE_FORMATS = ("%m/%d/%Y %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%.f")


@dataclass(frozen=True)
class DataRecipe:
    """How to build one data set of the report, and how large the report's own file is."""

    build: Callable[[Path], pl.DataFrame]
    """Returns the columns user, item and timestamp from the publisher's files."""
    people: int
    items: int
    interactions: int

    def describe_size(self) -> str:
        """Describe the size of the report's own file."""
        return format_size(self.people, self.items, self.interactions)


def format_size(people: int, items: int, interactions: int) -> str:
    """Format the size of a data set."""
    return f"{people:,} people, {items:,} items, {interactions:,} interactions"


def describe_table(table: pl.DataFrame) -> str:
    """Describe the size of a table of interactions."""
    return format_size(table["user"].n_unique(), table["item"].n_unique(), table.height)


def build_netflix_subset(
    source: Path, films: int = NETFLIX_FILM_COUNT, people: int = NETFLIX_PEOPLE_COUNT
) -> pl.DataFrame:
    """Select random people and the most rated films of the Netflix Prize, with new numbers.

    Args:
        source: The folder with `training_set/` or `combined_data_*.txt`.
        films: Maximum number of films. Of films with equally many ratings, the first are selected.
        people: Maximum number of people.
    """
    prize = load(source)
    if prize.timestamps is None:
        raise DataError("the ratings must have dates, as those of the Netflix Prize", path=source)
    by_ratings = np.argsort(-prize.histories.popularity(), kind="stable")
    data = prize.select(None, np.sort(by_ratings[:films]))
    is_active = np.diff(data.histories.indptr) >= MIN_FILMS_PER_PERSON
    rng = np.random.default_rng(NETFLIX_ORDER_SEED)
    film_numbers = rng.permutation(data.n_items)
    chosen = np.flatnonzero(is_active)[rng.permutation(int(is_active.sum()))[:people]]
    if not len(chosen):
        raise DataError(
            f"nobody rated {MIN_FILMS_PER_PERSON} of the {films:,} most rated films", path=source
        )
    # `select` keeps people in their old order. The new number of each is their place in `chosen`.
    data, numbers = data.select(chosen, None), np.argsort(chosen)
    table = pl.DataFrame(
        {
            "user": numbers[data.histories.users_of_entries()].astype(np.int32),
            "item": film_numbers[data.histories.indices].astype(np.int32),
            "timestamp": data.timestamps,
        }
    ).sort("user", "item")
    # The Prize has days, but no times. Draw one rating of each person's last day at random and add
    # one second to its time, so that all splits leave out the same rating.
    ties = rng.random(table.height)
    order = np.lexsort((ties, table["timestamp"].to_numpy(), table["user"].to_numpy()))
    is_last = np.diff(table["user"].to_numpy()[order], append=-1) != 0
    is_latest = np.zeros(table.height, np.int32)
    is_latest[order[is_last]] = 1
    return table.with_columns((pl.col("timestamp") + is_latest).cast(pl.Int32))


def build_globo_news(source: Path) -> pl.DataFrame:
    """Select the first click of each reader on each article.

    Args:
        source: The folder of `clicks_hour_*.csv`, from `clicks.zip`.
    """
    with convert_table_errors(source):
        clicks = pl.read_csv(
            source / "clicks_hour_*.csv",
            columns=["user_id", "click_article_id", "click_timestamp"],
        )
        return select_first(
            clicks,
            pl.col("user_id").cast(pl.Int32),
            pl.col("click_article_id").cast(pl.Int32),
            pl.col("click_timestamp") // MILLISECONDS_PER_SECOND,
        )


def build_online_retail(source: Path) -> pl.DataFrame:
    """Select the first purchase of each article by each known customer.

    Cancellations, which have negative quantities, are left out. The purchases that they cancel are
    kept.

    Args:
        source: `Online Retail.xlsx`, or its sheet as a CSV file.
    """
    with convert_table_errors(source):
        if source.suffix == ".csv":
            # Titles in the CSV files that are passed around are not always UTF-8.
            sales = pl.read_csv(source, infer_schema=False, encoding="utf8-lossy")
            dates = [
                pl.col("InvoiceDate").str.to_datetime(form, strict=False)
                for form in SALE_DATE_FORMATS
            ]
            sales = sales.with_columns(pl.coalesce(dates))
        else:
            sales = pl.read_excel(source, schema_overrides={"StockCode": pl.String})
        is_sale = pl.col("CustomerID").is_not_null() & (pl.col("Quantity").cast(pl.Int64) > 0)
        return select_first(
            sales.filter(is_sale),
            pl.col("CustomerID").cast(pl.Float64).cast(pl.Int32),
            pl.col("StockCode"),
            pl.col("InvoiceDate").dt.epoch("s"),
        )


@contextmanager
def convert_table_errors(source: Path) -> Iterator[None]:
    """Convert errors of reading a publisher's tables to a `DataError` that names the source."""
    try:
        with convert_read_errors(source):
            yield
    except PolarsError as error:
        raise DataError(f"cannot be read: {get_first_line(error)}", path=source) from error
    except ImportError as error:
        raise MissingExtraError("a workbook needs fastexcel: pip install fastexcel") from error


def select_first(table: pl.DataFrame, user: pl.Expr, item: pl.Expr, time: pl.Expr) -> pl.DataFrame:
    """Return the first time of each pair of user and item, sorted by user and item."""
    pairs = table.select(user.alias("user"), item.alias("item"), time.alias("timestamp"))
    if empty := [column.name for column in pairs if column.null_count()]:
        raise DataError(f"every row must have a readable {' and '.join(empty)}; some have none")
    return pairs.group_by("user", "item").agg(pl.col("timestamp").min()).sort("user", "item")


# The data sets by name.
DATA_RECIPES = {
    "netflix-75k": DataRecipe(
        build_netflix_subset,
        NETFLIX_PEOPLE_COUNT,
        NETFLIX_FILM_COUNT,
        23_323_394,
    ),
    "globo-news": DataRecipe(
        build_globo_news,
        322_897,
        46_033,
        2_950_710,
    ),
    "online-retail": DataRecipe(
        build_online_retail,
        4_339,
        3_665,
        266_792,
    ),
}
