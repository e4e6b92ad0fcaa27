"""Services as child processes: started, watched, their words passed on, and ended together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO, TYPE_CHECKING

import httpx

from sottovoce.errors import UnavailableError
from sottovoce.service.watch import READY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

READY_SECONDS = 60.0
STOP_SECONDS = 40.0
"""Services give requests under way thirty seconds."""
_LOOK_SECONDS = 0.1
_LAST_LINES = 20
_LOWER = 5
"""Steps of niceness below everybody else."""


class Child:
    """One `sottovoce ...` process. Its output goes to our stderr, each line under its name.

    A quiet one's goes nowhere, but for the last lines if it ends by itself.
    """

    def __init__(self, name: str, arguments: Sequence[str], *, quiet: bool = False):
        self.name = name
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        # A group of its own: Ctrl-C in a terminal is for us, and we tell it to stop.
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "sottovoce", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        assert self.process.stdout is not None
        self._reader = threading.Thread(
            target=self._forward,
            args=(self.process.stdout, self._last_lines.append if quiet else _write_line),
            daemon=True,
        )
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self, url: str, stopping: Callable[[], bool]) -> None:
        """Until `/readyz` says yes, where it is watched; an error if it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while not stopping() and not is_ready(url):
            self.check()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the {self.name} is not ready after {READY_SECONDS:g} seconds: {url}{READY}"
                )
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """An error if it has ended by itself."""
        if not self.is_running:
            self._reader.join(1.0)
            for line in self._last_lines:
                _write_line(line)
            raise UnavailableError(
                f"the {self.name} ended by itself with code {self.process.returncode}; what it "
                "said last is above. Everything else was stopped"
            )

    def lower_priority(self) -> None:
        """Give way to other programs: somebody is working at this machine."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, _LOWER)

    def terminate(self) -> None:
        if self.is_running:
            self.process.terminate()

    def stop(self) -> None:
        """Ask the process to end, and wait; one that does not end is killed."""
        self.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(1.0)

    def _forward(self, stream: IO[str], write: Callable[[str], None]) -> None:
        for line in stream:
            write(f"{self.name} | {line}")
        stream.close()


@contextlib.contextmanager
def running(name: str, arguments: Sequence[str], *, quiet: bool = False) -> Iterator[Child]:
    child = Child(name, arguments, quiet=quiet)
    try:
        yield child
    finally:
        child.stop()


def watch(children: Sequence[Child], stopping: Callable[[], bool]) -> None:
    """Returns when told to stop; an error as soon as one of them ends by itself."""
    while not stopping():
        for child in children:
            child.check()
        time.sleep(_LOOK_SECONDS)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}{READY}", timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
