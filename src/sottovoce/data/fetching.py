"""Data sets by name: their publishers' terms, and how to download and verify them.

An archive appears in the cache only when it is complete and verified. An interrupted download
leaves nothing and starts from the beginning.
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

# Called with the number of bytes received so far, and the total number or None if it is unknown.
ReportBytes = Callable[[int, int | None], None]

# Where GroupLens publishes the archives.
BASE_URL = "https://files.grouplens.org/datasets/movielens"
# Environment variable with the path of the folder for archives.
CACHE_VARIABLE = "SOTTOVOCE_CACHE"
# A download fails if the server sends nothing for this long.
_TIMEOUT_SECONDS = 30.0
_DOWNLOAD_CHUNK_BYTES = 1 << 17
_MD5_PATTERN = re.compile(r"\b[0-9a-fA-F]{32}\b")
# HTTP status codes with which the publisher's server says that there is no checksum file.
_ABSENT_STATUSES = (403, 404, 410)
# Folder of the data sets that the package contains.
_BUNDLED_FOLDER = Path(__file__).parent / "bundled"

# The terms of GroupLens, as shown to users.
_FOR_RESEARCH = (
    "For research, not for commercial use without GroupLens's permission; acknowledge it in "
    "publications and imply no endorsement. "
)
_NO_COPIES = _FOR_RESEARCH + "Do not pass the data on. The terms are in the archive's README."
_COPIES_ALLOWED = (
    _FOR_RESEARCH + "May be passed on under the same terms, which are in the archive's README."
)
_SEE_README = _FOR_RESEARCH + "Whether it may be passed on: see the README in the archive."


@dataclass(frozen=True)
class DataSet:
    """A data set that can be used by name."""

    name: str
    description: str
    """A short description with the numbers of ratings, people and films."""
    licence: str
    """The publisher's terms, in words."""
    megabytes: float
    """Approximate size of the download."""
    sha256: str | None = None
    """Pinned checksum of the archive. If it is None, the publisher's MD5 file is used."""
    fetchable: bool = True
    """Whether the data set can be downloaded."""

    @property
    def bundled(self) -> Path | None:
        """Folder in this package that holds the data set, or None."""
        path = _BUNDLED_FOLDER / self.name
        return path if path.is_dir() else None


# Data sets by name.
DATA_SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet(
            "ml-latest-small",
            "100,836 ratings, 610 people, 9,742 films (2018)",
            _COPIES_ALLOWED,
            1.0,
        ),
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

# Error message for an attempt to fetch the Netflix Prize data.
CANNOT_FETCH = (
    "The Netflix Prize data was withdrawn by its publisher and may not be redistributed, so it "
    "cannot be fetched. If you have a copy, give the path of its folder (with training_set/ or "
    "combined_data_*.txt in it) instead of the name."
)


def find_data_set(name: str) -> DataSet:
    """Return the data set of this name, or raise `DataError`."""
    if name not in DATA_SETS:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def get_cache_folder() -> Path:
    """Return the folder for archives: `$SOTTOVOCE_CACHE`, or one below the user's cache folder."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder)
    return platformdirs.user_cache_path("sottovoce")


def get_archive_path(name: str, cache: Path | None = None) -> Path:
    """Return the path of a data set's archive, which need not exist yet."""
    return (cache or get_cache_folder()) / f"{name}.zip"


@dataclass(frozen=True)
class FetchResult:
    """An archive in the cache, or a bundled folder."""

    path: Path
    """Path of the archive or folder."""
    verification: str
    """How the archive was verified, as a clause for messages."""


@dataclass
class _ProgressBar:
    """A progress bar with the interface that pooch expects, which calls a function."""

    report_bytes: ReportBytes
    total: int = 0
    done: int = 0

    def update(self, more: int) -> None:
        self.done += more
        # pooch adds the size of a full chunk even for the shorter last one.
        done = min(self.done, self.total) if self.total else self.done
        self.report_bytes(done, self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: pooch calls this at the end."""


def fetch(
    name: str,
    cache_dir: Path | None = None,
    report_bytes: ReportBytes = lambda _done, _total: None,
    *,
    accept_licence: bool = False,
    base_url: str = BASE_URL,
) -> FetchResult:
    """Download an archive into the cache, unless it is there already.

    Args:
        name: A name in `DATA_SETS`.
        cache_dir: Folder for the archive, or None for that of `get_cache_folder`.
        report_bytes: Called with the numbers of bytes received and in all, as the download
            proceeds.
        accept_licence: Whether the user has read the publisher's terms (`DataSet.licence`) and
            agreed to them. Otherwise nothing is downloaded.
        base_url: Address of the publisher or a mirror.

    Raises:
        DataError: The name is unknown.
        FetchError: The terms are not accepted, or the download failed or cannot be verified.
    """
    data_set, path = find_data_set(name), get_archive_path(name, cache_dir)
    if data_set.bundled:
        return FetchResult(data_set.bundled, "comes with this package, nothing to fetch")
    if not data_set.fetchable:
        raise FetchError(CANNOT_FETCH)
    if path.exists():
        return FetchResult(path, "was fetched before")
    if not accept_licence:
        raise FetchError(f"{name} has terms that must be accepted first: {data_set.licence}")
    url = f"{base_url.rstrip('/')}/{name}.zip"
    if not url.startswith(("https://", "http://")):
        raise FetchError("the address must begin with http:// or https://", path=url)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetching-") as scratch:
        checksum, verification = _find_checksum(data_set, url, scratch)
        archive = _download(url, scratch, checksum, report_bytes)
        _check_archive(archive, url)
        archive.replace(path)
    return FetchResult(path, verification)


def _download(url: str, folder: str, checksum: str | None, report_bytes: ReportBytes) -> Path:
    # pooch is imported here, because only a download needs it.
    import pooch

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(
        progressbar=_ProgressBar(report_bytes),
        chunk_size=_DOWNLOAD_CHUNK_BYTES,
        timeout=_TIMEOUT_SECONDS,
    )
    try:
        return Path(pooch.retrieve(url, checksum, "fetched", folder, downloader=downloader))
    # OSError: the network or the disk failed. ValueError: the checksum differs.
    except (OSError, ValueError) as error:
        raise FetchError(f"cannot be fetched: {error}", path=url) from error


def _find_checksum(data_set: DataSet, url: str, folder: str) -> tuple[str | None, str]:
    """Return the checksum of an archive, or None, and how the archive is verified, in words."""
    if data_set.sha256:
        return f"sha256:{data_set.sha256}", "matches the pinned SHA-256"
    try:
        md5_file = _download(url + ".md5", folder, None, lambda _done, _total: None)
    except FetchError as error:
        response = getattr(error.__cause__, "response", None)
        if getattr(response, "status_code", None) not in _ABSENT_STATUSES:
            raise
        return None, "the publisher gives no checksum; the archive's own checksums were tested"
    text = md5_file.read_text("ascii", errors="replace")
    md5_file.unlink()
    if not (match := _MD5_PATTERN.search(text)):
        raise FetchError(f"must be an MD5 checksum, not {text[:60]!r}", path=url + ".md5")
    return f"md5:{match[0]}", "matches the publisher's MD5"


def _check_archive(path: Path, url: str) -> None:
    """Raise `FetchError` unless the contents of the archive match the checksums inside it."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        damaged = str(error)
    if damaged:
        raise FetchError(f"must be an undamaged zip archive ({damaged})", path=url)
