"""The Netflix Prize, as handed out (`training_set/mv_*.txt`) and as combined for Kaggle.

Both write a film's number and a colon on a line of their own, then `user,rating,date` for each
of its ratings. The data cannot be redistributed or fetched: readers give their own copy.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.collecting import Collector, Films
from sottovoce.data.formats.movielens import read_films
from sottovoce.data.formats.sources import Source, find, label
from sottovoce.data.formats.text import Block, blocks
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from sottovoce.data.interactions import Interactions

_FILE = re.compile(r"mv_\d+\.txt|combined_data_\d+\.txt")
_TITLES = ("movie_titles.txt", "movie_titles.csv")
_FILM = re.compile(r"\d+:")
_RATING = re.compile(r"\d+,\d+(\.\d+)?,\d{4}-\d{2}-\d{2}")
_FIELDS = {"user": pl.String, "rating": pl.String, "date": pl.String}
_HEADER = b"user,rating,date\n"  # else a block that begins with a film has one column only


def recognised(source: Source) -> bool:
    """Whether there are rating files of either form."""
    return bool(_files(source))


def read(source: Source) -> Interactions:
    """All ratings, with titles if the list of films is there."""
    collector = Collector()
    for name in _files(source):
        film = None  # every file begins with a film's line
        with source.open(name) as file:
            for block in blocks(file, label(source, name), quoted=False):
                frame, film = _parse(block, film)
                collector.add(frame)
    return collector.finish(source.path, "Netflix Prize", _films(source))


def _files(source: Source) -> list[str]:
    return sorted(name for name in source.names() if _FILE.fullmatch(PurePosixPath(name).name))


def _parse(block: Block, film: int | None) -> tuple[pl.DataFrame, int | None]:
    """The ratings of a block, and the film that the next block goes on with."""
    try:
        lines = pl.read_csv(_HEADER + block.data, schema=_FIELDS, quote_char=None)
        heading = lines["user"].str.ends_with(":").fill_null(value=False)
        films = lines.select(
            pl.when(heading).then(pl.col("user").str.head(-1).cast(pl.Int64, strict=False))
        ).to_series()
        current = films.fill_null(strategy="forward")
        if film is not None:
            current = current.fill_null(film)
        frame = lines.select(
            pl.col("user").cast(pl.Int64, strict=False),
            current.alias("item"),
            pl.col("rating").cast(pl.Float64, strict=False),
            pl.col("date").str.to_date("%Y-%m-%d", strict=False).dt.epoch("s").alias("timestamp"),
        ).filter(~heading)
    except PolarsError as error:
        raise _explained(block, film, str(error).splitlines()[0]) from error
    headings = lines.filter(heading)
    clean = not (any(frame.null_count().row(0)) or films.drop_nulls().len() != headings.height)
    if not clean or not frame["rating"].is_finite().all() or headings["rating"].count():
        raise _explained(block, film, "a line is not USER,RATING,DATE")
    return frame, film if current.is_empty() else current[-1]


def _explained(block: Block, film: int | None, otherwise: str) -> DataError:
    """The error that names the first line at fault."""
    lines = block.data.removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(lines, start=block.first_line):
        line = raw.decode("latin-1").removesuffix("\r")
        if _FILM.fullmatch(line):
            film = int(line[:-1])
        elif film is None:
            return DataError(
                f"expected a film's number and a colon, found {line!r}",
                path=block.label,
                line=number,
            )
        elif not _is_rating(line):
            return DataError(
                f"expected USER,RATING,YYYY-MM-DD, found {line!r}", path=block.label, line=number
            )
    return DataError(otherwise, path=block.label)


def _is_rating(line: str) -> bool:
    try:
        return bool(_RATING.fullmatch(line)) and bool(date.fromisoformat(line[-10:]))
    except ValueError:
        return False


def _films(source: Source) -> Films | None:
    name = next((found for title in _TITLES if (found := find(source, title))), None)
    if name is None:
        return None
    return read_films(source, name, _film_fields, "year and title")


def _film_fields(line: str) -> list[str]:
    """Number and title with its year, as MovieLens writes it; a few films have no year."""
    number, _, rest = line.partition(",")
    year, comma, title = rest.partition(",")  # the title comes last and may hold commas
    return [number, f"{title} ({year})" if year.isdecimal() else title, ""] if comma else []
