"""Files that are replaced in one step."""

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

WRITING_SCRIPT = """
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


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_failed_write_keeps_the_old_file_only(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_atomically(file, b"old")
    with pytest.raises(TypeError):
        write_atomically(file, "not bytes")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_private_file_is_readable_by_its_owner_only(
    tmp_path: Path, private: bool, mode: int
) -> None:
    file = tmp_path / "result.json"
    for _ in range(2):
        write_atomically(file, b"it", private=private)
        assert get_mode(file) == mode


@pytest.mark.skipif(os.name != "posix", reason="a folder can be synced only there")
def test_folder_is_synced_after_replacing_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the folder is synced once it contains the new file."""
    file, synced = tmp_path / "result.json", list[tuple[int, bool]]()

    def fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, file.exists()))

    monkeypatch.setattr("os.fsync", fsync)
    write_atomically(file, b"it")
    assert synced == [(file.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "result.json", tmp_path / "link.json"
    target.parent.mkdir()
    link.symlink_to(Path("elsewhere") / "result.json")
    for content in (b"the first, through a link to nothing", b"the second"):
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]


def test_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, b"it")
    reader.join(10)
    assert read == [b"it"]
    assert pipe.is_fifo()


def test_folders_and_sockets_are_refused(tmp_path: Path) -> None:
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
    command = [sys.executable, "-c", WRITING_SCRIPT, "/dev/stdout"]
    if redirected:
        with file.open("w") as out:
            subprocess.run(command, stdout=out, check=True)
        text = file.read_text()
    else:
        text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert text == "before\nwritten\nafter\n"


def test_failed_new_file_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_new(tmp_path / "new", b"half")
    assert list(tmp_path.iterdir()) == []
