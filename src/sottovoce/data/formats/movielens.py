"""MovieLens as published: 100K (`u.data`), 1M and 10M (`.dat`), 20M and later (`.csv`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.characters import spaced
from sottovoce.data.formats import delimited
from sottovoce.data.formats.collecting import Collector, Films
from sottovoce.data.formats.sources import Source, find, label, reading
from sottovoce.data.formats.text import Layout, blocks, parse, quoted_fields
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.data.interactions import Interactions
    from sottovoce.model.tags import Traits

# The order of the flags in 100K's list of films.
_GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime"),
    *("Documentary", "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery"),
    *("Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
_RATINGS = ("user", "item", "rating", "timestamp")
_NO_GENRES = ("(no genres listed)", "unknown", "")
_YEAR = re.compile(r"\((\d{4})\)\s*$")


@dataclass(frozen=True)
class Edition:
    """How one generation of the data set names and writes its files."""

    title: str
    ratings: str
    films: str
    layout: Layout | None
    """None: the ratings have a header that says it."""
    film_fields: Callable[[str], Sequence[str]]
    """A line of the list of films to id, title and genres."""
    film_header: bool = False


def _double_colon(line: str) -> list[str]:
    """`id::title::genres`; a title may hold colons of its own."""
    number, _, rest = line.partition("::")
    return [number, *rest.rsplit("::", 1)]


def _comma(line: str) -> list[str]:
    return quoted_fields(line, ",")


def _bar_and_flags(line: str) -> list[str]:
    """`id|title|release|video|address|` and a 0 or 1 for each genre."""
    fields = line.split("|")
    flags = fields[5:]
    if len(flags) != len(_GENRES_100K):
        return fields[:1]
    genres = [name for name, flag in zip(_GENRES_100K, flags, strict=True) if flag == "1"]
    return [fields[0], fields[1], "|".join(genres)]


EDITIONS = (
    Edition("MovieLens .dat", "ratings.dat", "movies.dat", Layout("::", _RATINGS), _double_colon),
    Edition("MovieLens .csv", "ratings.csv", "movies.csv", None, _comma, film_header=True),
    Edition("MovieLens 100K", "u.data", "u.item", Layout("\t", _RATINGS), _bar_and_flags),
)


def recognised(source: Source) -> Edition | None:
    return next((edition for edition in EDITIONS if find(source, edition.ratings)), None)


def read(source: Source, edition: Edition) -> Interactions:
    """All ratings, with titles and tags if the list of films is there."""
    name = find(source, edition.ratings)
    assert name is not None
    collector = Collector()
    with source.open(name) as file:
        if edition.layout is None:
            delimited.read_into(collector, file, label(source, name), integers=True)
        else:
            for block in blocks(file, label(source, name), quoted=False):
                collector.add(parse(block, edition.layout))
    return collector.finish(source.path, edition.title, _films(source, edition))


def _films(source: Source, edition: Edition) -> Films | None:
    name = find(source, edition.films)
    if name is None:
        return None
    first = 2 if edition.film_header else 1
    return read_films(source, name, edition.film_fields, "title and genres", first_line=first)


def read_films(
    source: Source,
    name: str,
    fields_of: Callable[[str], Sequence[str]],
    beside: str,
    first_line: int = 1,
) -> Films:
    """A list of films, a line each; `fields_of` makes number, title and genres of one."""
    films: Films = {}
    for number, line in _text_lines(source, name):
        if number < first_line:
            continue
        fields = fields_of(line)
        if len(fields) != 3 or not fields[0].isdecimal():
            raise DataError(
                f"expected a film's number, {beside}, found {line!r}",
                path=label(source, name),
                line=number,
            )
        title, genres = map(spaced, fields[1:])
        films[int(fields[0])] = (title, _traits(title, genres))
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


def _text_lines(source: Source, name: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of a small text file that is UTF-8 or, like the older lists, Latin-1."""
    with source.open(name) as file, reading(label(source, name)):
        data = file.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.removesuffix("\r")
