"""Data sets as published, in a folder or a zip archive, which is never unpacked to the disk.

MovieLens: 100K (`u.data`), 1M and 10M (`.dat`), 20M and later (`.csv`). The Netflix Prize: as
handed out (`training_set/mv_*.txt`) and as combined for Kaggle. Both write a film's number and a
colon on a line of their own, then `user,rating,date` for each of its ratings.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.characters import spaced
from sottovoce.core.recommending import Traits
from sottovoce.data.interactions import Described, Interactions
from sottovoce.data.tables import (
    Block,
    Collector,
    Layout,
    add_text,
    blocks,
    fields_of,
    open_file,
    parse,
    reading,
)
from sottovoce.errors import DataError

File = Path | zipfile.Path
_RATINGS = ("user", "item", "rating", "timestamp")
_NO_GENRES = ("(no genres listed)", "unknown", "")
_YEAR = re.compile(r"\((\d{4})\)\s*$")
# The order of the flags in 100K's list of films.
_GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
_NETFLIX = re.compile(r"mv_\d+\.txt|combined_data_\d+\.txt")
_NETFLIX_FILMS = ("movie_titles.txt", "movie_titles.csv")
_NETFLIX_HEADER = b"user,rating,date,more\n"  # else a block that begins with a film has one column


def _double_colon(line: str) -> list[str]:
    """`id::title::genres`; a title may hold colons of its own."""
    number, _, rest = line.partition("::")
    return [number, *rest.rsplit("::", 1)]


def _bar_and_flags(line: str) -> list[str]:
    """`id|title|release|video|address|` and a 0 or 1 for each genre."""
    fields = line.split("|")
    flags = fields[5:]
    if len(flags) != len(_GENRES_100K):
        return []
    genres = [name for name, flag in zip(_GENRES_100K, flags, strict=True) if flag == "1"]
    return [fields[0], fields[1], "|".join(genres)]


def _year_and_title(line: str) -> list[str]:
    """Netflix: number and title with its year, as MovieLens writes it; a few have no year."""
    number, _, rest = line.partition(",")
    year, comma, title = rest.partition(",")  # the title comes last and may hold commas
    return [number, f"{title} ({year})" if year.isdecimal() else title, ""] if comma else []


@dataclass(frozen=True)
class Edition:
    title: str
    ratings: str
    films: str
    layout: Layout | None
    """None: the ratings have a header that says it, and so have the films."""
    film_fields: Callable[[str], Sequence[str]]
    """A line of the list of films to id, title and genres."""


EDITIONS = (
    Edition("MovieLens .dat", "ratings.dat", "movies.dat", Layout("::", _RATINGS), _double_colon),
    Edition("MovieLens .csv", "ratings.csv", "movies.csv", None, fields_of),
    Edition("MovieLens 100K", "u.data", "u.item", Layout("\t", _RATINGS), _bar_and_flags),
)


def read_published(path: Path) -> Interactions | None:
    """All ratings, with titles and tags if the list of films is there; None if it is neither."""
    with _files(path) as files:
        edition = next((each for each in EDITIONS if each.ratings in files), None)
        ratings = [file for name, file in files.items() if _NETFLIX.fullmatch(name)]
        if edition:
            data = _movielens(files[edition.ratings], edition).finish(path, edition.title)
            films, form = files.get(edition.films), edition.film_fields
        elif ratings:
            data = _netflix(ratings).finish(path, "Netflix Prize")
            films = next((files[name] for name in _NETFLIX_FILMS if name in files), None)
            form = _year_and_title
        else:
            return None
        if films is None:
            return data
        header = edition is not None and edition.layout is None
        return data.with_described(_films(films, form, header=header))


def is_published(path: Path) -> bool:
    with _files(path) as files:
        names = {edition.ratings for edition in EDITIONS}
        return any(name in names or _NETFLIX.fullmatch(name) for name in files)


@contextmanager
def _files(path: Path) -> Iterator[dict[str, File]]:
    """By name, without `.gz`: of one name that which lies least deep, and the plain one."""
    if path.is_dir():
        with reading(path):
            found = _listed(path)
        yield found
        return
    with reading(path):
        archive = zipfile.ZipFile(path)
        found = _listed(zipfile.Path(archive))
    with archive:
        yield found


def _listed(root: File) -> dict[str, File]:
    """A published archive is one folder of files, or files alone."""
    above: list[File] = sorted(root.iterdir(), key=str)
    below: list[File] = []
    for folder in (each for each in above if each.is_dir()):
        below += sorted(folder.iterdir(), key=str)
    found: dict[str, File] = {}
    for file in above + below:
        if file.is_file():
            name = file.name.removesuffix(".gz") if isinstance(file, Path) else file.name
            found.setdefault(name, file)
    return found


def _movielens(ratings: File, edition: Edition) -> Collector:
    collector = Collector()
    with open_file(ratings) as file:
        if edition.layout is None:
            add_text(collector, file, str(ratings), integers=True)
        else:
            for block in blocks(file, str(ratings), quoted=False):
                collector.add(parse(block, edition.layout))
    return collector


def _netflix(ratings: list[File]) -> Collector:
    collector = Collector()
    for each in ratings:
        film = None  # every file begins with a film's line
        with open_file(each) as file:
            for block in blocks(file, str(each), quoted=False):
                frame, film = _of_films(block, film)
                collector.add(frame)
    return collector


def _of_films(block: Block, film: int | None) -> tuple[pl.DataFrame, int | None]:
    """The ratings of a block, and the film that the next block goes on with."""
    text = dict.fromkeys(_NETFLIX_HEADER.decode().strip().split(","), pl.String)
    whole = _NETFLIX_HEADER + block.data
    try:
        lines = pl.read_csv(whole, schema=text, quote_char=None, truncate_ragged_lines=True)
    except PolarsError as error:
        why = str(error).splitlines()[0]
        raise DataError(f"must be lines of text: {why}", path=block.label) from error
    heads = pl.col("user").str.ends_with(":").fill_null(value=False)
    before = pl.lit(film, dtype=pl.Int64)
    lines = lines.select(
        "more",
        heads.alias("heads"),
        pl.col("user").str.strip_suffix(":").cast(pl.Int64, strict=False),
        pl.col("rating").cast(pl.Float64, strict=False),
        pl.col("date").str.to_date("%Y-%m-%d", strict=False).dt.epoch("s").alias("timestamp"),
        (pl.col("rating").is_null() & pl.col("date").is_null()).alias("alone"),
    ).with_columns(pl.when("heads").then("user").forward_fill().fill_null(before).alias("item"))
    rated = pl.col("rating").is_finite() & pl.col("timestamp").is_not_null()
    right = pl.when("heads").then("alone").otherwise(rated).fill_null(value=False)
    known = pl.col("user").is_not_null() & pl.col("item").is_not_null()
    wrong = lines.select(~(right & known & pl.col("more").is_null())).to_series().arg_true()
    if len(wrong):
        said = "must be FILM: or, below it, USER,RATING,YYYY-MM-DD"
        raise DataError(said, path=block.label, line=block.first_line + int(wrong[0]))
    frame = lines.filter(~pl.col("heads")).select("user", "item", "rating", "timestamp")
    return frame, int(lines["item"][-1])


def _films(file: File, fields: Callable[[str], Sequence[str]], *, header: bool) -> Described:
    """A list of films, a line each, in UTF-8 or, as the older lists are, Latin-1."""
    with open_file(file) as opened, reading(str(file)):
        data = opened.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    films: dict[str, tuple[str, Traits]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or (header and number == 1):
            continue
        found = fields(line.removesuffix("\r"))
        if len(found) != 3 or not found[0].isdecimal():
            said = f"must be a film's number, title and year or genres, found {line!r}"
            raise DataError(said, path=str(file), line=number)
        title, genres = map(spaced, found[1:])
        films[str(int(found[0]))] = (title, _traits(title, genres))
    return films


def _traits(title: str, joined: str) -> Traits:
    """Genres, and the year that ends a title; what is not known is left out."""
    traits: dict[str, tuple[str, ...] | float] = {}
    genres = tuple(name for name in dict.fromkeys(joined.split("|")) if name not in _NO_GENRES)
    if genres:
        traits["genre"] = genres
    if year := _YEAR.search(title):
        traits["year"] = int(year[1])
    return traits
