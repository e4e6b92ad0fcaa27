"""Pages of other sites: only origins that the operator named get an answer that they can read."""

import asyncio
import gzip
from base64 import b64encode
from collections.abc import Callable, Coroutine
from hashlib import sha384
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from sottovoce.cli.proxy import describe_status
from sottovoce.errors import SettingsError
from sottovoce.proxy.origins import check_origin
from sottovoce.proxy.status import ProxyStatus, ServerProbe
from sottovoce.service.page import Page
from sottovoce.service.watch import ProcessState
from sottovoce.service.widget import format_script_tag
from tests.asgi import Answer, ask
from tests.proxy.world import (
    CATALOGUE,
    OPENS,
    Clock,
    MakeWorld,
    World,
    metric,
    serving,
    settings,
    signed,
)

SHOP = "https://shop.example"
OTHER = "http://127.0.0.1:3000"

STRANGERS = [
    "https://evil.example", "null", "http://shop.example", "https://shop.example:444",
    "https://shop.example/", "https://SHOP.example", "https://shop.example.evil.example", "*", "",
]  # fmt: skip

MODEL = f"/v2/models/{signed().manifest.model.hex()}"

NAMES = f"/v2/catalogues/{CATALOGUE.hash.hex()}"

FILES = ["/v2/manifest", "/v2/manifests/1", MODEL, NAMES]

ASKS = [
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "content-type"),
]


@pytest.fixture
def open_world(make_world: MakeWorld) -> World:
    """Return a proxy that two sites may use, with a page of its own."""
    return make_world(origins=(SHOP, OTHER), page=Page(serve=True))


def run_in_app(world: World, work: Callable[[Starlette], Coroutine[Any, Any, Answer]]) -> Answer:
    async def main() -> Answer:
        async with serving(world, Clock(0)) as app:
            return await work(app)

    answer = asyncio.run(main())
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer


def get(world: World, path: str, origin: str | None = None, *more: tuple[str, str]) -> Answer:
    named = [] if origin is None else [("origin", origin)]
    return run_in_app(world, lambda app: ask(app, "GET", path, headers=[*named, *more]))


def send_preflight(world: World, origin: str, path: str = "/v2/batches") -> Answer:
    """Send the preflight that a browser sends before a batch."""
    return run_in_app(
        world, lambda app: ask(app, "OPTIONS", path, headers=[("origin", origin), *ASKS])
    )


def post(world: World, data: bytes, *headers: tuple[str, str]) -> Answer:
    length = ("content-length", str(len(data)))
    return run_in_app(
        world, lambda app: ask(app, "POST", "/v2/batches", data, headers=[length, *headers])
    )


def select_headers(answer: Answer) -> dict[str, str]:
    """Return the headers that concern other origins."""
    names = [name for name in answer.headers if name.startswith("access-control")]
    return {name: answer.headers[name] for name in names}


def make_expected_headers(origin: str) -> dict[str, str]:
    return {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "Retry-After",
    }


def test_named_origins_may_read_public_files(open_world: World) -> None:
    # The answer varies by origin, because a cache may keep one without an origin, or an error.
    for path in (*FILES, "/v2/models/00", "/v2/batches", "/v2/nothing"):
        plain = get(open_world, path)
        assert select_headers(plain) == {}
        for origin in (SHOP, OTHER, STRANGERS[0]):
            answer = get(open_world, path, origin)
            assert (answer.status, answer.body) == (plain.status, plain.body)
            varying = answer.headers["vary"].split(", ")
            assert varying == plain.headers["vary"].split(", ")
            assert "Origin" in varying
            assert ("Accept-Encoding" in varying) is (path == NAMES)
            assert select_headers(answer) == (
                {} if origin in STRANGERS else make_expected_headers(origin)
            )
        if path in FILES:
            had = get(open_world, path, SHOP, ("if-none-match", plain.headers["etag"]))
            assert (had.status, select_headers(had)) == (304, make_expected_headers(SHOP))


