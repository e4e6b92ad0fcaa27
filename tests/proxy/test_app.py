"""The proxy over HTTP: every status that the protocol promises."""

import asyncio
import gzip
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from sottovoce.protocol import Catalogue, Item, Shelf, SignedShelf
from sottovoce.proxy import Rate
from sottovoce.service.page import Page
from sottovoce.service.watch import build_watch
from tests.asgi import Answer, ask
from tests.proxy.world import (
    CATALOGUE,
    ENDS,
    ITEMS,
    KEY,
    OPENS,
    Clock,
    MakeWorld,
    World,
    metric,
    model_of,
    post,
    shelved,
    signed,
    stored,
    within,
)


def get(world: World, path: str, method: str = "GET", **headers: str) -> Answer:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    answer = within(world, lambda app: ask(app, method, path, headers=named))
    assert isinstance(answer, Answer)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not {name for name in answer.headers if name.startswith("access-control")}
    return answer


def ask_operator(world: World, path: str) -> Answer:
    """Return the answer for the operator, at the address for metrics and readiness."""
    app = build_watch(world.proxy.check_ready, world.proxy.metrics.render)
    return asyncio.run(ask(app, "GET", path))


def send(world: World, data: bytes, **more: Any) -> Answer:
    answer = within(world, lambda app: post(app, data, **more))
    assert isinstance(answer, Answer)
    return answer


def make_path(world: World) -> str:
    """Return whether a batch of the current epoch would be taken."""
    return f"/v2/batches/{world.now.hash.hex()}"


def test_token_requests_count_as_several_batches(make_world: MakeWorld) -> None:
    # The limit of an address allows few of them at once.
    world = make_world(min_clients=5, rate=Rate(batches_per_minute=60, burst=2, per_epoch=2))

    async def work(app: Starlette) -> list[int]:
        answers = [await ask(app, "POST", "/v2/tokens", body=b"any") for _ in range(3)]
        clock.now += 1
        answers.append(await ask(app, "POST", "/v2/tokens", body=b"any"))
        answers.append(await post(app, world.people.batch(world.now).encode()))
        return [answer.status for answer in answers]

    clock = Clock(0.0)
    assert within(world, work, clock) == [400, 400, 429, 400, 202]


def test_check_request_has_the_answer_of_a_batch(make_world: MakeWorld) -> None:
    # It counts neither for the address nor in the metrics, and writes nothing.
    rate = Rate(batches_per_minute=60, burst=1, per_epoch=2)
    world = make_world(min_clients=5, rate=rate)

    async def work(app: Starlette) -> list[tuple[int, ...]]:
        statuses = []
        for _ in range(4):
            asked = {(await ask(app, "GET", make_path(world))).status for _ in range(3)}
            answer = await post(app, world.people.batch(world.now).encode())
            statuses.append((*asked, answer.status))
            clock.now += 1
        return statuses

    clock = Clock(0.0)
    assert within(world, work, clock) == [(204, 202), (204, 202), (429, 429), (429, 429)]
    assert metric(world, 'batches_refused_total{reason="rate"}') == 2
    world = make_world(max_batches=3)
    assert within(world, work, clock) == [(204, 202), (204, 202), (204, 202), (503, 503)]
    world = make_world()
    assert get(world, make_path(world)).status == 204
    assert get(world, f"/v2/batches/{'0' * 64}").status == 410, "a cache has shown another epoch"
    assert get(world, "/v2/batches/nothing").status == 404
    world.server.states.clear()  # it was set back
    world.proxy.tick()
    assert get(world, make_path(world)).status == 503
    assert send(world, b"of another epoch").status == 503, "what was paid for is not given up"
    assert get(world, "/v2/manifest").status == 200, "lists go on"
    world.server.states[1] = "open"
    world.proxy.tick()
    world.send(3)
    world.end_epoch()
    over = get(world, make_path(world))
    assert over.problem()["type"] == "urn:sottovoce:closed"
    assert over.headers["cache-control"] == "no-store"
    assert get(world, "/v2/manifest").status == 200


