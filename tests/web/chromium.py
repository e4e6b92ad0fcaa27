"""A real Chromium, and a trap for everything that it asks of anybody but this machine."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, BrowserType

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without windows: a quarter faster. SOTTOVOCE_CHROMIUM chooses."""
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-domain-reliability",
)

CHATTER = ("CONNECT content-autofill.googleapis.com:443",)
"""Chromium's own question about every page with a field; it says nothing of what is typed."""


def find() -> str | None:
    """Return its path: the one that the environment names, or one on the path."""
    names = (os.environ.get("SOTTOVOCE_CHROMIUM", ""), *NAMES)
    return next((path for path in map(shutil.which, names) if path), None)


def missing() -> str | None:
    """Return what a test in a browser lacks here, or None."""
    try:
        import playwright.sync_api  # noqa: F401 - whether it is there is the question
    except ImportError:
        return "playwright is not installed: pip install playwright (no browser is downloaded)"
    return (
        None if find() else "no Chromium: apt-get install chromium, or name one: SOTTOVOCE_CHROMIUM"
    )


class Trap:
    """An HTTP proxy that serves nobody. This machine's own addresses are never asked through it."""

    def __init__(self, listening: socket.socket):
        self._listening = listening
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.caught: list[str] = []
        self.thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    line = connection.recv(4096).split(b"\r\n")[0]
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    line = b"a connection without a word"
                self._note(line.decode("latin-1"))

    def _note(self, line: str) -> None:
        if not line.startswith(CHATTER):
            self.caught.append(line)


@contextmanager
def trap() -> Iterator[Trap]:
    """Set for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        trap = Trap(listening)
        trap.thread.start()
        yield trap
        listening.shutdown(socket.SHUT_RDWR)
    trap.thread.join(5)


def launch(kind: BrowserType) -> Browser:
    """Start a browser without a profile."""
    return kind.launch(**_options())


def fresh_profile(browser: Browser, through: Trap, **options: Any) -> BrowserContext:
    """Send only what pages request to the trap: a browser has requests of its own."""
    return browser.new_context(proxy={"server": through.address, "bypass": "127.0.0.1"}, **options)


def launch_with_profile(kind: BrowserType, folder: str) -> BrowserContext:
    """Start a browser that stores its data in a folder."""
    return kind.launch_persistent_context(folder, **_options())


def _options() -> dict[str, Any]:
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    return {"executable_path": find(), "args": [*QUIET, *root], "timeout": 120_000}