def test_other_origins_get_no_headers(open_world: World) -> None:
    async def work(app: Starlette) -> Answer:
        for origin in STRANGERS:
            named = [("origin", origin)]
            for path in FILES:
                answer = await ask(app, "GET", path, headers=named)
                assert (answer.status, select_headers(answer)) == (200, {}), origin
            answer = await ask(app, "OPTIONS", "/v2/batches", headers=[*named, *ASKS])
            assert (answer.status, select_headers(answer)) == (405, {}), origin
        return answer

    run_in_app(open_world, work)


def test_preflight_of_a_batch(open_world: World) -> None:
    answer = send_preflight(open_world, SHOP)
    assert (answer.status, answer.body) == (204, b"")
    assert select_headers(answer) == {
        **make_expected_headers(SHOP),
        "access-control-allow-methods": "POST",
        "access-control-allow-headers": "content-type",
        "access-control-max-age": "0",
    }
    assert answer.headers["vary"] == "Origin"


def test_preflight_of_other_paths_is_not_answered(open_world: World) -> None:
    for path in (*FILES, "/v2/nothing"):
        assert send_preflight(open_world, SHOP, path).status in (404, 405)
    bare = run_in_app(
        open_world, lambda app: ask(app, "OPTIONS", "/v2/batches", headers=[("origin", SHOP)])
    )
    assert bare.status == 405


@pytest.mark.parametrize("path", ["/", "/sw.js", "/page/page.js", "/healthz"])
def test_page_is_not_readable_from_other_origins(open_world: World, path: str) -> None:
    answer = get(open_world, path, SHOP)
    assert select_headers(answer) == {}
    assert "Origin" not in answer.headers.get("vary", "")
    assert send_preflight(open_world, SHOP, path).status in (404, 405)


def test_origins_may_read_every_answer_to_a_batch(open_world: World) -> None:
    from_shop = (("origin", SHOP), ("sec-fetch-site", "cross-site"))
    people, now = open_world.people, open_world.now
    batch = people.batch(now)
    for data, status in (
        (batch.encode(), 202),
        (b"nonsense", 400),
        (people.batch(now, id=batch.id).encode(), 409),
        (people.batch(now, epoch=2).encode(), 409),
        (batch.encode() + b"x", 413),
    ):
        answer = post(open_world, data, *from_shop)
        assert (answer.status, select_headers(answer)) == (status, make_expected_headers(SHOP))
    open_world.clock.now = OPENS - 1
    early = post(open_world, people.batch(now).encode(), *from_shop)
    assert (early.status, early.headers["retry-after"]) == (503, "5")
    assert select_headers(early) == make_expected_headers(SHOP)
    assert select_headers(get(open_world, "/v2/models/00", SHOP)) == make_expected_headers(SHOP)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 202),
        ([("sec-fetch-site", "same-origin"), ("origin", "https://proxy.example")], 202),
        ([("sec-fetch-site", "none")], 202),
        ([("sec-fetch-site", "cross-site"), ("origin", SHOP)], 202),
        ([("sec-fetch-site", "same-site"), ("origin", OTHER)], 202),
        ([("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")], 403),
        ([("sec-fetch-site", "same-site"), ("origin", "https://evil.example")], 403),
        ([("sec-fetch-site", "cross-site"), ("origin", "null")], 403),
        ([("sec-fetch-site", "cross-site")], 403),
        ([("origin", "https://evil.example")], 403),
        ([("origin", "https://proxy.example"), ("host", "proxy.example")], 202),
        ([("origin", "https://evil.example"), ("host", "proxy.example")], 403),
        ([("origin", SHOP)], 202),
    ],
)
def test_origin_decides_whether_a_batch_is_taken(
    open_world: World, headers: list[tuple[str, str]], status: int
) -> None:
    # A page can send such a request without a preflight if it ignores the answer.
    data = open_world.people.batch(open_world.now).encode()
    answer = post(open_world, data, *headers, ("content-type", "text/plain"))
    assert answer.status == status
    asks = run_in_app(open_world, lambda app: ask(app, "POST", "/v2/tokens", headers=headers))
    assert asks.status == {202: 400}.get(status, status), "nor do they use up what an address may"
    if status == 403:
        assert select_headers(answer) == {}
        assert metric(open_world, 'batches_refused_total{reason="http"}') == 1


