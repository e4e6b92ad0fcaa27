"""Downloads from a real server on the loopback: verified, or nothing is there."""

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

from sottovoce.data import CATALOGUE
from sottovoce.data.fetching import fetch
from sottovoce.errors import DataError, FetchError
from tests.loopback import LoopbackServer


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writer:
        writer.writestr("ml-x/ratings.dat", "1::1::5::6\n" * 20_000)
    return out.getvalue()


@dataclass
class Site:
    """What the server has and how it behaves; each test sets what it needs."""

    body: bytes = field(default_factory=archive)
    md5: bytes | None = None
    md5_status: int = 404
    says_length: bool = True
    drops_after: int | None = None
    """Closes the connection after so many bytes of a body."""
    asked: int = 0
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        name = handler.path.rpartition("/")[2]
        if name.endswith(".md5"):
            content, status = self.md5, 200 if self.md5 is not None else self.md5_status
        else:
            self.asked += 1
            content, status = self.body, 200 if name in ("ml-20m.zip", "ml-1m.zip") else 404
        content = content if status == 200 and content is not None else b""
        handler.send_response(status)
        handler.close_connection = True
        if self.says_length:
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


def get(site: Site, cache: Path, name: str = "ml-20m") -> str:
    return fetch(name, cache, accept_licence=True, base_url=site.url).verified


def whole(site: Site, cache: Path) -> bool:
    """The archive is there, and nothing else."""
    same = (cache / "ml-20m.zip").read_bytes() == site.body
    return same and [file.name for file in cache.iterdir()] == ["ml-20m.zip"]


def nothing(cache: Path) -> bool:
    return not list(cache.iterdir())


@pytest.mark.parametrize("says_length", [True, False])
def test_a_plain_download_with_progress(site: Site, tmp_path: Path, says_length: bool) -> None:
    site.says_length = says_length
    seen: list[tuple[int, int | None]] = []
    cache = tmp_path / "made" / "here"
    got = fetch(
        "ml-20m",
        cache,
        lambda *told: seen.append(told),
        accept_licence=True,
        base_url=site.url + "/",
    )
    assert got.path == cache / "ml-20m.zip"
    assert whole(site, cache)
    if says_length:
        assert seen[-1] == (len(site.body), len(site.body))
        assert seen == sorted(seen)
    get(site, cache)
    assert site.asked == 1, "what is there is not fetched again"


def test_an_interrupted_download_leaves_nothing_and_begins_again(
    site: Site, tmp_path: Path
) -> None:
    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    site.drops_after = 1000
    with pytest.raises(FetchError):
        get(site, tmp_path)
    assert nothing(tmp_path)
    site.drops_after = None
    with pytest.raises(KeyboardInterrupt):
        fetch("ml-20m", tmp_path, interrupt, accept_licence=True, base_url=site.url)
    assert nothing(tmp_path)
    get(site, tmp_path)
    assert whole(site, tmp_path)


@pytest.mark.parametrize("form", ["{}  ml-20m.zip\n", "MD5 (ml-20m.zip) = {}\n", "{}"])
def test_the_publishers_checksum(site: Site, tmp_path: Path, form: str) -> None:
    site.md5 = form.format(hashlib.md5(site.body).hexdigest().upper()).encode()
    assert "MD5" in get(site, tmp_path)
    assert whole(site, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"md5": b"0" * 32}, {"md5": b"<html>"}, {"md5_status": 500},
        {"body": b"<html>sorry</html>"}, {"body": archive()[:-8]},
        {"body": archive()[:200] + b"?" + archive()[201:]}, {"url": "http://127.0.0.1:1"},
        {"url": "file:///etc"},
    ],
    ids=[
        "another md5", "no md5", "no answer", "no archive", "cut", "one byte", "nobody", "a file",
    ],
)  # fmt: skip
def test_what_cannot_be_verified_is_not_kept(
    site: Site, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    for name, value in wrong.items():
        setattr(site, name, value)
    with pytest.raises(FetchError):
        get(site, tmp_path)
    assert nothing(tmp_path)


def test_the_pinned_checksum(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ml-1m", "ml-25m"):  # another checksum; not there
        with pytest.raises(FetchError):
            get(site, tmp_path, name)
    assert nothing(tmp_path)
    pinned = replace(CATALOGUE["ml-1m"], sha256=hashlib.sha256(site.body).hexdigest())
    monkeypatch.setitem(CATALOGUE, "ml-1m", pinned)
    assert "SHA-256" in get(site, tmp_path, "ml-1m")


def test_terms_come_first_and_some_names_allow_no_fetching(site: Site, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=re.escape(CATALOGUE["ml-20m"].licence)):
        fetch("ml-20m", tmp_path, base_url=site.url)
    assert site.asked == 0
    assert fetch("ml-latest-small", tmp_path).path == CATALOGUE["ml-latest-small"].bundled
    with pytest.raises(FetchError):
        fetch("netflix", tmp_path, accept_licence=True)
    with pytest.raises(DataError):
        fetch("ml-2m", tmp_path)
