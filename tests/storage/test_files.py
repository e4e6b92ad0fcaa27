"""Files that are whole or not there."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from sottovoce.storage.files import write_atomically, write_new

WRITES = """
import sys
from pathlib import Path
from sottovoce.storage.files import write_atomically

print("before")
write_atomically(Path(sys.argv[1]), b"written\\n")
print("after")
"""


@pytest.fixture
def _umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_atomically(file, b"old")
    with pytest.raises(TypeError):
        write_atomically(file, "not bytes")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_only_private_files_are_for_their_owner_alone(
    tmp_path: Path, private: bool, mode: int
) -> None:
    file = tmp_path / "result.json"
    for _ in range(2):
        write_atomically(file, b"it", private=private)
        assert mode_of(file) == mode


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "result.json", tmp_path / "link.json"
    target.parent.mkdir()
    link.symlink_to(Path("elsewhere") / "result.json")
    for content in (b"the first, through a link to nothing", b"the second"):
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, b"it")
    reader.join(10)
    assert read == [b"it"]
    assert pipe.is_fifo()


def test_folders_and_sockets_are_refused_and_stay(tmp_path: Path) -> None:
    folder, place = tmp_path / "folder", tmp_path / "socket"
    folder.mkdir()
    with pytest.raises(FileExistsError):
        write_atomically(folder, b"it")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(place))
        with pytest.raises(FileExistsError):
            write_atomically(place, b"it")
    assert place.is_socket()
    assert sorted(tmp_path.iterdir()) == [folder, place]


@pytest.mark.parametrize("redirected", [False, True])
def test_standard_output_keeps_its_order(tmp_path: Path, redirected: bool) -> None:
    file = tmp_path / "out.txt"
    command = [sys.executable, "-c", WRITES, "/dev/stdout"]
    if redirected:
        with file.open("w") as out:
            subprocess.run(command, stdout=out, check=True)
        said = file.read_text()
    else:
        said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert said == "before\nwritten\nafter\n"


def test_a_new_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_new(tmp_path / "new", b"half")
    assert list(tmp_path.iterdir()) == []
