"""A real Firefox, driven by the protocol that it speaks itself (Marionette): JSON on a socket.

Playwright drives a Firefox of its own only, which is not the one that people have.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes import wait_until

NAMES = ("firefox-esr", "firefox")
"""SOTTOVOCE_FIREFOX chooses."""
PORT = "MarionetteActivePort"
"""The file of a profile in which Firefox says where it listens."""
PREFERENCES = (
    'user_pref("marionette.port", 0);\nuser_pref("app.update.disabledForTesting", true);\n'
)
SECONDS = 60.0


def find() -> str | None:
    """Where it is: where the environment says, or on the path."""
    names = (os.environ.get("SOTTOVOCE_FIREFOX", ""), *NAMES)
    return next((path for path in map(shutil.which, names) if path), None)


class Firefox:
    """One window. `run` runs the body of a function in the page."""

    def __init__(self, connection: socket.socket):
        self._socket = connection
        self._answers = connection.makefile("rb")
        self._count = 0
        self._read()  # which says who it is
        self._command("WebDriver:NewSession", capabilities={})

    def _read(self) -> Any:
        length = b""
        while (byte := self._answers.read(1)) != b":":
            assert byte, "Firefox hung up"
            length += byte
        return json.loads(self._answers.read(int(length)))

    def _command(self, name: str, **parameters: Any) -> Any:
        self._count += 1
        message = json.dumps([0, self._count, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, f"{name}: {error}"
        return result.get("value") if isinstance(result, dict) else result

    def open(self, url: str) -> None:
        self._command("WebDriver:Navigate", url=url)

    def resize(self, width: int, height: int) -> None:
        """The window with its edges."""
        self._command("WebDriver:SetWindowRect", width=width, height=height)

    def run(self, script: str, *arguments: Any) -> Any:
        return self._command("WebDriver:ExecuteScript", script=script, args=list(arguments))

    def run_async(self, script: str) -> Any:
        """The last argument of the script is to be called with what it comes to."""
        return self._command("WebDriver:ExecuteAsyncScript", script=script, args=[])

    def click(self, selector: str) -> None:
        self._command("WebDriver:ElementClick", id=self._element(selector))

    def type(self, selector: str, text: str) -> None:
        self._command("WebDriver:ElementSendKeys", id=self._element(selector), text=text)

    def _element(self, selector: str) -> str:
        found = self._command("WebDriver:FindElement", using="css selector", value=selector)
        (element,) = found.values()
        return str(element)

    def text(self, selector: str) -> str:
        """Empty where there is nothing."""
        found = self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        return str(found)

    def says(self, selector: str, words: str) -> None:
        """These words are to be read there, sooner or later."""
        wait_until(lambda: words in self.text(selector), f"{words!r} in {selector}")

    def quit(self) -> None:
        self._command("Marionette:Quit", flags=["eForceQuit"])


@contextmanager
def started(profile: Path) -> Iterator[Firefox]:
    """With a profile of its own, without a window on any screen."""
    path = find()
    assert path is not None
    (profile / "user.js").write_text(PREFERENCES)
    options = ("--headless", "--marionette", "--no-remote", "--profile", str(profile))
    process = subprocess.Popen(
        [path, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until((profile / PORT).exists, "Firefox to listen")
        port = int((profile / PORT).read_text())
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            firefox = Firefox(connection)
            yield firefox
            firefox.quit()
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
