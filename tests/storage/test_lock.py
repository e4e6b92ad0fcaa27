"""One process at a time, and never longer than it lives."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from sottovoce.errors import StoreError
from sottovoce.storage import exclusive_lock

HOLDER = """
import sys
from pathlib import Path
from sottovoce.storage import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    sys.stdin.read()
"""


READ_ONLY = """
import os, sys
from pathlib import Path
from sottovoce.errors import StoreError
from sottovoce.storage import exclusive_lock
if os.geteuid() == 0:
    os.setuid(65534)  # to root every file is writable
try:
    with exclusive_lock(Path(sys.argv[1]), "taken"):
        print("held")
except StoreError as error:
    print(error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


def is_free(path: Path) -> bool:
    try:
        with exclusive_lock(path, "somebody is here"):
            return True
    except StoreError as error:
        return str(error) != f"{path.parent}: somebody is here"


def test_it_is_held_for_the_block(path: Path) -> None:
    with exclusive_lock(path, "taken"):
        assert not is_free(path)
        assert not is_free(path)  # having asked lets nothing go
    assert is_free(path)
    with pytest.raises(ZeroDivisionError), exclusive_lock(path, "taken"):
        raise ZeroDivisionError
    assert is_free(path)


@pytest.mark.skipif(sys.platform == "win32", reason="kills processes as POSIX does")
def test_it_dies_with_its_process(path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert not is_free(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=30)
    assert is_free(path)


def test_it_can_be_waited_for(path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive_lock(path, "taken"):
            held.set()
            done.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with exclusive_lock(path, "taken", wait=30):
        thread.join()


def test_its_file_is_its_owners_alone_and_what_is_no_lock_is_named(path: Path) -> None:
    assert is_free(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"not a database at all" * 500)
    with (
        pytest.raises(StoreError, match=r"a\.lock: .* not a database"),
        exclusive_lock(path, "taken"),
    ):
        pytest.fail("it is not held")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions as POSIX has them")
def test_a_file_that_cannot_be_written_is_no_lock() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.lock"
        path.touch()
        for each, mode in ((path, 0o444), (Path(name), 0o755)):
            each.chmod(mode)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=True
        )
    assert "readonly" in done.stdout
    assert "held" not in done.stdout
