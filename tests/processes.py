"""Helpers to run commands and processes: their output, free ports, and waiting."""

import os
import random
import re
import socket
import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import IO

import typer
from typer.testing import CliRunner

MAX_WAIT_SECONDS = 60.0


def make_caller(app: typer.Typer, *before: object) -> Callable[..., str]:
    """Return a function that runs a command in this process and returns what it printed."""

    def call(*arguments: object) -> str:
        runner = CliRunner(env={"COLUMNS": "200"})
        result = runner.invoke(app, [str(argument) for argument in (*before, *arguments)])
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return call


# Ports for each of pytest's processes, below those that systems give to outgoing connections.
PORTS_PER_WORKER = 2_000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_first = 11_000 + PORTS_PER_WORKER * _worker  # browsers refuse port 10080
_ports = cycle(random.sample(range(_first, _first + PORTS_PER_WORKER), PORTS_PER_WORKER))


def free_port() -> int:
    """Return a port that no other test takes before it is used."""
    for port in islice(_ports, PORTS_PER_WORKER):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("every port is taken")


def read_until(pattern: str, stream: IO[str]) -> re.Match[str]:
    """Read lines until the pattern matches; the match's `string` is all the text until then."""
    text = ""
    for line in stream:
        text += line
        if match := re.search(pattern, text):
            return match
    raise AssertionError(text)


def wait_until(done: Callable[[], object], what: str) -> None:
    """Look again and again until it is done."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.005)
