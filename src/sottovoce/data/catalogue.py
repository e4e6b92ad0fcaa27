"""The data sets that have a name, where they come from and what their publishers ask."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from sottovoce.errors import DataError

BASE_URL = "https://files.grouplens.org/datasets/movielens"
CACHE_VARIABLE = "SOTTOVOCE_CACHE"
_BUNDLED = Path(__file__).parent / "bundled"

_RESEARCH = (
    "For research, not for commercial use without GroupLens's permission; acknowledge it in "
    "publications and imply no endorsement. "
)
_NO_COPIES = _RESEARCH + "Do not pass the data on. The terms are in the archive's README."
_COPIES = _RESEARCH + "May be passed on under the same terms, which are in the archive's README."
_SEE_README = _RESEARCH + "Whether it may be passed on: see the README in the archive."


@dataclass(frozen=True)
class DataSet:
    name: str
    about: str
    licence: str
    megabytes: float
    """Roughly, to download."""
    sha256: str | None = None
    """Pinned where a copy could be checked; else the publisher's own MD5 file is used."""
    fetchable: bool = True

    @property
    def bundled(self) -> Path | None:
        """The copy inside this package, if there is one."""
        path = _BUNDLED / self.name
        return path if path.is_dir() else None


NETFLIX = DataSet(
    "netflix",
    "the Netflix Prize: 100 million ratings, 480,189 people, 17,770 films",
    "Withdrawn by its publisher and not to be redistributed.",
    0.0,
    fetchable=False,
)

CATALOGUE: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet("ml-latest-small", "100,836 ratings, 610 people, 9,742 films (2018)", _COPIES, 1.0),
        DataSet("ml-100k", "100,000 ratings, 943 people, 1,682 films", _SEE_README, 5.0),
        DataSet(
            "ml-1m",
            "1,000,209 ratings, 6,040 people, 3,706 films",
            _NO_COPIES,
            5.9,
            sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        ),
        DataSet("ml-10m", "10 million ratings, 72 thousand people", _SEE_README, 63.0),
        DataSet("ml-20m", "20 million ratings, 138 thousand people", _SEE_README, 190.0),
        DataSet("ml-25m", "25 million ratings, 162 thousand people", _SEE_README, 250.0),
        DataSet("ml-32m", "32 million ratings, 201 thousand people", _SEE_README, 239.0),
        DataSet("ml-latest", "everything to date, changes over time", _SEE_README, 335.0),
        NETFLIX,
    )
}

CANNOT_FETCH = (
    "The Netflix Prize data was withdrawn by its publisher and may not be redistributed, so it "
    "cannot be fetched. If you have a copy, give the path of its folder (with training_set/ or "
    "combined_data_*.txt in it) instead of the name."
)


def entry(name: str) -> DataSet:
    if name not in CATALOGUE:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def cache_folder() -> Path:
    """Where fetched archives are kept: `$SOTTOVOCE_CACHE`, else the system's place for caches."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    return platformdirs.user_cache_path("sottovoce")


def archive_path(name: str, cache: Path | None = None) -> Path:
    return (cache or cache_folder()) / f"{name}.zip"
