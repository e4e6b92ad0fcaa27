"""What is checked with Node: the unit tests of `web/`, and the built page.

In one file, because all of it works in `web/`.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lacking import leave_out

WEB = Path(__file__).parents[2] / "web"
SECONDS = 600


@pytest.fixture(autouse=True)
def node() -> None:
    """Left out where there is none."""
    if shutil.which("npm") is None or not (WEB / "node_modules").exists():
        leave_out("web/ by its own tests, and whether the page is built from it (needs Node)")


def run(*command: str) -> str:
    """Return its output if it succeeds."""
    done = subprocess.run(
        command,
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    failed = re.findall(r"^not ok .*(?:\n  .*)*", done.stdout, re.MULTILINE)
    output = done.stdout + done.stderr
    assert done.returncode == 0, "\n".join(failed)[:8000] or output[-8000:]
    return done.stdout


def test_page_in_the_package_is_the_one_that_web_builds() -> None:
    run("node", "build.mjs", "--check")


def test_the_unit_tests_of_web_pass() -> None:
    run("npm", "test")
