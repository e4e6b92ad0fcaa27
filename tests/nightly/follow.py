"""A reader who follows a page: runs every block of code, in order, in a new folder."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import free_port, read_until

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE_BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)
SHELL_PRELUDE = f"""\
python3() {{ "{sys.executable}" "$@"; }}
sottovoce() {{
  code=0
  "{sys.executable}" -m sottovoce "$@" || code=$?
  if [ "${{2-}}" = status ] && [ $code = 1 ]; then return 0; fi  # says that something waits
  return $code
}}
set -eu
"""
GUIDE_PORTS = ("8080", "8081", "8090", "8091", "8000")


class Follower:
    """Runs one block after the other, with free ports and short epochs."""

    def __init__(self, page: str, folder: Path):
        self._blocks: list[tuple[str, str]] = CODE_BLOCK.findall(
            (DOCS / page).read_text(encoding="utf-8")
        )
        self._folder = folder
        self._put = {port: str(free_port()) for port in GUIDE_PORTS}
        self._put["--epoch-seconds 20"] = "--epoch-seconds 1"
        self._running: list[subprocess.Popen[str]] = []
        self._names: dict[str, object] = {}

    def know(self, **values: str) -> None:
        """Set the values of words that a person is asked to replace."""
        self._put |= values

    def port(self, shown: str) -> str:
        return self._put[shown]

    def install(self) -> None:
        """Run the first block, which installs everything; the tests run in what it makes."""
        assert self._take_block("sh").startswith("pip install '.[all]'")

    def next(self, without: str = "") -> str:
        """Run the next block, except lines with this beginning; return what it printed."""
        code = self._take_block("sh")
        lines = [line for line in code.splitlines() if not without or not line.startswith(without)]
        done = subprocess.run(
            self._bash("\n".join(lines)),
            cwd=self._folder,
            capture_output=True,
            text=True,
            input="y\n" * 9,  # to all questions
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def next_python(self) -> dict[str, object]:
        """Run the next block in the session of the ones before; return the names of the session."""
        exec(compile(self._take_block("python"), "page", "exec"), self._names)
        return self._names

    def start(self, until: str = "only for its operator") -> str:
        """Start the next block, which goes on; return its output up to this text."""
        process = subprocess.Popen(
            self._bash(self._take_block("sh")),
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._running.append(process)
        assert process.stdout is not None
        return read_until(until, process.stdout).string

    def stop(self, which: int) -> None:
        """Stop it as Ctrl-C does."""
        process = self._running[which]
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=60)
        assert process.stdout is not None
        process.stdout.close()

    def end(self) -> None:
        for which, process in enumerate(self._running):
            if process.poll() is None:
                self.stop(which)
            elif process.stdout is not None:
                process.stdout.close()

    @property
    def left(self) -> int:
        return len(self._blocks)

    def _bash(self, code: str) -> list[str]:
        return ["bash", "-c", SHELL_PRELUDE + code]

    def _take_block(self, language: str) -> str:
        block, code = self._blocks.pop(0)
        assert block == language, code
        for shown, value in self._put.items():
            code = re.sub(rf"(?<!\w){re.escape(shown)}(?!\w)", value, code)
        return code


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[[str], Follower]]:
    """Return a function that follows a page; nothing is left running at the end."""
    followers = []

    def begin(page: str) -> Follower:
        followers.append(Follower(page, tmp_path))
        return followers[-1]

    yield begin
    for follower in followers:
        follower.end()
