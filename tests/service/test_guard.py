"""Limits of one connection and of one address, with a real process and real sockets."""

import json
import re
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.processes import wait_until
from tests.service.program import Service

PLACES = 24
PLACES_OF_ADDRESS = 8

SLACK = 5.0
"""Seconds by which a busy machine may be late; slower than any cap of a real service is not."""


@pytest.fixture(scope="module")
def capped() -> Iterator[Service]:
    caps = {
        "header_seconds": 0.6, "body_seconds": 0.9, "idle_seconds": 0.5, "connections": PLACES,
        "connections_per_address": PLACES_OF_ADDRESS,
    }  # fmt: skip
    service = Service("0", "0", *(f"{name}={value}" for name, value in caps.items()))
    with closing(service):
        yield service
        assert service.end()[0] == 0
        assert "Traceback" not in service.log


@contextmanager
def expect_within(seconds: float) -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


def try_to_send(connection: socket.socket, data: bytes) -> bool:
    """Send data, and return whether this was possible."""
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def is_quiet(connection: socket.socket) -> bool:
    """Return whether the peer has neither sent anything unread nor closed the connection."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(20)
    return False


def request_status(service: Service, data: bytes, source: str = "127.0.0.1") -> int:
    """Return the status of one request on a connection of its own."""
    connection = service.connect(source)
    try_to_send(connection, data)
    head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    if status >= 400:
        assert json.loads(body)["status"] == status
    return status


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "\r\n"]).encode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/hello", *[f"X-{n}: y" for n in range(64)]), 431),
        (request("/hello", "Cookie: " + "a" * 16_384), 431),
        (request("/hello", "Cookie: " + "a" * 16_000, "Accept: " + "b" * 500), 431),
        (request("/hello", *[f"X-{n}: {'y' * 200}" for n in range(60)], "Connection: close"), 200),
        (request("/" + "a" * 20_000), 431),
        (b"\x16\x03\x01 TLS to a plain port\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (request("/hello", "host: there"), 400),
        (b"GET /hello HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_invalid_header_is_answered(capped: Service, data: bytes, status: int) -> None:
    assert request_status(capped, data) == status


POST = request("/body", "Transfer-Encoding: chunked", method="POST")


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\nCookie: ", b"a" * 65_536),
        (POST, b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
        (POST + b"1;", b"x" * 65_536),
        (POST + b"0\r\nX: ", b"x" * 65_536),
    ],
    ids=["a header", "data", "the name of a piece", "what follows the last one"],
)
def test_endless_request_is_ended(capped: Service, begin: bytes, piece: bytes) -> None:
    """Other people are served meanwhile."""
    end = time.monotonic() + 1 + SLACK
    with capped.connect() as line, expect_within(1 + SLACK):
        try_to_send(line, begin)
        while is_quiet(line) and try_to_send(line, piece):
            assert request_status(capped, GET) == 200
        while try_to_send(line, piece):
            assert time.monotonic() < end


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\nX: ",
        request("/body", "Content-Length: 160", method="POST"),
        POST + b"80\r\n",
    ],
)
def test_slow_header_and_slow_body_are_answered(capped: Service, begin: bytes) -> None:
    """They are answered although a byte comes now and then."""
    line, end = capped.connect(), time.monotonic() + 1 + SLACK
    with expect_within(1 + SLACK):
        try_to_send(line, begin)
        while is_quiet(line) and try_to_send(line, b"1"):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert read_to_end(line).startswith(b"HTTP/1.1 408 ")


def test_silent_and_idle_connections_are_closed(capped: Service) -> None:
    silent, idle = capped.connect(), capped.connect()
    with expect_within(SLACK):
        try_to_send(idle, request("/hello"))
        assert read_to_end(idle).startswith(b"HTTP/1.1 200 ")
        assert read_to_end(silent) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="needs all of 127.0.0.0/8")
@pytest.mark.parametrize("addresses", [1, 18])
def test_silent_connections_do_not_block_others(capped: Service, addresses: int) -> None:
    # The oldest connections are closed: those of an address at its limit, or of all addresses.
    with ExitStack() as lines:
        silent = [
            lines.enter_context(capped.connect(f"127.0.1.{n % addresses + 1}"))
            for n in range(3 * PLACES if addresses > 1 else 2 * PLACES_OF_ADDRESS)
        ]
        for source in ("127.0.0.1", "127.0.1.1"):
            with expect_within(SLACK):
                assert request_status(capped, GET, source) == 200
        wait_until(lambda: not is_quiet(silent[0]), "the first to be closed")


def test_connection_has_one_request_at_a_time(capped: Service) -> None:
    """Thousands of requests that are sent at once would all be held in memory."""
    line = capped.connect()
    with expect_within(SLACK):
        try_to_send(line, request("/hello") * 1000)
        answer = read_to_end(line)
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert b"connection: close" in answer


def test_body_of_unknown_length_is_limited(capped: Service) -> None:
    # The limit is the same number of bytes, however they are cut.
    begin = request("/body", "Transfer-Encoding: chunked", "Connection: close", method="POST")
    pieces = b"".join(b"%x\r\n%s\r\n" % (n, b"x" * n) for n in (1, 6, 153))
    assert request_status(capped, begin + pieces + b"0\r\nX-Trailer: 1\r\n\r\n") == 200
    assert request_status(capped, begin + pieces + b"1\r\nx\r\n0\r\n\r\n") == 413


GET = b"GET /hello HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is Linux's")


def read_to_end(connection: socket.socket) -> bytes:
    """Return all that the peer sends until it closes or breaks the connection."""
    data = b""
    with connection, suppress(ConnectionError):
        while piece := connection.recv(65_536):
            data += piece
    return data


def count_rejections(service: Service) -> dict[str, int]:
    connection = service.connect(watch=True)
    connection.sendall(GET.replace(b"/hello", b"/metrics"))
    counts = re.findall(
        r'turned_away_total\{reason="(\w+)"\} (\d+)', read_to_end(connection).decode()
    )
    return {reason: int(count) for reason, count in counts}


def reduce_descriptors() -> None:
    """Reduce the limit in the child process, as a system with tight limits starts it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 290))