def test_valid_origins_are_accepted(tmp_path: Path) -> None:
    for origin in (
        SHOP, OTHER, "https://shop.example:8443", "https://xn--mnchen-3ya.example", "https://a",
        "https://192.0.2.7", "https://[2001:db8::1]:444", "http://localhost", "http://[::1]:8000",
        "https://my_shop.example",
    ):  # fmt: skip
        assert settings(tmp_path, origins=(origin,)).origins == (origin,)


def test_invalid_origins_are_refused(tmp_path: Path) -> None:
    # An origin that is not written as browsers write it would never match.
    for origin in (
        "https://shop.example/", "https://Shop.example", "HTTPS://shop.example",
        "https://shop.example:443", "https://shop.example:08443", "http://localhost:80",
        "https://[2001:DB8:0::1]", "https://user@shop.example", "https://shop.example\n",
        "https://shop.example/page", "https://shop.example?x", "https://shop.example#x",
        "https://shop.example:99999", "https://[:::::]", "https://[0:0:0:0:0:0:0:1]",
        "https://*.shop.example", "https://*", "*", "null", "", "shop.example", "//shop.example",
        "https://", "https://shop..example", "https://shop.example.", "https://münchen.example",
        "https://shop.example:port", "https://[half", "ftp://shop.example", "app://shop",
        "http://shop.example",
    ):  # fmt: skip
        with pytest.raises(SettingsError, match="origins"):
            settings(tmp_path, origins=(SHOP, origin))


@pytest.mark.parametrize(
    ("origin", "rule"),
    [
        ("shop.example", "https://"),
        ("https://*.shop.example", "wildcard"),
        ("https://shop.example/", "slash"),
        ("https://Shop.example", "lower case"),
        ("https://shop.example:443", "port"),
        ("https://[0:0::1]", "IPv6"),
        ("http://shop.example", "encrypted"),
    ],
)
def test_error_of_an_invalid_origin_names_the_rule(origin: str, rule: str) -> None:
    with pytest.raises(SettingsError, match=f"origins: .*{rule}"):
        check_origin(origin)


def test_widget_is_served_to_all_if_there_are_origins(
    open_world: World, make_world: MakeWorld
) -> None:
    # Its bytes are those of the tag that `sottovoce proxy status` prints.
    answer = get(open_world, "/widget.js", "https://unknown.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert answer.headers["cache-control"].startswith("public, max-age=")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    digest = b64encode(sha384(answer.body).digest()).decode()
    tag = format_script_tag("https://proxy.example")
    assert f'src="https://proxy.example/widget.js" integrity="sha384-{digest}"' in tag
    packed = get(open_world, "/widget.js", None, ("accept-encoding", "gzip"))
    assert gzip.decompress(packed.body) == answer.body
    assert get(open_world, "/page/widget.js").status == 404
    closed = make_world(page=Page(serve=True))
    assert get(closed, "/widget.js").status == 404
    status = ProxyStatus(0, 0, ProcessState(0.0), ServerProbe())
    assert format_script_tag() in "\n".join(describe_status(status, open_world.settings))
    assert "widget.js" not in "\n".join(describe_status(status, closed.settings))


def test_token_script_is_served_if_there_are_accounts_and_origins(
    open_world: World, make_world: MakeWorld
) -> None:
    key, status = "ab" * 32, ProxyStatus(0, 0, ProcessState(0.0), ServerProbe())
    world = make_world(origins=("https://shop.example",), accounts_key=key, page=Page(serve=True))
    answer = get(world, "/accounts.js", "https://unknown.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    digest = b64encode(sha384(answer.body).digest()).decode()
    tag = format_script_tag(name="accounts.js")
    assert f'src="https://PROXY/accounts.js" integrity="sha384-{digest}"' in tag
    assert tag in "\n".join(describe_status(status, world.settings))
    assert get(world, "/page/accounts.js").status == 404
    for without in (open_world, make_world(accounts_key=key)):
        assert get(without, "/accounts.js").status == 404
        assert "accounts.js" not in "\n".join(describe_status(status, without.settings))
