"""The page that is in the package: complete, and of one origin alone."""

from __future__ import annotations

import asyncio
import gzip
import re

import pytest
from starlette.applications import Starlette

from sottovoce.service import Content, page_routes
from sottovoce.service.page import in_package, read_assets
from tests.asgi import Answer, ask

KEY = bytes(range(32))
FIRST_LOAD = ("/", "/page/page.js", "/page/worker.js", "/page/style.css", "/page/icon.svg")
MOST = 150_000
"""Bytes of the first load, compressed, beside the model."""


@pytest.fixture(scope="module")
def app() -> Starlette:
    return Starlette(routes=page_routes(Content(KEY, 'Not "nothing" & <not> everything', "a demo")))


def get(app: Starlette, path: str, encoding: bytes = b"identity") -> Answer:
    answer = asyncio.run(ask(app, "GET", path, headers=[(b"accept-encoding", encoding)]))
    assert answer.status == 200, path
    return answer


def test_the_index_carries_key_and_statement(app: Starlette) -> None:
    text = get(app, "/").body.decode()
    assert f'<meta name="sottovoce-key" content="{KEY.hex()}"' in text
    statement = "Not &quot;nothing&quot; &amp; &lt;not&gt; everything"
    assert f'<meta name="sottovoce-statement" content="{statement}"' in text
    assert '<meta name="sottovoce-notice" content="a demo"' in text


def test_everything_that_the_index_names_is_there(app: Starlette) -> None:
    text = get(app, "/").body.decode()
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', text))
    assert {"/page/page.js", "/page/style.css"} <= named
    for path in named:
        assert path.startswith("/page/"), path
        assert get(app, path).body


def test_the_policy_would_let_all_of_it_run(app: Starlette) -> None:
    """No inline script, style or handler."""
    text = get(app, "/").body.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_no_other_origin_is_named_but_in_licences() -> None:
    for name, content in read_assets(in_package()).items():
        if name == "LICENSES.txt":
            continue
        origins = set(re.findall(rb"https?://[\w-]+\.[\w.-]+", content))
        assert origins <= {b"http://www.w3.org"}, (name, origins)


def test_the_first_load_is_small(app: Starlette) -> None:
    answers = [get(app, path, b"gzip") for path in FIRST_LOAD]
    assert sum(len(answer.body) for answer in answers) < MOST
    for answer in answers:
        gzip.decompress(answer.body)


def test_the_service_worker_may_answer_for_the_whole_page(app: Starlette) -> None:
    assert get(app, "/sw.js").headers["content-type"] == "text/javascript; charset=utf-8"
