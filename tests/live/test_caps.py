"""What one connection and one address may use of a proxy and of a server, as real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sottovoce.protocol import batch_size, routes
from tests.live.conftest import quick_folder
from tests.live.processes import REPORTS, Site, launching, sender
from tests.live.raw import Answer, Line, asked, request
from tests.processes import wait_until

HEADER, BODY, IDLE = 0.6, 0.9, 0.5
"""Seconds."""
SLACK = 5.0
"""Seconds by which a busy machine may be late; slower than any cap of a real service is not."""
PLACES, OF_ADDRESS = 24, 8
OTHER = "127.0.0.2"
GET = request("GET", routes.MANIFEST)
GET_ONCE = request("GET", routes.MANIFEST, "Connection: close")


@dataclass
class Both:
    """A server and a proxy that run."""

    site: Site
    ports: dict[str, int]
    secret: str

    def begin_body(self, part: str, *headers: str) -> bytes:
        """A request that its service goes on reading."""
        if part == "proxy":
            return request("POST", routes.BATCHES, *headers)
        known = f"Authorization: Bearer {self.secret}"
        return request("POST", routes.WAITING.format(epoch=1), known, *headers)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with quick_folder() as folder:
        site = Site(folder)
        for part in ("server", "proxy"):
            site.change(
                part,
                ("header_seconds = 10.0", f"header_seconds = {HEADER}"),
                ("body_seconds = 30.0", f"body_seconds = {BODY}"),
                ("idle_seconds = 15.0", f"idle_seconds = {IDLE}"),
                ("connections = 4096", f"connections = {PLACES}"),
                ("connections_per_address = 64", f"connections_per_address = {OF_ADDRESS}"),
            )
        secret = (folder / "server" / "proxy.secret").read_text().strip()
        ports = {part: site.ports[part] for part in ("server", "proxy")}
        with launching(site) as launcher, sender(site) as people:
            for part in ports:
                launcher.start(part)
            wait_until(people.manifest, "the proxy to have a manifest")
            yield Both(site, ports, secret)
        assert "Traceback" not in site.logs()
        assert "127.0.0.1" not in site.logs().replace("http://127.0.0.1:", "")


@pytest.fixture(params=["server", "proxy"])
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


def test_an_endless_header_ends(both: Both, part: str) -> None:
    """Whoever sends on and on is told so and sent away; everybody else is served meanwhile."""
    with Line(both.ports[part]) as line, within(HEADER + SLACK):
        line.send(b"GET / HTTP/1.1\r\nHost: here\r\nCookie: ")
        while line.is_quiet() and line.send(b"a" * 65_536):
            assert asked(both.ports[part], GET_ONCE).status == 200
        while line.send(b"a" * 65_536):
            pass


@pytest.mark.parametrize(
    "header",
    [
        [f"X-{n}: y" for n in range(64)],
        ["Cookie: " + "a" * 16_384],
        ["Cookie: " + "a" * 16_000, "Accept: " + "b" * 500],
    ],
)
def test_a_header_that_is_too_large_is_answered(both: Both, part: str, header: list[str]) -> None:
    answer = asked(both.ports[part], request("GET", routes.MANIFEST, *header))
    assert answer.status == 431
    assert answer.problem()["title"] == "Request Header Fields Too Large"
    fits = [f"X-{n}: {'y' * 200}" for n in range(60)]
    answer = asked(both.ports[part], request("GET", routes.MANIFEST, *fits, "Connection: close"))
    assert answer.status == 200


def test_a_long_path_and_what_is_no_http_are_answered(both: Both, part: str) -> None:
    assert asked(both.ports[part], request("GET", "/" + "a" * 20_000)).status == 431
    assert asked(both.ports[part], b"\x16\x03\x01 TLS to a plain port\r\n\r\n").problem()


def test_a_slow_header_and_a_slow_body_are_answered(both: Both, part: str) -> None:
    """A byte now and then does not help."""
    begun = {
        b"GET / HTTP/1.1\r\nX: ": HEADER,
        both.begin_body(part, f"Content-Length: {batch_size(REPORTS)}"): BODY,
        both.begin_body(part, "Transfer-Encoding: chunked") + b"80\r\n": BODY,
    }
    for data, seconds in begun.items():
        with Line(both.ports[part]) as line, within(seconds + SLACK):
            line.send(data)
            while line.is_quiet() and line.send(b"1"):
                time.sleep(0.05)
            answer = Answer.of(line.read_all())
            assert answer.status == 408
            assert answer.problem()["title"] == "Request Timeout"


def test_silence_and_an_idle_connection_end_without_a_word(both: Both, part: str) -> None:
    with Line(both.ports[part]) as silent, Line(both.ports[part]) as kept, within(SLACK):
        kept.send(GET)
        assert kept.read_answer().status == 200
        kept.send(GET)
        assert kept.read_answer().status == 200
        assert kept.read_all() == silent.read_all() == b""


def test_silent_connections_lock_nobody_out(both: Both, part: str) -> None:
    """From many addresses; the first of them go."""
    with ExitStack() as lines:
        silent = [
            lines.enter_context(Line(both.ports[part], f"127.0.1.{n // 4 + 1}"))
            for n in range(3 * PLACES)
        ]
        with within(SLACK):
            assert asked(both.ports[part], GET_ONCE).status == 200
        wait_until(lambda: not silent[0].is_quiet(), "the first to be closed")


def test_one_address_has_so_many_connections(both: Both, part: str) -> None:
    """The newest of them: what says nothing makes room, for others there as well."""
    with ExitStack() as lines:
        silent = [lines.enter_context(Line(both.ports[part], OTHER)) for _ in range(2 * OF_ADDRESS)]
        assert asked(both.ports[part], GET_ONCE, OTHER).status == 200
        assert asked(both.ports[part], GET_ONCE).status == 200
        assert not any(line.is_quiet() for line in silent[: OF_ADDRESS + 1])


def turned_away(both: Both, part: str) -> dict[str, float]:
    """As the operator sees it; nobody's address is there."""
    once = request("GET", "/metrics", "Connection: close")
    text = asked(both.site.ports[f"watch {part}"], once).body.decode()
    assert "127.0" not in text
    name = f"sottovoce_{part}_connections_turned_away_total"
    return {
        sample.labels["reason"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_who_was_turned_away_is_counted(both: Both, part: str) -> None:
    before = turned_away(both, part)
    assert asked(both.ports[part], request("GET", "/" + "a" * 20_000)).status == 431
    with Line(both.ports[part]) as slow:
        slow.send(b"GET / HTTP/1.1\r\nX: ")
        assert Answer.of(slow.read_all()).status == 408
    with ExitStack() as lines:
        for _ in range(OF_ADDRESS + 3):
            lines.enter_context(Line(both.ports[part], OTHER))
        assert asked(both.ports[part], GET_ONCE).status == 200
    after = turned_away(both, part)
    grown = {reason: after[reason] - before[reason] for reason in after}
    assert grown.pop("displaced") in (1, 2, 3), "on a busy machine some have ended before"
    assert grown == {"full": 0, "late": 1, "unreadable": 1}


def test_one_request_at_a_time(both: Both, part: str) -> None:
    """Thousands that are sent at once would all be held in memory."""
    with Line(both.ports[part]) as line, within(SLACK):
        line.send(GET * 1000)
        said = line.read_all()
    assert said.count(b"HTTP/1.1 200 OK") == 1
    assert b"connection: close" in said


def test_bodies_of_unknown_length(both: Both) -> None:
    """Read up to the same number of bytes: a batch, however it is cut, and no byte more."""
    with sender(both.site) as people:
        signed = people.manifest()
        assert signed is not None
        batch = people.batch(signed)
    begin = request("POST", routes.BATCHES, "Transfer-Encoding: chunked", "Connection: close")
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (batch[:1], batch[1:7], batch[7:]))
    answer = asked(both.ports["proxy"], begin + pieces + b"0\r\nX-Trailer: 1\r\n\r\n")
    assert answer.status in (202, 409, 410), "the epoch may have gone on"
    assert asked(both.ports["proxy"], begin + pieces + b"1\r\nx\r\n0\r\n\r\n").status == 413


@pytest.mark.parametrize(
    "endless", [b"10000\r\n" + b"x" * 65_536 + b"\r\n", b"1;" + b"x" * 65_536, b"0\r\nX: "]
)
def test_an_endless_body_ends(both: Both, endless: bytes) -> None:
    """Data, the name of a piece, or what follows the last one."""
    with Line(both.ports["proxy"]) as line, within(BODY + SLACK):
        line.send(request("POST", routes.BATCHES, "Transfer-Encoding: chunked"))
        line.send(endless)
        while line.send(endless if b"\r\n" in endless[-2:] else b"x" * 65_536):
            pass
