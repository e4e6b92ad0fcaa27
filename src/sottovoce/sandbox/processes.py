"""Start, watch and stop the processes of a system on one machine."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import httpx

from sottovoce.errors import SettingsError, UnavailableError, get_reason
from sottovoce.sandbox.setup import LiveSystem, get_proxy_config, get_server_config
from sottovoce.service.watch import READY_PATH

# Seconds after which a service that is not ready counts as failed.
READY_SECONDS = 60.0
# Seconds after SIGTERM when a process that still runs is killed. Services use up to 30 of them to
# finish requests.
STOP_SECONDS = 40.0
# Seconds between two checks of a process.
CHECK_SECONDS = 0.3
# Module of the toy shop, which is run as a program.
SHOP_MODULE = "sottovoce.sandbox.shop"
# Last lines of a quiet process that are printed if it exits unexpectedly.
MAX_LAST_LINES = 20


class Child:
    """A process that runs a module of this package.

    Its output is written to our stderr, with its name before each line. A quiet process writes only
    its last lines, and only if it exits unexpectedly.

    Args:
        name: Name of the process in messages.
        arguments: Arguments of the module.
        module: The module to run.
        quiet: Whether the process is quiet.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        module: str = "sottovoce",
        quiet: bool = False,
    ):
        self.name = name
        self._last_lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Ctrl-C in a terminal must reach only us: we stop the process ourselves.
            process_group=0,
        )
        assert self.process.stdout is not None
        self._reader = threading.Thread(
            target=self._forward,
            args=(self.process.stdout, self._last_lines.append if quiet else _write_line),
            daemon=True,
        )
        self._reader.start()

    def wait_until_ready(self, url: str, should_stop: Callable[[], bool]) -> None:
        """Wait until this address answers 200, or `should_stop` returns True.

        Raises:
            UnavailableError: The process has exited or takes too long.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not should_stop() and not is_ready(url):
            self.check()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the {self.name} is not ready after {READY_SECONDS:g} seconds: {url}"
                )
            time.sleep(CHECK_SECONDS)

    def check(self) -> None:
        """Raise an `UnavailableError` if the process has exited unexpectedly."""
        if self.process.poll() is not None:
            self._reader.join(1.0)
            for line in self._last_lines:
                _write_line(line)
            raise UnavailableError(
                f"the {self.name} exited unexpectedly with code {self.process.returncode}; its "
                "last output is above. Everything else was stopped"
            )

    def stop(self) -> None:
        """Ask the process to end and wait until it has."""
        self.process.terminate()
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


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def is_ready(url: str) -> bool:
    """Return whether this address answers 200."""
    try:
        return httpx.get(url, timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


class StopSignal:
    """A callable that returns whether Ctrl-C or SIGTERM was received since its creation."""

    def __init__(self) -> None:
        self._received = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def __call__(self) -> bool:
        return self._received

    def _on_signal(self, *_: object) -> None:
        self._received = True


@contextmanager
def run_system(
    folder: Path, system: LiveSystem, should_stop: Callable[[], bool], *, quiet: bool = False
) -> Iterator[list[Child]]:
    """Run the server, the proxy and, if there is one, the toy shop during the block.

    The block begins when all of them are ready, or when `should_stop` returns True.
    """
    server = ["server", "run", "--config", str(get_server_config(folder))]
    proxy = ["proxy", "run", "--config", str(get_proxy_config(folder))]
    programs = [
        ("server", "sottovoce", server, system.server_watch + READY_PATH),
        ("proxy", "sottovoce", proxy, system.proxy_watch + READY_PATH),
    ]
    if system.shop:
        port = str(urlsplit(system.shop).port)
        shop = [str(folder / "server"), port, system.proxy, *system.origins]
        programs.append(("shop", SHOP_MODULE, shop, system.shop))
    with ExitStack() as stack:
        children = []
        # One after the other, and stopped in the reverse order: a proxy that cannot reach its
        # server logs a warning.
        for name, module, arguments, address in programs:
            if should_stop():
                break
            children.append(Child(name, arguments, module=module, quiet=quiet))
            stack.callback(children[-1].stop)
            children[-1].wait_until_ready(address, should_stop)
        yield children


def watch_children(children: Sequence[Child], should_stop: Callable[[], bool]) -> None:
    """Wait until `should_stop` returns True.

    Raises:
        UnavailableError: A process has exited before.
    """
    while not should_stop():
        for child in children:
            child.check()
        time.sleep(CHECK_SECONDS)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make a temporary folder that is deleted after the block; its name contains `name`."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"sottovoce-{name}-")
    except OSError as error:
        raise SettingsError(f"no temporary folder can be made: {get_reason(error)}") from error
    with folder as path:
        yield Path(path)
