"""Traces of a session: no file has an address, agent, batch id, time or order of arrival."""

import asyncio
import errno
import itertools
import logging
import re
import struct
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG

import pytest

from sottovoce.errors import StoreError, UnavailableError
from sottovoce.proxy import Rate
from sottovoce.service.watch import build_watch
from tests.asgi import ask
from tests.proxy.world import (
    MakeWorld,
    People,
    World,
    all_reports,
    post,
    raw_bytes,
    reports_of,
    serving,
    signed,
)

# Larger open files are not the proxy's: compiled kernels, say.
MAX_READ_BYTES = 10**8

ARRIVAL = 1_733_333_333.625
PEOPLE = [
    (("203.0.113.77", 45_678), b"Whisper/9.77 (odd agent)"),
    (("2001:db8:dead:beef::77", 45_679), b"Murmur/1.23 (another agent)"),
    (("::ffff:198.51.100.23", 45_680), b"Hush/4.5"),
]


def written_forms_of(address: str) -> list[bytes]:
    parsed = ip_address(address)
    forms = [address.encode(), parsed.packed, parsed.exploded.encode(), str(int(parsed)).encode()]
    if parsed.version == 6 and parsed.ipv4_mapped:
        return [*forms, str(parsed.ipv4_mapped).encode(), parsed.ipv4_mapped.packed]
    return [*forms, parsed.packed[:8]]


def written_forms_of_time(time: float) -> list[bytes]:
    whole, fine = int(time), [int(time * 10**power) for power in (3, 6, 9)]
    forms = [str(number).encode() for number in (whole, *fine)]
    forms += [struct.pack(form, time) for form in ("<d", ">d")]
    forms += [struct.pack(form, whole) for form in ("<I", ">I")]
    return forms + [struct.pack(form, n) for form in ("<Q", ">Q") for n in fine]


def secrets() -> list[bytes]:
    """Return what no file may ever contain about a request."""
    forms = [form for (address, _), _ in PEOPLE for form in written_forms_of(address)]
    forms += [str(port).encode() for (_, port), _ in PEOPLE]
    forms += [agent for _, agent in PEOPLE]
    return forms + written_forms_of_time(ARRIVAL)


def session(world: World) -> list[bytes]:
    """Send accepted, refused and broken requests; return what the proxy answered."""
    sent = world.people.batches(world.now, 12)
    world.sent = sent  # type: ignore[attr-defined]

    async def main() -> list[bytes]:
        answers = []
        async with serving(world) as app:
            for batch, (client, agent) in zip(sent, itertools.cycle(PEOPLE), strict=False):
                headers = [(b"user-agent", agent), (b"x-forwarded-for", client[0].encode())]
                for pieces, hang_up in (
                    ([batch.encode()], False),
                    ([batch.encode(), b"too long"], False),
                    ([batch.id + batch.encode()[16:]], False),
                    ([batch.encode()[:70]], True),
                ):
                    answers.append(
                        await ask(
                            app, "POST", "/v2/batches", pieces, headers,
                            client=client, hang_up=hang_up,
                        )
                    )  # fmt: skip
                watch = build_watch(world.proxy.check_ready, world.proxy.metrics.render)
                answers.append(await ask(watch, "GET", "/metrics", headers=headers, client=client))
                answers.append(await ask(app, "GET", "/no/such", headers=headers, client=client))
        assert [a.status for a in answers[::6]] == [202] * 12
        return [repr(sorted(a.headers.items())).encode() + a.body for a in answers]

    return asyncio.run(main())


