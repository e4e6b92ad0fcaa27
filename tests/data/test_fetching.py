"""Downloads from a real server on the loopback: the archive is verified, or there is no file."""

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sottovoce.data import DATA_SETS
from sottovoce.data.fetching import fetch
from sottovoce.errors import DataError, FetchError
from tests.loopback import LoopbackServer


def make_archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        writer.writestr("ml-x/ratings.dat", "1::1::5::6\n" * 20_000)
    return out.getvalue()


@dataclass
class Site:
    """Contents and behaviour of the server."""

    body: bytes = field(default_factory=make_archive)
    md5: bytes | None = None
    md5_status: int = 404
    sends_length: bool = True
    drops_after: int | None = None
    """Number of bytes of a body after which the connection is closed."""
    n_requests: int = 0
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        name = handler.path.rpartition("/")[2]
        if name.endswith(".md5"):
            content, status = self.md5, 200 if self.md5 is not None else self.md5_status
        else:
            self.n_requests += 1
            content, status = self.body, 200 if name in ("ml-20m.zip", "ml-1m.zip") else 404
        content = content if status == 200 and content is not None else b""
        handler.send_response(status)
        handler.close_connection = True
        if self.sends_length:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[: self.drops_after])


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with LoopbackServer() as server:
        server.answer = site.answer
        site.url = server.url
        yield site


def fetch_from(site: Site, cache: Path, name: str = "ml-20m") -> str:
    return fetch(name, cache, accept_licence=True, base_url=site.url).verification


def has_only_archive(site: Site, cache: Path) -> bool:
    same = (cache / "ml-20m.zip").read_bytes() == site.body
    return same and [file.name for file in cache.iterdir()] == ["ml-20m.zip"]


def is_empty(cache: Path) -> bool:
    return not list(cache.iterdir())


@pytest.mark.parametrize("sends_length", [True, False])
def test_download_reports_progress_and_happens_only_once(
    site: Site, tmp_path: Path, sends_length: bool
) -> None:
    site.sends_length = sends_length
    progress: list[tuple[int, int | None]] = []
    cache = tmp_path / "new" / "cache"
    result = fetch(
        "ml-20m",
        cache,
        lambda *sizes: progress.append(sizes),
        accept_licence=True,
        base_url=site.url + "/",
    )
    assert result.path == cache / "ml-20m.zip"
    assert has_only_archive(site, cache)
    # Without a length the total is not known.
    if sends_length:
        assert progress[-1] == (len(site.body), len(site.body))
        assert progress == sorted(progress)
    # The second call finds the archive in the cache.
    fetch_from(site, cache)
    assert site.n_requests == 1


def test_interrupted_download_leaves_nothing_and_starts_again(site: Site, tmp_path: Path) -> None:
    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    # First the connection breaks, then the user interrupts.
    site.drops_after = 1000
    with pytest.raises(FetchError):
        fetch_from(site, tmp_path)
    assert is_empty(tmp_path)
    site.drops_after = None
    with pytest.raises(KeyboardInterrupt):
        fetch("ml-20m", tmp_path, interrupt, accept_licence=True, base_url=site.url)
    assert is_empty(tmp_path)
    fetch_from(site, tmp_path)
    assert has_only_archive(site, tmp_path)


# As md5sum, BSD md5 and bare.
@pytest.mark.parametrize("form", ["{}  ml-20m.zip\n", "MD5 (ml-20m.zip) = {}\n", "{}"])
def test_checksum_of_the_publisher_is_verified(site: Site, tmp_path: Path, form: str) -> None:
    site.md5 = form.format(hashlib.md5(site.body).hexdigest().upper()).encode()
    assert "MD5" in fetch_from(site, tmp_path)
    assert has_only_archive(site, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"md5": b"0" * 32}, {"md5": b"<html>"}, {"md5_status": 500},
        {"body": b"<html>sorry</html>"}, {"body": make_archive()[:-8]},
        {"body": make_archive()[:200] + b"?" + make_archive()[201:]}, {"url": "http://127.0.0.1:1"},
        {"url": "file:///etc"},
    ],
    ids=[
        "other md5", "no md5", "md5 fails", "no archive", "cut", "one byte", "no server", "file",
    ],
)  # fmt: skip
def test_unverified_archive_is_deleted(site: Site, tmp_path: Path, wrong: dict[str, Any]) -> None:
    for name, value in wrong.items():
        setattr(site, name, value)
    with pytest.raises(FetchError):
        fetch_from(site, tmp_path)
    assert is_empty(tmp_path)


def test_pinned_checksum_is_verified(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ml-1m", "ml-25m"):  # another checksum; no such file
        with pytest.raises(FetchError):
            fetch_from(site, tmp_path, name)
    assert is_empty(tmp_path)
    pinned = replace(DATA_SETS["ml-1m"], sha256=hashlib.sha256(site.body).hexdigest())
    monkeypatch.setitem(DATA_SETS, "ml-1m", pinned)
    assert "SHA-256" in fetch_from(site, tmp_path, "ml-1m")


def test_terms_must_be_accepted_and_some_data_sets_cannot_be_fetched(
    site: Site, tmp_path: Path
) -> None:
    with pytest.raises(FetchError, match=re.escape(DATA_SETS["ml-20m"].licence)):
        fetch("ml-20m", tmp_path, base_url=site.url)
    assert site.n_requests == 0
    # A bundled data set needs no consent and no network.
    assert fetch("ml-latest-small", tmp_path).path == DATA_SETS["ml-latest-small"].bundled
    with pytest.raises(FetchError):
        fetch("netflix", tmp_path, accept_licence=True)
    with pytest.raises(DataError):
        fetch("ml-2m", tmp_path)
