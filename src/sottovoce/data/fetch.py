"""Downloading a data set of the catalogue: resumable, verified, never half there.

Bytes go to `<name>.zip.part`; only a whole, verified archive gets the name `<name>.zip`. An
interrupted download (Ctrl-C, a lost connection) leaves its part and goes on from there next time.
"""

from __future__ import annotations

import hashlib
import re
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from sottovoce.data.catalogue import BASE_URL, CANNOT_FETCH, DataSet, archive_path, entry
from sottovoce.errors import FetchError

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far and the bytes in all, if known."""

_CHUNK = 1 << 17
_TIMEOUT_S = 30.0
_MD5 = re.compile(r"\b[0-9a-fA-F]{32}\b")
_ABSENT = (403, 404, 410)


@dataclass(frozen=True)
class Fetched:
    path: Path
    verified: str
    """How it was verified, in words."""


@dataclass(frozen=True)
class _Part:
    """A download that is under way, on disk."""

    path: Path

    @property
    def version_path(self) -> Path:
        """Beside the part: the server's word for the version of the file that it belongs to."""
        return self.path.with_name(self.path.name + ".version")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def version(self) -> str | None:
        return self.version_path.read_text() if self.version_path.exists() else None

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.version_path.unlink(missing_ok=True)


def fetch(
    name: str,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    *,
    accept_licence: bool = False,
    base_url: str = BASE_URL,
) -> Fetched:
    """Download an archive into the cache, unless it is there already.

    `accept_licence` says that the publisher's terms (`CATALOGUE[name].licence`) were read and
    agreed to; without it nothing is downloaded. `progress` is called with the bytes so far and
    the bytes in all (None if the server does not say).
    """
    wanted = entry(name)
    final = archive_path(name, cache_dir)
    if wanted.bundled:
        return Fetched(wanted.bundled, "comes with this package, nothing to fetch")
    if not wanted.fetchable:
        raise FetchError(CANNOT_FETCH)
    if final.exists():
        return Fetched(final, "was fetched before")
    if not accept_licence:
        raise FetchError(f"{name} has terms that must be accepted first: {wanted.licence}")
    url = f"{base_url.rstrip('/')}/{name}.zip"
    part = _Part(final.with_name(final.name + ".part"))
    final.parent.mkdir(parents=True, exist_ok=True)
    _download(url, part, progress or (lambda _done, _total: None))
    verified = _verified(wanted, url, part)
    part.path.replace(final)
    part.discard()
    return Fetched(final, verified)


def _download(url: str, part: _Part, progress: Progress) -> None:
    """Until the part is whole. A part that does not fit the server's file is begun again, once."""
    if not (_attempt(url, part, progress) or _attempt(url, part, progress)):
        raise FetchError("the file keeps changing while it is fetched; try later", path=url)


def _attempt(url: str, part: _Part, progress: Progress) -> bool:
    """Whether the part is now whole; if it is not, it was discarded."""
    have = part.size
    try:
        with _open(url, _resume_headers(part)) as response:
            if response.status == 206 and not _continues(response.headers, part):
                part.discard()
                return False
            _copy(response, part, progress)
            return True
    except HTTPError as error:
        with error:
            if error.code != 416 or not have:
                raise FetchError(
                    f"the server answers {error.code} {error.reason}", path=url
                ) from error
            # Nothing is left to send: the part is whole, or longer than the file is now.
            whole = _total(error.headers) == have
        if not whole:
            part.discard()
        return whole
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise FetchError(
            f"stopped after {part.size:,} bytes ({reason}); run it again to go on from there",
            path=url,
        ) from error


def _open(url: str, headers: dict[str, str]) -> HTTPResponse:
    if not url.startswith(("https://", "http://")):
        raise FetchError("only http and https addresses can be fetched", path=url)
    request = urllib.request.Request(url, headers={"User-Agent": "sottovoce"} | headers)  # noqa: S310 -- checked above
    response: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310 -- checked above
    return response


def _resume_headers(part: _Part) -> dict[str, str]:
    """Ask for the rest, on condition that the file is still the same one."""
    if not part.size:
        return {}
    version = part.version
    return {"Range": f"bytes={part.size}-"} | ({"If-Range": version} if version else {})


def _continues(headers: Message, part: _Part) -> bool:
    """Whether the answer goes on exactly where the part ends, in the same version of the file.

    Not every server honours If-Range, so the version is compared here too.
    """
    same = part.version is None or part.version == _version(headers)
    return same and (headers["Content-Range"] or "").startswith(f"bytes {part.size}-")


def _version(headers: Message) -> str | None:
    """A strong ETag, else the date; a weak ETag does not promise the same bytes."""
    etag: str | None = headers["ETag"]
    if etag and not etag.startswith("W/"):
        return etag
    modified: str | None = headers["Last-Modified"]
    return modified


def _total(headers: Message) -> int | None:
    """The size of the whole file, from an answer that holds all or part of it."""
    _, _, total = (headers["Content-Range"] or "").rpartition("/")
    if total.isdecimal():
        return int(total)
    length = headers["Content-Length"] or ""
    return int(length) if length.isdecimal() else None


def _copy(response: HTTPResponse, part: _Part, progress: Progress) -> None:
    total = _total(response.headers)
    done = part.size if response.status == 206 else 0
    if not done:
        part.discard()
        if version := _version(response.headers):
            part.version_path.write_text(version)
    with part.path.open("ab") as file:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            progress(done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection ended at {done:,} of {total:,} bytes")


def _verified(wanted: DataSet, url: str, part: _Part) -> str:
    """How the archive was verified; one that fails is thrown away."""
    if wanted.sha256:
        _compare("sha256", wanted.sha256, part, url)
        words = "matches the pinned SHA-256"
    elif published := _published_md5(url):
        _compare("md5", published, part, url)
        words = "matches the publisher's MD5"
    else:
        words = "the publisher gives no checksum; only the archive's own check sums were tested"
    try:
        with zipfile.ZipFile(part.path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        damaged = str(error)
    if damaged:
        part.discard()
        raise FetchError(f"not a sound zip archive ({damaged}); it was thrown away", path=url)
    return words


def _compare(algorithm: str, expected: str, part: _Part, url: str) -> None:
    with part.path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected.lower():
        part.discard()
        raise FetchError(
            f"the {algorithm} must be {expected} but is {found}; the download was thrown away",
            path=url,
        )


def _published_md5(url: str) -> str | None:
    """What `<archive>.md5` beside the archive says; None if there is no such file."""
    try:
        with _open(url + ".md5", {}) as response:
            text = response.read(4096).decode("ascii", errors="replace")
    except HTTPError as error:
        with error:
            if error.code in _ABSENT:
                return None
            raise FetchError(f"the checksum cannot be had: {error}", path=url + ".md5") from error
    except (OSError, HTTPException) as error:
        raise FetchError(
            f"the checksum cannot be had ({error}); run it again", path=url + ".md5"
        ) from error
    found = _MD5.search(text)
    if not found:
        raise FetchError(f"expected an MD5 checksum, found {text[:60]!r}", path=url + ".md5")
    return found[0]