@pytest.mark.parametrize("cut", [1_000, 50])
def test_202_is_empty_and_means_stored(world: World, cut: int) -> None:
    """Send the batch whole and in pieces, with and without its length."""
    data = world.people.batch(world.now).encode()
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    unsaid = within(world, lambda app: ask(app, "POST", "/v2/batches", pieces))
    for answer in (unsaid, send(world, data)):
        assert (answer.status, answer.body) == (202, b"")
    assert len(stored(world)) == 1


@pytest.mark.parametrize(
    ("now", "change", "status", "kind"),
    [
        (OPENS, {"epoch": 2}, 409, "urn:sottovoce:wrong-epoch"),
        (ENDS, {}, 410, "urn:sottovoce:closed"),
        (OPENS - 1, {}, 503, "about:blank"),
        (OPENS, {"sealed": b""}, 400, "about:blank"),
    ],
)
def test_status_of_refused_batches(
    world: World, now: float, change: dict[str, object], status: int, kind: str
) -> None:
    world.clock.now = now
    answer = send(world, world.people.batch(world.now, **change).encode())
    assert (answer.status, answer.problem()["type"]) == (status, kind)
    assert not stored(world)


def test_batch_of_a_wrong_length_is_refused(world: World) -> None:
    data = world.people.batch(world.now).encode()
    assert send(world, data + b"x").status == 413
    unsaid = within(world, lambda app: ask(app, "POST", "/v2/batches", [data, b"x", b"never read"]))
    assert unsaid.status == 413
    cut = within(world, lambda app: ask(app, "POST", "/v2/batches", [data[:90]], hang_up=True))
    assert cut.status == 400
    assert not stored(world)


def test_manifests_and_models_are_served_as_they_are(world: World) -> None:
    """Serve both under their hash with a long cache time, never compressed."""
    first, model = world.now, world.now.manifest.model
    world.server.go_on(signed(2))
    world.proxy.tick()
    for path, content, tag, cache in (
        ("manifest", world.now.encode(), world.now.hash.hex(), "public, max-age=10"),
        ("manifests/1", first.encode(), "1", "public, max-age=31536000, immutable"),
        ("manifests/2", world.now.encode(), "2", "public, max-age=31536000, immutable"),
        (f"models/{model.hex()}", model_of(1), model.hex(), "public, max-age=31536000, immutable"),
        (
            f"catalogues/{CATALOGUE.hash.hex()}", CATALOGUE.raw, CATALOGUE.hash.hex(),
            "public, max-age=31536000, immutable",
        ),
    ):  # fmt: skip
        answer = get(world, f"/v2/{path}")
        assert (answer.status, answer.body) == (200, content)
        assert answer.headers["etag"] == f'"{tag}"'
        assert answer.headers["cache-control"] == cache
        assert answer.headers["content-type"] == "application/octet-stream"
        assert get(world, f"/v2/{path}", if_none_match=answer.headers["etag"]).status == 304
        if "catalogues" not in path:
            answer = get(world, f"/v2/{path}", accept_encoding="gzip")
            assert not {"content-encoding", "vary"} & set(answer.headers)


def test_metrics_and_readiness_are_not_public(world: World) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(world, path).status == 404
        assert ask_operator(world, path).status == 200
    assert ask_operator(world, "/v2/manifest").status == 404


def test_catalogue_is_compressed_if_the_client_accepts_it(world: World) -> None:
    path = f"/v2/catalogues/{CATALOGUE.hash.hex()}"
    answer = get(world, path, accept_encoding="gzip")
    assert gzip.decompress(answer.body) == CATALOGUE.raw
    assert get(world, path).headers["vary"] == answer.headers["vary"] == "Accept-Encoding"
    other = Catalogue.from_items(Item(f"film-{number}", "Another film") for number in range(ITEMS))
    world.server.files[other.hash] = other.raw
    world.server.go_on(signed(2, catalogue=other.hash))
    world.server.shelved = shelved(OPENS + 1, other.hash)
    world.proxy.tick()
    assert get(world, path, accept_encoding="gzip").body == CATALOGUE.raw, "of an earlier epoch"


