"""The proxy over HTTP: every status that the protocol promises."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.proxy import Page, Rate
from sottovoce.service import build_watch
from tests.asgi import Answer, ask
from tests.proxy.world import CATALOGUE, ENDS, OPENS, Clock, World, model_of, signed

if TYPE_CHECKING:
    from starlette.applications import Starlette


def get(world: World, path: str, method: str = "GET", **headers: str) -> Answer:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    answer = within(world, lambda app: ask(app, method, path, headers=named))
    assert isinstance(answer, Answer)
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer


def watched(world: World, path: str) -> Answer:
    """What the operator sees, at an address of their own."""
    app = build_watch(world.proxy.check, world.proxy.metrics.text)
    return asyncio.run(ask(app, "GET", path))


def send(world: World, data: bytes, **more: Any) -> Answer:
    answer = within(world, lambda app: post(app, data, **more))
    assert isinstance(answer, Answer)
    return answer


def test_202_is_empty_and_means_stored(world: World) -> None:
    data = world.people.batch(world.now).encode()
    for _ in range(2):
        answer = send(world, data)
        assert (answer.status, answer.body) == (202, b"")
    assert stored(world) == 1


@pytest.mark.parametrize(
    ("now", "change", "status", "kind"),
    [
        (OPENS, {"epoch": 2}, 409, "urn:sottovoce:wrong-epoch"),
        (ENDS, {}, 410, "urn:sottovoce:closed"),
        (OPENS - 1, {}, 503, "about:blank"),
        (OPENS, {"sealed": b""}, 400, "about:blank"),
    ],
)
def test_what_is_refused(
    world: World, now: float, change: dict[str, object], status: int, kind: str
) -> None:
    """Which error it is: `test_intake.py`; how each is told: `tests/service/test_http.py`."""
    world.clock.now = now
    answer = send(world, world.people.batch(world.now, **change).encode())
    assert (answer.status, answer.problem()["type"]) == (status, kind)
    assert stored(world) == 0


def test_413_as_soon_as_it_is_too_long(world: World) -> None:
    data = world.people.batch(world.now).encode()
    assert send(world, data + b"x").status == 413
    unsaid = within(world, lambda app: ask(app, "POST", "/v2/batches", [data, b"x", b"never read"]))
    assert unsaid.status == 413


def test_a_batch_in_pieces_without_its_length(world: World) -> None:
    data = world.people.batch(world.now).encode()
    pieces = [data[at : at + 50] for at in range(0, len(data), 50)]
    answer = within(world, lambda app: ask(app, "POST", "/v2/batches", pieces))
    assert answer.status == 202
    assert stored(world) == 1


def test_a_line_that_breaks_leaves_nothing(world: World) -> None:
    data = world.people.batch(world.now).encode()
    answer = within(world, lambda app: ask(app, "POST", "/v2/batches", [data[:90]], hang_up=True))
    assert answer.status == 400
    assert stored(world) == 0


def test_429_says_when_to_come_again(tmp_path: Path) -> None:
    world = World(tmp_path, rate=Rate(batches_per_minute=6, burst=2, per_epoch=0))
    world.proxy.tick()
    clock = Clock(0)

    async def work(app: Starlette) -> None:
        def data() -> bytes:
            return world.people.batch(world.now).encode()

        statuses = [(await post(app, data())).status for _ in range(3)]
        assert statuses == [202, 202, 429]
        away = await post(app, data())
        assert away.headers["retry-after"] == "10"
        assert away.problem()["status"] == 429
        assert (await post(app, data(), client=("192.0.2.77", 1))).status == 202
        assert (await post(app, data(), client=None)).status == 202
        clock.now = 10.0
        assert (await post(app, data())).status == 202

    within(world, work, clock)
    assert stored(world) == 5
    world.store.close()


def test_two_beats_at_once_end_an_epoch_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.proxy.tick()
    world.send(3)
    world.close_epoch()
    with ThreadPoolExecutor(8) as pool:
        for beat in [pool.submit(world.proxy.tick) for _ in range(40)]:
            beat.result()
    assert len(world.server.reports(1)) == 12
    world.store.close()


def test_batches_are_taken_until_the_crowd_is_mixed(world: World) -> None:
    """Beyond the epoch's time, while it waits; not after the flush."""
    world.clock.now = ENDS - 1
    assert send(world, world.people.batch(world.now).encode()).status == 202
    world.send(2)
    world.end_epoch()
    assert send(world, world.people.batch(world.now).encode()).status == 410


def test_what_the_operator_watches_is_not_public(world: World) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(world, path).status == 404
        assert watched(world, path).status == 200
    assert watched(world, "/v2/manifest").status == 404


def test_the_manifest(world: World) -> None:
    answer = get(world, "/v2/manifest")
    assert answer.status == 200
    assert answer.body == world.now.encode()
    assert answer.headers["etag"] == f'"{world.now.hash.hex()}"'
    assert answer.headers["cache-control"] == "public, max-age=10"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert not {name for name in answer.headers if name.startswith("access-control")}