@pytest.mark.parametrize("rate", [Rate(burst=20), Rate(batches_per_minute=0, per_epoch=0)])
def test_a_session_leaves_no_trace(
    tmp_path: Path,
    rate: Rate,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    when = {"opens": int(ARRIVAL) - 1000, "closes": int(ARRIVAL) + 1000}
    world = World(tmp_path / "proxy", signed(reports=20, **when), rate=rate)
    world.clock.now = ARRIVAL
    world.proxy.tick()
    places: dict[str, bytes] = {"answers": b"".join(session(world))}
    sent = world.sent  # type: ignore[attr-defined]
    places["disk while it waits"] = raw_bytes(world.folder)

    def look(call: str) -> None:
        if call == "put_chunk":
            places["disk after the flush"] = raw_bytes(world.folder) + open_files()

    world.server.before = look
    world.end_epoch()
    places["disk after forwarding"] = raw_bytes(world.folder)
    chunks = [chunk.encode() for chunk in world.server.chunks[1].values()]
    received = repr((world.server.told, world.server.commits)).encode()
    places["server"] = b"".join(chunks) + received
    world.store.close()
    places["disk after the end"] = raw_bytes(world.folder)
    printed = "".join(capfd.readouterr())
    places["log"] = caplog.text.encode() + printed.encode()

    ids = [batch.id for batch in sent] + [batch.id.hex().encode() for batch in sent]
    for place, content in places.items():
        for secret in secrets() + (ids if place != "disk while it waits" else []):
            # A port is short: by chance its digits are part of a longer number or a hash.
            within = rb"(?<![0-9A-Za-z])" + re.escape(secret) + rb"(?![0-9A-Za-z])"
            is_there = re.search(within, content) if len(secret) < 8 else secret in content
            assert not is_there, (place, secret)
    for place in ("disk after forwarding", "disk after the end", "log", "answers"):
        assert not any(report in places[place] for report in all_reports(sent)), place
    for place in ("disk after the flush", "server"):
        neighbours = [
            pair
            for batch in sent
            for pair in pairwise(reports_of(batch.sealed))
            if b"".join(pair) in places[place]
        ]
        # Of 228 pairs each is adjacent in this order with probability 1/240: mean 0.95.
        assert len(neighbours) < 12, place


def open_files() -> bytes:
    """Return the content of every plain file of this process, deleted ones too, except the log."""
    contents = []
    for link in Path("/proc/self/fd").iterdir() if Path("/proc").exists() else ():
        try:
            file = link.stat()
            if S_ISREG(file.st_mode) and 0 < file.st_size < MAX_READ_BYTES:
                contents.append(link.read_bytes())
        except OSError:  # it was closed meanwhile, or is not ours
            continue
    return b"\0".join(contents)


def test_open_files_includes_deleted_files(tmp_path: Path) -> None:
    path = tmp_path / "deleted"
    with path.open("w+b") as file:
        file.write(b"a secret of this test")
        file.flush()
        path.unlink()
        assert (b"a secret of this test" in open_files()) is Path("/proc/self/fd").exists()


def test_the_order_of_arrival_is_not_in_the_tables(make_world: MakeWorld) -> None:
    """Store the same batches in another order and compare the tables row for row."""
    dumps = []
    first = signed()
    batches = People().batches(first, 50)
    for order in (batches, batches[::-1]):
        world = make_world(first)
        for batch in order:
            world.accept(batch)
        with world.store.read_batches() as tables:
            dumps.append(tables.connection.execute("SELECT * FROM batches").fetchall())
        assert [row[0] for row in dumps[-1]] == sorted(row[0] for row in dumps[-1])
    assert dumps[0] == dumps[1]
    assert {row[1:] for row in dumps[0]} == {(batch.id, batch.sealed) for batch in batches}


def test_failed_deletion_is_repeated_at_a_later_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mixed reports are delivered all the same."""
    sent = world.send(30)

    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.proxy.epoch_files.delete_file", refuse)
        world.close_epoch()
        with pytest.raises(StoreError):
            world.proxy.tick()
    assert sorted(world.server.reports(1)) == sorted(all_reports(sent))
    assert any(batch.id in raw_bytes(world.folder) for batch in sent)
    world.server.reachable = False
    with pytest.raises(UnavailableError):
        world.proxy.tick()
    assert not any(batch.id in raw_bytes(world.folder) for batch in sent)


def test_only_post_requests_change_files(world: World) -> None:
    """Request everything that can be read; no file changes."""
    before = raw_bytes(world.folder)

    async def main() -> None:
        async with serving(world) as app:
            for path in ("/v2/manifest", "/v2/manifests/1"):
                assert (await ask(app, "GET", path)).status == 200
            watch = build_watch(world.proxy.check_ready, world.proxy.metrics.render)
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await ask(watch, "GET", path)).status == 200
            assert (await post(app, b"nonsense")).status == 400

    asyncio.run(main())
    assert raw_bytes(world.folder) == before
