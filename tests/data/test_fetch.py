"""Downloads from a real server on the loopback: resuming, verifying, failing."""

from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from sottovoce.data import CATALOGUE
from sottovoce.data.fetch import fetch
from sottovoce.errors import DataError, FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


DATE = "Fri, 01 Jan 2021 00:00:00 GMT"


def archive(seed: int = 0) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        writer.writestr("ml-x/ratings.dat", f"1::{seed}::5::6\n" * 20_000)
    return out.getvalue()


@dataclass
class Site:
    """What the server has and how it behaves; each test sets what it needs."""

    body: bytes = field(default_factory=archive)
    etag: str | None = '"first"'
    modified: str | None = None
    md5: bytes | None = None
    md5_status: int = 404
    ranges: bool = True
    heeds_if_range: bool = True
    says_length: bool = True
    drops_after: int | None = None
    """Closes the connection after so many bytes of a body."""
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        if self.path.endswith(".md5"):
            self._send_md5()
        elif self.path == "/ml-20m.zip" or self.path == "/ml-1m.zip":
            self.site.asked.append(dict(self.headers.items()))
            self._send_archive()
        else:
            self.send_error(404)

    def _send_md5(self) -> None:
        if self.site.md5 is None:
            self.send_error(self.site.md5_status)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.site.md5)

    def _send_archive(self) -> None:
        site = self.site
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        same = condition in (None, site.etag, site.modified) or not site.heeds_if_range
        start = int(wanted[1]) if wanted and site.ranges and same else 0
        if start >= len(site.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.body)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            end = len(site.body)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        if site.says_length:
            self.send_header("Content-Length", str(len(site.body) - start))
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.modified:
            self.send_header("Last-Modified", site.modified)
        self.end_headers()
        stop = None if site.drops_after is None else start + site.drops_after
        self.wfile.write(site.body[start:stop])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Quiet."""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    handler = type("Bound", (Handler,), {"site": site})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield site
        server.shutdown()
        thread.join()


def get(site: Site, cache: Path, name: str = "ml-20m") -> str:
    return fetch(name, cache, accept_licence=True, base_url=site.url).verified


def interrupted(site: Site, cache: Path, after: int = 1000) -> None:
    """Leaves a part of `after` bytes."""
    site.drops_after = after
    with pytest.raises(FetchError, match="run it again to go on from there"):
        get(site, cache)
    assert (cache / "ml-20m.zip.part").stat().st_size == after
    assert not (cache / "ml-20m.zip").exists()
    site.drops_after = None
    site.asked.clear()


def whole(site: Site, cache: Path) -> bool:
    """The archive is there, and nothing else."""
    same = (cache / "ml-20m.zip").read_bytes() == site.body
    return same and [file.name for file in cache.iterdir()] == ["ml-20m.zip"]


def test_a_plain_download_with_progress(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    cache = tmp_path / "made" / "here"
    got = fetch(
        "ml-20m",
        cache,
        lambda done, total: seen.append((done, total)),
        accept_licence=True,
        base_url=site.url + "/",
    )
    assert got.path == cache / "ml-20m.zip"
    assert "no checksum" in got.verified
    assert seen[-1] == (len(site.body), len(site.body))
    assert whole(site, cache)


def test_what_is_there_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    get(site, tmp_path)
    assert get(site, tmp_path) == "was fetched before"
    assert len(site.asked) == 1


def test_without_a_length(site: Site, tmp_path: Path) -> None:
    site.says_length = False
    get(site, tmp_path)
    assert whole(site, tmp_path)


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({}, '"first"'),
        ({"etag": 'W/"x"', "modified": DATE}, DATE),
        ({"etag": None}, None),
        ({"ranges": False}, '"first"'),
    ],
    ids=["by tag", "by date if the tag is weak", "without a version", "no ranges there"],
)
def test_resuming(
    site: Site, tmp_path: Path, changes: dict[str, object], condition: str | None
) -> None:
    vars(site).update(changes)
    interrupted(site, tmp_path)
    get(site, tmp_path)
    (asked,) = site.asked
    assert (asked["Range"], asked.get("If-Range")) == ("bytes=1000-", condition)
    assert whole(site, tmp_path)


@pytest.mark.parametrize("heeds", [True, False])
def test_a_file_that_changed_is_begun_again(site: Site, tmp_path: Path, heeds: bool) -> None:
    interrupted(site, tmp_path)
    site.body, site.etag, site.heeds_if_range = archive(seed=1), '"second"', heeds
    get(site, tmp_path)
    assert whole(site, tmp_path)


@pytest.mark.parametrize("more", [b"", b"more"])
def test_a_part_that_was_whole_already_or_longer(site: Site, tmp_path: Path, more: bytes) -> None:
    (tmp_path / "ml-20m.zip.part").write_bytes(site.body + more)
    get(site, tmp_path)
    assert whole(site, tmp_path)


def test_ctrl_c_leaves_the_part(site: Site, tmp_path: Path) -> None:
    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("ml-20m", tmp_path, interrupt, accept_licence=True, base_url=site.url)
    assert 0 < (tmp_path / "ml-20m.zip.part").stat().st_size < len(site.body)
    get(site, tmp_path)
    assert "Range" in site.asked[-1]
    assert whole(site, tmp_path)


@pytest.mark.parametrize("form", ["{}  ml-20m.zip\n", "MD5 (ml-20m.zip) = {}\n", "{}"])
def test_the_publishers_checksum(site: Site, tmp_path: Path, form: str) -> None:
    site.md5 = form.format(hashlib.md5(site.body).hexdigest().upper()).encode()
    assert get(site, tmp_path) == "matches the publisher's MD5"


def test_a_wrong_checksum(site: Site, tmp_path: Path) -> None:
    site.md5 = b"0" * 32
    with pytest.raises(FetchError, match=r"md5 must be 0+ but is .*thrown away"):
        get(site, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("md5", "status"), [(b"<html>", 404), (None, 500)])
def test_a_checksum_that_cannot_be_had(
    site: Site, tmp_path: Path, md5: bytes | None, status: int
) -> None:
    """Not a reason to go on without: the part waits."""
    site.md5, site.md5_status = md5, status
    with pytest.raises(FetchError, match=r"\.md5: "):
        get(site, tmp_path)
    assert not (tmp_path / "ml-20m.zip").exists()
    site.md5 = hashlib.md5(site.body).hexdigest().encode()
    get(site, tmp_path)
    assert whole(site, tmp_path)


def test_the_pinned_checksum(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match="sha256 must be a6898adb"):
        get(site, tmp_path, "ml-1m")
    pinned = replace(CATALOGUE["ml-1m"], sha256=hashlib.sha256(site.body).hexdigest())
    monkeypatch.setitem(CATALOGUE, "ml-1m", pinned)
    assert get(site, tmp_path, "ml-1m") == "matches the pinned SHA-256"


def test_not_a_sound_archive(site: Site, tmp_path: Path) -> None:
    sound = site.body
    for body in (b"<html>sorry</html>", sound[:-8], sound[:200] + b"?" + sound[201:]):
        site.body = body
        with pytest.raises(FetchError, match="not a sound zip archive"):
            get(site, tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_errors_of_the_server_and_the_network(site: Site, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="404"):
        get(site, tmp_path, "ml-25m")
    site.url = "http://127.0.0.1:1"
    with pytest.raises(FetchError, match="run it again"):
        get(site, tmp_path)
    site.url = "file:///etc"
    with pytest.raises(FetchError, match="only http"):
        get(site, tmp_path)


def test_terms_come_first(site: Site, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="must be accepted first: For research"):
        fetch("ml-20m", tmp_path, base_url=site.url)
    assert site.asked == []


def test_names_that_need_or_allow_no_fetching(tmp_path: Path) -> None:
    assert "nothing to fetch" in fetch("ml-latest-small", tmp_path).verified
    with pytest.raises(FetchError, match="cannot be fetched"):
        fetch("netflix", tmp_path, accept_licence=True)
    with pytest.raises(DataError, match=r"no data set is called 'ml-2m'; there are .*ml-20m"):
        fetch("ml-2m", tmp_path)