@pytest.mark.parametrize("name", ["models", "catalogues"])
def test_files_for_ever(world: World, name: str) -> None:
    model = world.now.manifest.model
    sha256, content = (model, model_of(1)) if name == "models" else (CATALOGUE.hash, CATALOGUE.raw)
    path = f"/v2/{name}/{sha256.hex()}"
    answer = get(world, path)
    assert (answer.status, answer.body) == (200, content)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert get(world, path, if_none_match=answer.headers["etag"]).status == 304


@pytest.mark.parametrize("name", ["manifest", "models"])
def test_manifests_and_models_are_never_compressed(world: World, name: str) -> None:
    rest = f"/{world.now.manifest.model.hex()}" if name == "models" else ""
    answer = get(world, f"/v2/{name}{rest}", accept_encoding="gzip")
    assert answer.status == 200
    assert not {"content-encoding", "vary"} & set(answer.headers)


def test_a_catalogue_is_compressed_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def compress(content: bytes) -> bytes:
        made.append(content)
        return b"z"

    monkeypatch.setattr("sottovoce.proxy.app.compress", compress)
    path = f"/v2/catalogues/{CATALOGUE.hash.hex()}"

    async def work(app: Starlette) -> list[Answer]:
        accepts = [(b"accept-encoding", b"gzip")]
        return await asyncio.gather(*(ask(app, "GET", path, headers=accepts) for _ in range(9)))

    assert {answer.body for answer in within(world, work)} == {b"z"}
    assert made == [CATALOGUE.raw]


def test_the_page_is_served_where_the_operator_wants_it(tmp_path: Path) -> None:
    world = World(tmp_path, page=Page(serve=True, statement="We <promise> little."))
    world.proxy.tick()
    index = get(world, "/")
    assert index.status == 200
    assert world.settings.verification_key in index.body.decode()
    assert "We &lt;promise&gt; little." in index.body.decode()
    assert "default-src 'none'" in index.headers["content-security-policy"]
    assert not {name for name in index.headers if name.startswith("access-control")}
    assert get(world, "/page/page.js").status == 200
    assert get(world, "/sw.js").status == 200
    assert get(world, "/page/panel.json").problem()["title"] == "Not Found"
    assert get(world, "/v2/manifest").body == world.now.encode()
    world.store.close()


def test_manifests_of_earlier_epochs(world: World) -> None:
    first = world.now
    world.server.go_on(signed(2))
    world.proxy.tick()
    answer = get(world, "/v2/manifests/1")
    assert (answer.status, answer.body) == (200, first.encode())
    assert "immutable" in answer.headers["cache-control"]
    assert get(world, "/v2/manifests/2").body == world.now.encode()


@pytest.mark.parametrize(
    "path",
    [
        "/", "/sw.js", "/page/page.js", "/v1", "/v2/manifest/",
        "/v2/manifests/", "/v2/manifests/0", "/v2/manifests/3",
        "/v2/models/", "/v2/models/00", "/v2/models/" + "0" * 64,
        "/v2/models/" + CATALOGUE.hash.hex(), "/v2/models/../manifest", "/healthz/",
    ],
)  # fmt: skip
def test_404(world: World, path: str) -> None:
    answer = get(world, path)
    assert answer.status == 404
    assert answer.problem()["title"] == "Not Found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v2/batches", "POST"),
        ("POST", "/v2/manifest", "GET, HEAD"),
    ],
)
def test_405(world: World, method: str, path: str, allowed: str) -> None:
    answer = get(world, path, method)
    assert answer.status == 405
    assert set(allowed.split(", ")) <= {*answer.headers["allow"].split(", "), ""}
    answer.problem()


def test_before_the_first_manifest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused and not logged: a line for each request would keep its time."""
    world = World(tmp_path)
    world.server.reachable = False
    assert get(world, "/v2/manifest").status == 503
    assert get(world, "/v2/manifest").problem()["type"] == "about:blank"
    assert watched(world, "/readyz").status == 503
    assert watched(world, "/healthz").status == 200
    assert send(world, b"anything").status == 503
    assert "no manifest has come" not in caplog.text
    world.store.close()


def test_metrics_are_counts_for_all(world: World) -> None:
    async def work(app: Starlette) -> None:
        batch = world.people.batch(world.now)
        for data in (batch.encode(), batch.encode(), b"", batch.encode() + b"x"):
            await post(app, data)
        await post(app, world.people.batch(world.now, epoch=9).encode())
        await post(app, world.people.batch(world.now, id=batch.id).encode())

    within(world, work)
    told = watched(world, "/metrics").body.decode()
    counts = dict(line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#"))
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


def test_many_at_once_are_all_stored_in_few_transactions(world: World) -> None:
    """Group commit, end to end: six hundred requests, far fewer commits."""
    batches = [batch.encode() for batch in world.people.batches(world.now, 600)]
    commits: list[int] = []
    commit = world.store._writer.commit

    def counted() -> None:
        commits.append(1)
        commit()

    world.store._writer.commit = counted  # type: ignore[method-assign]

    async def work(app: Starlette) -> list[Answer]:
        return await asyncio.gather(*(post(app, data) for data in batches))

    assert {answer.status for answer in within(world, work)} == {202}
    assert stored(world) == 600
    assert len(commits) < 60


def test_the_heartbeat_does_the_rest(world: World) -> None:
    """Started, it flushes and forwards by itself; stopped, the beat under way is finished."""
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
