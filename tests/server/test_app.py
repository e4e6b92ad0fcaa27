"""The server over HTTP: statuses, headers, permissions."""

import hmac
import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from sottovoce.protocol import SignedManifest
from sottovoce.server import build_app
from sottovoce.server.app import MAX_CHUNK_BYTES
from sottovoce.service.watch import build_watch
from tests.asgi import Answer, ask
from tests.server.world import SECRETS, MakeWorld, World, make_auth_headers, seal, to_chunk


class Web:
    """A client of one application."""

    def __init__(self, world: World):
        self.world = world
        self.app = build_app(world.server, world.settings)
        self.watch = build_watch(world.server.check_ready, world.server.render_metrics)

    def get_metrics(self) -> str:
        answer: Answer = anyio.run(lambda: ask(self.watch, "GET", "/metrics"))
        return answer.body.decode()

    def __call__(self, method: str, path: str, body: bytes = b"", **options: Any) -> Answer:
        answer: Answer = anyio.run(lambda: ask(self.app, method, path, body, **options))
        return answer

    def post(self, path: str, content: object, proxy: str = "east") -> Answer:
        return self("POST", path, json.dumps(content).encode(), headers=make_auth_headers(proxy))


@pytest.fixture
def web(make_world: MakeWorld, sqlite_url: str) -> Web:
    return Web(make_world(sqlite_url))


def make_commit(signed: SignedManifest, chunks: int, reports: int) -> dict[str, object]:
    return {"manifest": signed.hash.hex(), "chunks": chunks, "reports": reports}


def make_contact(signed: SignedManifest, crowd: str | None) -> dict[str, object]:
    return {
        "epoch": signed.manifest.epoch,
        "manifest": signed.hash.hex(),
        "crowd": crowd,
        "time": 1_000.0,
        "process": None,
        "token_key": None,
        "database": None,
        "server_database": None,
    }


def test_the_lifespan_opens_the_first_epoch(web: Web) -> None:
    async def get_status() -> int:
        async with web.app.router.lifespan_context(web.app):
            return (await ask(web.app, "GET", "/v2/manifest")).status

    assert anyio.run(get_status) == 200


def test_an_epoch_over_http(web: Web) -> None:
    world = web.world
    world.server.tick()
    signed = world.get_signed()
    chunk = world.make_chunk(signed, 20)
    path = f"/v2/epochs/1/chunks/{chunk.name}"

    def put() -> Answer:
        return web("PUT", path, chunk.encode(), headers=make_auth_headers("east"))

    assert web.post("/v2/contact", make_contact(signed, "short")).json()["state"] == "open"
    assert put().status == 425
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 0, 0)).status == 425
    world.close_epoch()
    reply = web.post("/v2/contact", make_contact(signed, "short")).json()
    with world.store.read() as transaction:
        name = transaction.get_service().name
    assert reply == {"state": "closed", "time": world.now, "database": name}
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 1, 20)).status == 409
    assert put().json() == {"counted": True}
    assert put().json() == {"counted": False}
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 1, 20)).status == 200
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 1, 20)).status == 200
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 0, 0), "west").status == 200
    world.server.tick()
    assert web.post("/v2/contact", make_contact(signed, "none")).json()["state"] == "applied"
    late = put()
    assert (late.status, late.json()["type"]) == (410, "urn:sottovoce:closed")
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 2, 20)).status == 410
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 1, 20)).status == 200


