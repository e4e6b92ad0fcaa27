"""The page in a real Firefox: films, recommendations, and a batch that the server can open.

The test speaks Firefox's own protocol (Marionette): JSON on a socket. Playwright can only drive its
own build of Firefox, which people do not have.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lacking import leave_out
from tests.processes import wait_until
from tests.web.system import System, running
from tests.web.visitor_scripts import IN_VIEW

TOY_STORY = "1"
FARGO = "608"
PROGRAM_NAMES = (os.environ.get("SOTTOVOCE_FIREFOX", ""), "firefox-esr", "firefox")
# The file of a profile in which Firefox writes its port.
PORT_FILE = "MarionetteActivePort"
PROFILE_PREFERENCES = (
    'user_pref("marionette.port", 0);\nuser_pref("app.update.disabledForTesting", true);\n'
)
FIREFOX_OPTIONS = ("--headless", "--marionette", "--no-remote", "--profile")
NULL = subprocess.DEVNULL
MAX_WAIT_SECONDS = 60.0
TYPE_SCRIPT = """
const search = document.querySelector("#search");
search.value = arguments[0];
search.dispatchEvent(new Event("input"));
"""
IDS_SCRIPT = "return [...document.querySelectorAll(arguments[0])].map((each) => each.dataset.id)"
FITS_SCRIPT = """
const { scrollWidth, clientWidth } = document.documentElement;
return scrollWidth <= clientWidth;
"""


class Firefox:
    """A window. `run` runs the body of a function in the page."""

    def __init__(self, connection: socket.socket):
        self._socket = connection
        self._answers = connection.makefile("rb")
        self._count = 0
        self._read()  # its greeting
        self.command("WebDriver:NewSession", capabilities={})

    def _read(self) -> Any:
        length = b""
        while (byte := self._answers.read(1)) != b":":
            assert byte, "Firefox hung up"
            length += byte
        return json.loads(self._answers.read(int(length)))

    def command(self, name: str, **parameters: Any) -> Any:
        self._count += 1
        message = json.dumps([0, self._count, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        assert error is None, f"{name}: {error}"
        return result.get("value") if isinstance(result, dict) else result

    def run(self, script: str, *arguments: Any) -> Any:
        return self.command("WebDriver:ExecuteScript", script=script, args=list(arguments))

    def click(self, selector: str) -> None:
        """Click as soon as it is there: a dialog waits for a worker."""
        script = "const it = document.querySelector(arguments[0]); it?.click(); return it !== null"
        wait_until(lambda: self.run(script, selector), selector)

    def expect_text(self, selector: str, words: str) -> None:
        """Wait until these words are there."""
        script = "return document.querySelector(arguments[0])?.textContent ?? ''"
        wait_until(lambda: words in self.run(script, selector), f"{words!r} in {selector}")

    def choose(self, title: str, count: int) -> None:
        self.run(TYPE_SCRIPT, title)
        self.expect_text("#search-results", "19")
        self.click("#search-results [role=option]")
        wait_until(lambda: len(self.run(IDS_SCRIPT, "#films > li")) == count, title)


@pytest.fixture(scope="module")
def program() -> str:
    path = next((path for path in map(shutil.which, PROGRAM_NAMES) if path), None)
    if path is None:
        leave_out(
            "the page in Firefox (apt-get install firefox-esr, or name one: SOTTOVOCE_FIREFOX)"
        )
    return path


@pytest.fixture(scope="module")
def whole_system(program: str, folder: Path) -> Iterator[System]:
    with running(folder) as system:
        yield system


@pytest.fixture
def firefox(program: str, tmp_path: Path) -> Iterator[Firefox]:
    """Start Firefox with its own profile and without a window."""
    (tmp_path / "user.js").write_text(PROFILE_PREFERENCES)
    process = subprocess.Popen([program, *FIREFOX_OPTIONS, str(tmp_path)], stdout=NULL, stderr=NULL)
    try:
        wait_until((tmp_path / PORT_FILE).exists, "Firefox to listen")
        port = int((tmp_path / PORT_FILE).read_text())
        with socket.create_connection(("127.0.0.1", port), timeout=MAX_WAIT_SECONDS) as connection:
            firefox = Firefox(connection)
            yield firefox
            firefox.command("Marionette:Quit", flags=["eForceQuit"])
        process.wait(MAX_WAIT_SECONDS)
    finally:
        process.kill()
        process.wait()


def test_a_visit_in_firefox(firefox: Firefox, system: System) -> None:
    firefox.command("WebDriver:SetWindowRect", width=500, height=640)  # the narrowest
    firefox.command("WebDriver:Navigate", url=system.url)
    epoch = system.signed().manifest.epoch
    firefox.expect_text("#epoch", str(epoch))
    firefox.choose("toy story", 1)
    firefox.choose("fargo", 2)
    wanted = [item.id for item in system.recommended([TOY_STORY, FARGO], ordered=False)]
    wait_until(
        lambda: firefox.run(IDS_SCRIPT, "#recommendations > li") == wanted, "what Python recommends"
    )
    firefox.expect_text("#learning", "How good the model is")
    firefox.click("#take-part")
    firefox.click("#terms-dialog .explained summary")
    assert firefox.run(f"return ({IN_VIEW})(arguments[0])", "terms-dialog") == [True] * 3
    firefox.click("#terms-dialog-yes")
    firefox.expect_text("#report-state", f"Epoch {epoch}: your 20 reports left")
    (batch,) = system.front.batches()
    assert len(system.opened(batch)) == 20
    assert firefox.run(FITS_SCRIPT)