@needs_proc
def test_file_descriptors_suffice_for_all_places(start: Callable[..., Service]) -> None:
    # The limit is raised, and there are fewer places than files, so that nobody is locked out.
    service = start("0", "0", "connections_per_address=0", preexec_fn=reduce_descriptors)
    with ExitStack() as silent:
        for _ in range(300):
            silent.enter_context(service.connect())
        connection = service.connect()
        connection.sendall(GET)
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")
    limits = Path(f"/proc/{service.process.pid}/limits").read_text()
    (files,) = [line.split()[3:5] for line in limits.splitlines() if "open files" in line]
    assert files == ["290", "290"]
    assert service.end()[0] == 0
    assert "Traceback" not in service.log


@needs_proc
def test_answer_is_dropped_only_if_nobody_reads_it(
    start: Callable[..., Service],
) -> None:
    service = start("0", "0", "idle_seconds=0.5")
    unread, slow = service.connect(), service.connect()
    for connection in (unread, slow):
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    descriptors = Path(f"/proc/{service.process.pid}/fd")
    got, began = len(slow.recv(1)) * len(unread.recv(1)), time.monotonic()
    before = sum(1 for _ in descriptors.iterdir())
    while piece := slow.recv(2**20):
        got += len(piece)
        if time.monotonic() < began + 2.0:
            time.sleep(0.1)
    assert got > 2**25
    wait_until(lambda: sum(1 for _ in descriptors.iterdir()) <= before - 2, "both to be gone")
    unread.close()
    slow.close()
    assert service.end()[0] == 0


def test_rejections_are_counted_by_reason(start: Callable[..., Service]) -> None:
    service = start("0", "0", "connections=8", "connections_per_address=0", "header_seconds=0.5")
    nobody = {"full": 0, "displaced": 0, "late": 0, "unreadable": 0}
    connection = service.connect()
    connection.sendall(GET)
    assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")
    assert count_rejections(service) == nobody
    with service.connect() as half, service.connect() as silent:
        half.sendall(b"GET /hello HTTP/1.1\r\nX: ")
        assert half.recv(100).startswith(b"HTTP/1.1 408 ")
        assert silent.recv(1) == b""
    assert count_rejections(service) == nobody | {"late": 1}, "who says nothing is not late"
    for wrong in (b"no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 2**15 + b"\r\n\r\n"):
        connection = service.connect()
        connection.sendall(wrong)
        assert read_to_end(connection).startswith(b"HTTP/1.1 4")
    assert count_rejections(service) == nobody | {"late": 1, "unreadable": 2}


def test_connections_without_a_place_are_counted(
    start: Callable[..., Service],
) -> None:
    service = start("0", "0", "connections=8", "connections_per_address=0")
    process = service.process
    assert process.stdout is not None
    assert process.stdin is not None
    with ExitStack() as lines:
        silent = [lines.enter_context(service.connect()) for _ in range(8)]
        for n in range(8):
            lines.enter_context(service.connect()).sendall(GET.replace(b"/hello", b"/slow"))
            assert process.stdout.readline() == "begun\n", n
        for connection in silent:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
        late = lines.enter_context(service.connect())
        with suppress(ConnectionError):
            assert late.recv(1) == b""
        nobody = {"late": 0, "unreadable": 0}
        assert count_rejections(service) == nobody | {"full": 1, "displaced": 8}
        process.stdin.write("go on\n" * 8)
        process.stdin.flush()
    assert service.end()[0] == 0
