"""MovieLens and the Netflix Prize as published, in a folder or in a zip archive.

There are three formats of MovieLens: that of 100K (`u.data`), that of 1M and 10M (`.dat`), and that
of 20M and later editions (`.csv`). There are two of the Netflix Prize: the original files
(`training_set/mv_*.txt`) and the files that were combined for Kaggle. In both of them, a line with
a film's number and a colon is followed by a line `user,rating,date` for each of the film's ratings.
Archives are never unpacked to the disk.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.characters import replace_control_characters
from sottovoce.core.tags import Traits
from sottovoce.data.collecting import Collector
from sottovoce.data.files import convert_read_errors, open_file
from sottovoce.data.interactions import Interactions, ItemDescriptions
from sottovoce.data.text_tables import (
    Block,
    Layout,
    add_text,
    parse_block,
    read_blocks,
    split_fields,
)
from sottovoce.errors import DataError

File = Path | zipfile.Path
# Roles of the fields of a MovieLens rating.
_RATING_ROLES = ("user", "item", "rating", "timestamp")
# Texts that stand in the place of a genre if a film has no genre.
_NOT_GENRES = ("(no genres listed)", "unknown", "")
# The year of release at the end of a title.
_TITLE_YEAR = re.compile(r"\((\d{4})\)\s*$")
# Genres in the order of the flags in the film list of 100K.
_GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
# Files of the Netflix Prize: ratings and film lists.
_NETFLIX_RATINGS = re.compile(r"mv_\d+\.txt|combined_data_\d+\.txt")
_NETFLIX_FILMS = ("movie_titles.txt", "movie_titles.csv")
# Header that is put before every block. polars takes the number of columns from the first line, and
# the line of a film has only one.
_NETFLIX_HEADER = b"user,rating,date,more\n"


def _split_dat_film(line: str) -> list[str]:
    """Split `id::title::genres`, where the title may contain colons."""
    number, _, rest = line.partition("::")
    return [number, *rest.rsplit("::", 1)]


def _split_100k_film(line: str) -> list[str]:
    """Split `id|title|release|video|address|` followed by a flag (0 or 1) for each genre.

    Returns:
        Id, title and genres, or [] if the number of fields is wrong.
    """
    fields = line.split("|")
    flags = fields[5:]
    if len(flags) != len(_GENRES_100K):
        return []
    genres = [name for name, flag in zip(_GENRES_100K, flags, strict=True) if flag == "1"]
    return [fields[0], fields[1], "|".join(genres)]


def _split_netflix_film(line: str) -> list[str]:
    """Split `id,year,title`, and append the year to the title as MovieLens does.

    The year is left out if it is unknown. The result is [] if a field is missing.
    """
    number, _, rest = line.partition(",")
    year, comma, title = rest.partition(",")  # the title comes last and may hold commas
    return [number, f"{title} ({year})" if year.isdecimal() else title, ""] if comma else []


@dataclass(frozen=True)
class Edition:
    """A format of MovieLens: names of its files, and how to read them."""

    title: str
    """Name of the format, for `LoadCounts.format`."""
    ratings: str
    """Name of the file of ratings."""
    films: str
    """Name of the file of films."""
    layout: Layout | None
    """Layout of a rating, or None if the files of ratings and films have a header line."""
    film_fields: Callable[[str], Sequence[str]]
    """Splits a line of the film list into id, title and genres."""


# The formats of MovieLens. The first one whose file of ratings exists is read.
MOVIELENS_EDITIONS = (
    Edition(
        "MovieLens .dat", "ratings.dat", "movies.dat", Layout("::", _RATING_ROLES), _split_dat_film
    ),
    Edition("MovieLens .csv", "ratings.csv", "movies.csv", None, split_fields),
    Edition("MovieLens 100K", "u.data", "u.item", Layout("\t", _RATING_ROLES), _split_100k_film),
)


def read_published(path: Path) -> Interactions | None:
    """Read all ratings, with titles and tags if there is a film list.

    Returns:
        The data set, or None if this is neither MovieLens nor the Netflix Prize.
    """
    with _open_files(path) as files:
        edition = next((item for item in MOVIELENS_EDITIONS if item.ratings in files), None)
        ratings = [file for name, file in files.items() if _NETFLIX_RATINGS.fullmatch(name)]
        if edition:
            data = _read_movielens(files[edition.ratings], edition).finish(path, edition.title)
            films, split_film = files.get(edition.films), edition.film_fields
        elif ratings:
            data = _read_netflix(ratings).finish(path, "Netflix Prize")
            films = next((files[name] for name in _NETFLIX_FILMS if name in files), None)
            split_film = _split_netflix_film
        else:
            return None
        if films is None:
            return data
        has_header = edition is not None and edition.layout is None
        return data.replace_descriptions(_read_films(films, split_film, has_header=has_header))


def is_published(path: Path) -> bool:
    """Return whether a folder or archive holds ratings of MovieLens or the Netflix Prize."""
    with _open_files(path) as files:
        names = {edition.ratings for edition in MOVIELENS_EDITIONS}
        return any(name in names or _NETFLIX_RATINGS.fullmatch(name) for name in files)


@contextmanager
def _open_files(path: Path) -> Iterator[dict[str, File]]:
    """Open a folder or archive, and yield its files by their names without `.gz`."""
    if path.is_dir():
        with convert_read_errors(path):
            files = _list_files(path)
        yield files
        return
    with convert_read_errors(path):
        archive = zipfile.ZipFile(path)
        files = _list_files(zipfile.Path(archive))
    with archive:
        yield files


def _list_files(root: File) -> dict[str, File]:
    """Return the files of a folder and of the folders in it, by their names without `.gz`.

    If several files have the same name, one in the top folder is preferred to one below it, and an
    uncompressed file to a compressed one.
    """
    top: list[File] = sorted(root.iterdir(), key=str)
    nested: list[File] = []
    for folder in (entry for entry in top if entry.is_dir()):
        nested += sorted(folder.iterdir(), key=str)
    files: dict[str, File] = {}
    for file in top + nested:
        if file.is_file():
            name = file.name.removesuffix(".gz") if isinstance(file, Path) else file.name
            files.setdefault(name, file)
    return files


def _read_movielens(ratings: File, edition: Edition) -> Collector:
    collector = Collector()
    with open_file(ratings) as file:
        if edition.layout is None:
            add_text(collector, file, str(ratings), integers=True)
        else:
            for block in read_blocks(file, str(ratings), quoted=False):
                collector.add(parse_block(block, edition.layout))
    return collector


def _read_netflix(ratings: list[File]) -> Collector:
    collector = Collector()
    for path in ratings:
        film = None  # no film yet: every file begins with the line of a film
        with open_file(path) as file:
            for block in read_blocks(file, str(path), quoted=False):
                frame, film = _parse_netflix_block(block, film)
                collector.add(frame)
    return collector


def _parse_netflix_block(block: Block, film: int | None) -> tuple[pl.DataFrame, int | None]:
    """Return the ratings of a block, and the film to which its last line belongs.

    Args:
        block: Some whole lines of the file.
        film: The film to which the line before the block belongs; None at the start of a file.
    """
    schema = dict.fromkeys(_NETFLIX_HEADER.decode().strip().split(","), pl.String)
    text = _NETFLIX_HEADER + block.data
    try:
        lines = pl.read_csv(text, schema=schema, quote_char=None, truncate_ragged_lines=True)
    except PolarsError as error:
        why = str(error).splitlines()[0]
        raise DataError(f"must be lines of text: {why}", path=block.label) from error
    # The line of a film is its number with a colon, such as "17:".
    is_film = pl.col("user").str.ends_with(":").fill_null(value=False)
    previous_film = pl.lit(film, dtype=pl.Int64)
    lines = lines.select(
        "more",
        is_film.alias("is_film"),
        pl.col("user").str.strip_suffix(":").cast(pl.Int64, strict=False),
        pl.col("rating").cast(pl.Float64, strict=False),
        pl.col("date").str.to_date("%Y-%m-%d", strict=False).dt.epoch("s").alias("timestamp"),
        (pl.col("rating").is_null() & pl.col("date").is_null()).alias("has_no_rating"),
    ).with_columns(
        pl.when("is_film").then("user").forward_fill().fill_null(previous_film).alias("item")
    )
    is_rating = pl.col("rating").is_finite() & pl.col("timestamp").is_not_null()
    is_valid = pl.when("is_film").then("has_no_rating").otherwise(is_rating).fill_null(value=False)
    has_ids = pl.col("user").is_not_null() & pl.col("item").is_not_null()
    has_three_fields = pl.col("more").is_null()
    bad_rows = lines.select(~(is_valid & has_ids & has_three_fields)).to_series().arg_true()
    if len(bad_rows):
        raise DataError(
            "must be FILM: or, below it, USER,RATING,YYYY-MM-DD",
            path=block.label,
            line=block.first_line + int(bad_rows[0]),
        )
    frame = lines.filter(~pl.col("is_film")).select("user", "item", "rating", "timestamp")
    return frame, int(lines["item"][-1])


def _read_films(
    file: File, split_film: Callable[[str], Sequence[str]], *, has_header: bool
) -> ItemDescriptions:
    """Read titles and tags from a film list with one film on each line."""
    with open_file(file) as stream, convert_read_errors(str(file)):
        data = stream.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:  # older film lists are Latin-1
        text = data.decode("latin-1")
    films: dict[str, tuple[str, Traits]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or (has_header and number == 1):
            continue
        fields = split_film(line.removesuffix("\r"))
        if len(fields) != 3 or not fields[0].isdecimal():
            raise DataError(
                f"must be a film's number, title and year or genres, not {line!r}",
                path=str(file),
                line=number,
            )
        title, genres = map(replace_control_characters, fields[1:])
        films[str(int(fields[0]))] = (title, _parse_traits(title, genres))
    return films


def _parse_traits(title: str, genre_list: str) -> Traits:
    """Return the traits of a film: its genres, and the year at the end of its title.

    Traits that are missing are left out.
    """
    traits: dict[str, tuple[str, ...] | float] = {}
    genres = tuple(name for name in dict.fromkeys(genre_list.split("|")) if name not in _NOT_GENRES)
    if genres:
        traits["genre"] = genres
    if year := _TITLE_YEAR.search(title):
        traits["year"] = int(year[1])
    return traits
