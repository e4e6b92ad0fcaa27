"""Caps that need a program of its own: file descriptors, answers that nobody reads, the end."""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
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