def test_patch_is_served_compressed(world: World) -> None:
    patch = b"patch " * 100
    name = hashlib.sha256(patch).digest()
    world.server.files[name] = patch
    world.server.shelved = SignedShelf.make(Shelf(OPENS + 1, CATALOGUE.hash, name), KEY)
    world.proxy.tick()
    path = f"/v2/patches/{name.hex()}"
    answer = get(world, path, accept_encoding="gzip")
    assert gzip.decompress(answer.body) == get(world, path).body == patch
    assert "immutable" in answer.headers["cache-control"]
    assert get(world, f"/v2/patches/{CATALOGUE.hash.hex()}").status == 404


def test_the_page_is_served_where_the_operator_wants_it(make_world: MakeWorld) -> None:
    world = make_world(page=Page(serve=True, statement="We <promise> little."))
    index = get(world, "/")
    assert index.status == 200
    assert world.settings.verification_key in index.body.decode()
    assert "We &lt;promise&gt; little." in index.body.decode()
    assert get(world, "/page/page.js").status == 200
    assert get(world, "/page/panel.json").problem()["title"] == "Not Found"
    assert get(world, "/v2/manifest").body == world.now.encode()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(
            ("GET", path, 404)
            for path in (
                "/", "/sw.js", "/page/page.js", "/v1", "/v2/manifest/", "/v2/manifests/",
                "/v2/manifests/0", "/v2/manifests/3", "/v2/models/", "/v2/models/00",
                "/v2/models/" + "0" * 64, "/v2/models/" + CATALOGUE.hash.hex(),
                "/v2/models/../manifest", "/healthz/",
            )
        ),
        ("PUT", "/v2/batches", 405),
        ("POST", "/v2/manifest", 405),
    ],
)  # fmt: skip
def test_unknown_paths_are_404(world: World, method: str, path: str, status: int) -> None:
    answer = get(world, path, method)
    assert (answer.status, answer.problem()["status"]) == (status, status)
    if status == 405:
        assert answer.headers["allow"] in ("POST", "GET, HEAD", "HEAD, GET")


def test_requests_before_the_first_manifest_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Nothing is logged: a line for each request would reveal its time.
    world = World(tmp_path)
    world.server.reachable = False
    assert get(world, "/v2/manifest").problem()["status"] == 503
    assert ask_operator(world, "/readyz").status == 503
    assert ask_operator(world, "/healthz").status == 200
    assert send(world, b"anything").status == 503
    assert "no manifest" not in caplog.text
    world.store.close()


def test_metrics_are_counts_for_all(world: World) -> None:
    async def work(app: Starlette) -> None:
        batch = world.people.batch(world.now)
        for data in (batch.encode(), batch.encode(), b"", batch.encode() + b"x"):
            await post(app, data)
        await post(app, world.people.batch(world.now, epoch=9).encode())
        await post(app, world.people.batch(world.now, id=batch.id).encode())

    within(world, work)
    text = ask_operator(world, "/metrics").body.decode()
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert counts["sottovoce_proxy_batches_accepted_total"] == "2.0"
    assert counts["sottovoce_proxy_batches_waiting"] == "1.0"
    assert counts["sottovoce_proxy_epoch"] == "1.0"
    assert counts["sottovoce_proxy_beat_failures"] == "0.0"
    refused = {
        reason: counts[f'sottovoce_proxy_batches_refused_total{{reason="{reason}"}}']
        for reason in ("malformed", "http", "wrong_epoch", "known", "closed", "store")
    }
    assert refused == {
        "malformed": "1.0", "http": "1.0", "wrong_epoch": "1.0", "known": "1.0",
        "closed": "0.0", "store": "0.0",
    }  # fmt: skip


def test_heartbeat_flushes_and_forwards(world: World) -> None:
    # It runs after the start; at the stop it finishes a tick in progress.
    world.send(3)
    world.close_epoch()
    begun, committed = threading.Event(), threading.Event()

    def watch(call: str) -> None:
        begun.set()
        if call == "after commit":
            committed.set()

    world.server.before = watch
    within(world, lambda _: asyncio.to_thread(begun.wait, 30))
    assert committed.is_set()
    assert world.server.commits == {1: (3, 12)}
