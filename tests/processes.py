"""Commands and processes as people start them: ports, what they say, and waiting for it."""

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

PATIENCE = 60.0


def calling(app: typer.Typer, *before: object) -> Callable[..., str]:
    """Runs a command in this process: what it printed; its error comes through."""

    def call(*arguments: object) -> str:
        runner = CliRunner(env={"COLUMNS": "200"})
        result = runner.invoke(app, [str(each) for each in (*before, *arguments)])
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return call


PORTS = 2_000
"""For each of pytest's processes, below those that systems give to outgoing connections."""
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_first = 11_000 + PORTS * _worker  # browsers do not go to 10080
_ports = cycle(random.sample(range(_first, _first + PORTS), PORTS))


def free_port() -> int:
    """One that nobody else takes before it is used, be it minutes later."""
    for port in islice(_ports, PORTS):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("every port is taken")


def read_until(pattern: str, stream: IO[str]) -> re.Match[str]:
    """What was found; its `string` is all that was said until then."""
    seen = ""
    for line in stream:
        seen += line
        if found := re.search(pattern, seen):
            return found
    raise AssertionError(seen)


def wait_until(done: Callable[[], object], what: str) -> None:
    """Real processes take real time; nothing tells when one is done but to look."""
    give_up = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < give_up, f"waited too long for {what}"
        time.sleep(0.005)
