"""Caps that need a program of its own: file descriptors, answers that nobody reads, the end."""

from __future__ import annotations

import re
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.processes import wait_until

if TYPE_CHECKING:
    from tests.service.program import Service

GET = b"GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is Linux's")


def said(connection: socket.socket) -> bytes:
    """All, until they close."""
    with connection, connection.makefile("rb") as stream:
        return stream.read()


def turned_away(service: Service) -> dict[str, int]:
    connection = service.connect(watch=True)
    connection.sendall(GET.replace(b"/hello", b"/metrics"))
    found = re.findall(r'turned_away_total\{reason="(\w+)"\} (\d+)', said(connection).decode())
    return {reason: int(count) for reason, count in found}


def few_descriptors() -> None:
    """In the child: as a system with tight limits starts it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 290))


@needs_proc
def test_file_descriptors_suffice_for_the_places(start: Callable[..., Service]) -> None:
    """The limit is raised, and there are fewer places than files: nobody is locked out."""
    service = start("0", "0", "connections_per_address=0", preexec_fn=few_descriptors)
    with ExitStack() as silent:
        for _ in range(300):
            silent.enter_context(service.connect())
        connection = service.connect()
        connection.sendall(GET)
        assert said(connection).startswith(b"HTTP/1.1 200 ")
    limits = Path(f"/proc/{service.process.pid}/limits").read_text()
    (files,) = [line.split()[3:5] for line in limits.splitlines() if "open files" in line]
    assert files == ["290", "290"]
    assert service.end()[0] == 0
    assert "Traceback" not in service.log


@needs_proc
def test_an_answer_that_nobody_reads_is_dropped_and_one_that_is_read_slowly_is_not(
    start: Callable[..., Service],
) -> None:
    service = start("0", "0", "idle_seconds=0.5")
    unread, slow = service.connect(), service.connect()
    for each in (unread, slow):
        each.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
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


def test_the_end_does_not_wait_for_whoever_has_sent_half_a_header(
    start: Callable[..., Service],
) -> None:
    service = start()
    with service.connect() as half:
        half.sendall(b"GET /hello HTTP/1.1\r\nX: ")
        began = time.monotonic()
        assert service.end()[0] == 0
        assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform == "win32", reason="half-closed connections")
def test_who_is_refused_can_read_it_while_they_still_send(start: Callable[..., Service]) -> None:
    service = start()
    connection = service.connect()
    connection.sendall(b"GET /hello HTTP/1.1\r\nX: " + b"x" * 2**20)
    assert said(connection).startswith(b"HTTP/1.1 431 ")


def test_who_is_turned_away_is_counted_by_reason(start: Callable[..., Service]) -> None:
    service = start("0", "0", "connections=8", "connections_per_address=0", "header_seconds=0.5")
    nobody = {"full": 0, "displaced": 0, "late": 0, "unreadable": 0}
    connection = service.connect()
    connection.sendall(GET)
    assert said(connection).startswith(b"HTTP/1.1 200 ")
    assert turned_away(service) == nobody
    with service.connect() as half, service.connect() as silent:
        half.sendall(b"GET /hello HTTP/1.1\r\nX: ")
        assert half.recv(100).startswith(b"HTTP/1.1 408 ")
        assert silent.recv(1) == b""
    assert turned_away(service) == nobody | {"late": 1}, "who says nothing is not late"
    for wrong in (b"no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 2**15 + b"\r\n\r\n"):
        connection = service.connect()
        connection.sendall(wrong)
        assert said(connection).startswith(b"HTTP/1.1 4")
    assert turned_away(service) == nobody | {"late": 1, "unreadable": 2}


def test_who_finds_no_place_and_who_must_leave_theirs_are_counted(
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
        for each in silent:
            with suppress(ConnectionError):
                assert each.recv(1) == b""
        late = lines.enter_context(service.connect())
        with suppress(ConnectionError):
            assert late.recv(1) == b""
        nobody = {"late": 0, "unreadable": 0}
        assert turned_away(service) == nobody | {"full": 1, "displaced": 8}
        process.stdin.write("go on\n" * 8)
        process.stdin.flush()
    assert service.end()[0] == 0
