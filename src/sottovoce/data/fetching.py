"""The data sets that have a name, what their publishers ask, and downloading them.

An archive is there when it is whole and verified. A download that was interrupted leaves nothing:
it begins again.
"""

import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from sottovoce.errors import DataError, FetchError

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and the bytes in all, if known."""

BASE_URL = "https://files.grouplens.org/datasets/movielens"
CACHE_VARIABLE = "SOTTOVOCE_CACHE"
_TIMEOUT_S = 30.0
_CHUNK = 1 << 17
_MD5 = re.compile(r"\b[0-9a-fA-F]{32}\b")
_ABSENT = (403, 404, 410)
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
        path = _BUNDLED / self.name
        return path if path.is_dir() else None


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
        DataSet(
            "netflix",
            "the Netflix Prize: 100 million ratings, 480,189 people, 17,770 films",
            "Withdrawn by its publisher and not to be redistributed.",
            0.0,
            fetchable=False,
        ),
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


@dataclass(frozen=True)
class Fetched:
    path: Path
    verified: str
    """How it was verified, in words."""


@dataclass
class _Bar:
    """What pooch tells of a download, for whom we tell."""

    tell: Progress
    total: int = 0
    done: int = 0

    def update(self, more: int) -> None:
        self.done += more
        self.tell(min(self.done, self.total) if self.total else self.done, self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is open."""


def fetch(
    name: str,
    cache_dir: Path | None = None,
    progress: Progress = lambda _done, _total: None,
    *,
    accept_licence: bool = False,
    base_url: str = BASE_URL,
) -> Fetched:
    """Download an archive into the cache, unless it is there already.

    `accept_licence` says that the publisher's terms (`CATALOGUE[name].licence`) were read and
    agreed to; without it nothing is downloaded.
    """
    wanted, final = entry(name), archive_path(name, cache_dir)
    if wanted.bundled:
        return Fetched(wanted.bundled, "comes with this package, nothing to fetch")
    if not wanted.fetchable:
        raise FetchError(CANNOT_FETCH)
    if final.exists():
        return Fetched(final, "was fetched before")
    if not accept_licence:
        raise FetchError(f"{name} has terms that must be accepted first: {wanted.licence}")
    url = f"{base_url.rstrip('/')}/{name}.zip"
    if not url.startswith(("https://", "http://")):
        raise FetchError("must be an http or https address", path=url)
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix="fetching-") as scratch:
        known, verified = _checksum(wanted, url, scratch)
        archive = _download(url, scratch, known, progress)
        _check(archive, url)
        archive.replace(final)
    return Fetched(final, verified)


def _download(url: str, folder: str, known: str | None, progress: Progress) -> Path:
    # Here and not above: what is on this machine is read without.
    import pooch

    pooch.get_logger().setLevel("WARNING")
    bar = _Bar(progress)
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=_TIMEOUT_S)
    try:
        return Path(pooch.retrieve(url, known, "fetched", folder, downloader=downloader))
    except (OSError, ValueError) as error:  # the network or the disk; the checksum
        raise FetchError(f"cannot be fetched: {error}", path=url) from error


def _checksum(wanted: DataSet, url: str, folder: str) -> tuple[str | None, str]:
    """What the archive must have, if that is known, and in words how it is verified."""
    if wanted.sha256:
        return f"sha256:{wanted.sha256}", "matches the pinned SHA-256"
    try:
        beside = _download(url + ".md5", folder, None, lambda _done, _total: None)
    except FetchError as error:
        answer = getattr(error.__cause__, "response", None)
        if getattr(answer, "status_code", None) not in _ABSENT:
            raise
        return None, "the publisher gives no checksum; the archive's own check sums were tested"
    text = beside.read_text("ascii", errors="replace")
    beside.unlink()
    if not (found := _MD5.search(text)):
        raise FetchError(f"must be an MD5 checksum, found {text[:60]!r}", path=url + ".md5")
    return f"md5:{found[0]}", "matches the publisher's MD5"


def _check(path: Path, url: str) -> None:
    """By the check sums inside the archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        damaged = str(error)
    if damaged:
        raise FetchError(f"must be a sound zip archive ({damaged})", path=url)