def test_refusals_have_their_status(web: Web) -> None:
    world = web.world
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 2)

    def put(path: str, body: bytes, **options: Any) -> Answer:
        return web("PUT", path, body, headers=make_auth_headers("east"), **options)

    assert put(f"/v2/epochs/1/chunks/{'0' * 64}", chunk.encode()).status == 400
    assert put("/v2/epochs/1/chunks/x", chunk.encode()).status == 400
    assert put(f"/v2/epochs/2/chunks/{chunk.name}", chunk.encode()).status == 400
    assert put(f"/v2/epochs/1/chunks/{chunk.name}", bytes(MAX_CHUNK_BYTES + 1)).status == 413
    assert web.post("/v2/contact", make_contact(signed, None)).status == 200
    no_epoch = make_contact(signed, None) | {"epoch": 0, "manifest": None}
    assert web.post("/v2/contact", no_epoch).json()["state"] == "none"
    other_hash = {"manifest": "0" * 64}
    assert web.post("/v2/contact", make_contact(signed, None) | other_hash).status == 409
    assert web.post("/v2/contact", make_contact(signed, "x" * 5000)).status == 413
    assert web.post("/v2/epochs/1/commit", make_commit(signed, 0, 0) | other_hash).status == 409
    assert web("GET", "/v2/epochs/1/commit").status == 405
    assert web("GET", "/nothing").status == 404
    problem = web.post("/v2/contact", make_contact(signed, None) | {"epoch": 77})
    assert problem.status == 409
    assert problem.headers["content-type"] == "application/problem+json"
    assert "77" in problem.json()["detail"]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {SECRETS['east']}",
        SECRETS["east"],
        f"Bearer {SECRETS['east']} ",
        f"Bearer {SECRETS['east'][:-1]}",
        "Bearer \xff\xfe",
    ],
)
def test_strangers_are_refused_before_anything_is_read(web: Web, header: str | None) -> None:
    signed = web.world.close_epoch()
    chunk = web.world.make_chunk(signed, 2)
    headers = [] if header is None else [("authorization", header)]
    for method, path in (
        ("PUT", f"/v2/epochs/1/chunks/{chunk.name}"),
        ("PUT", "/v2/epochs/nonsense/chunks/nonsense"),
        ("POST", "/v2/contact"),
        ("POST", "/v2/epochs/1/commit"),
    ):
        answer = web(method, path, chunk.encode(), headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert web.world.get_counts(1) == (0, 0, 0, 0)
    assert "sottovoce_server_unknown_proxy_total 4.0" in web.get_metrics()


def test_secrets_are_compared_in_constant_time_with_every_known_one(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    real: Callable[[str, str], bool] = hmac.compare_digest

    def compare_digest(digest: str, other: str) -> bool:
        compared.append(digest)
        return real(digest, other)

    monkeypatch.setattr(hmac, "compare_digest", compare_digest)
    digests = [access.secret_sha256 for access in web.world.settings.proxies.values()]
    for secret in (*SECRETS.values(), "wrong", ""):
        compared.clear()
        web.world.settings.find_proxy(secret)
        assert compared == digests


def test_metrics_count_for_the_whole_server_only(web: Web) -> None:
    world = web.world
    world.server.prepare()
    assert 'epoch_state{sottovoce_server_epoch_state="none"} 1.0' in web.get_metrics()
    signed = world.close_epoch()
    data = seal(world.draw_reports(6), signed)
    chunk = to_chunk(data + data[:52] + bytes(52), signed)
    world.send("east", chunk)
    assert "applied_reports 0.0" in web.get_metrics(), "not while it is being counted"
    world.commit("east", signed, [chunk])
    world.commit("west", signed)
    world.server.tick()
    text = web.get_metrics()
    for line in (
        "sottovoce_server_epoch 2.0",
        "sottovoce_server_training 1.0",
        "sottovoce_server_items 20.0",
        "sottovoce_server_overdue_seconds 0.0",
        "sottovoce_server_applied_epoch 1.0",
        'sottovoce_server_epoch_state{sottovoce_server_epoch_state="open"} 1.0',
        "sottovoce_server_applied_reports 6.0",
        "sottovoce_server_applied_duplicates 1.0",
        "sottovoce_server_applied_undecodable 1.0",
        "sottovoce_server_applied_crowdless 0.0",
        "sottovoce_server_applied_capped 0.0",
        "sottovoce_server_chunks_total 1.0",
    ):
        assert line in text
    for secret in ("east", "west", chunk.name, *SECRETS.values(), "192.0.2.1"):
        assert secret not in text


def test_nothing_about_a_request_is_logged(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    signed = web.world.close_epoch()
    chunk = web.world.make_chunk(signed, 2)
    web(
        "PUT",
        f"/v2/epochs/1/chunks/{chunk.name}",
        chunk.encode(),
        headers=make_auth_headers("east"),
    )
    web("PUT", f"/v2/epochs/1/chunks/{chunk.name}", b"x", headers=make_auth_headers("east"))
    web("PUT", f"/v2/epochs/9/chunks/{chunk.name}", chunk.encode())
    for secret in ("192.0.2.1", chunk.name, *SECRETS.values()):
        assert secret not in caplog.text
