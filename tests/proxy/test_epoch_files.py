"""The files of an epoch: how large they are, and when they are deleted."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from sottovoce.errors import LostError, StoreError
from sottovoce.protocol import SEALED_BYTES
from sottovoce.proxy.epoch_files import (
    RESERVATION_STEP_BYTES,
    SPARE_BYTES,
    BatchFile,
    EpochFiles,
    ReportFile,
    estimate_disk_bytes,
)
from tests.proxy.world import People, signed


@pytest.mark.parametrize(("reports", "n_batches"), [(1, 60_000), (5, 20_000), (100, 2_000)])
def test_files_of_an_epoch_have_the_estimated_size(
    tmp_path: Path, reports: int, n_batches: int
) -> None:
    """Stored and shuffled batches; `-s` prints the ratios of docs/operators.md."""
    file, people = BatchFile(tmp_path / "batches"), People()
    of = signed(reports=reports)
    for start in range(0, n_batches, 512):
        with file.transaction() as tables:
            for batch in people.batches(of, min(512, n_batches - start)):
                tables.add_batch(batch)
    file._database.empty_log()
    sealed = n_batches * reports * SEALED_BYTES
    actual = file.path.stat().st_size + sealed
    file.close()
    print(f"{reports} reports in a batch: {actual / sealed:.2f} times the sealed reports")
    assert actual <= estimate_disk_bytes(n_batches, reports) <= 1.5 * actual


def test_reserved_room_is_released_when_the_reports_are_written(
    tmp_path: Path,
) -> None:
    file = ReportFile(tmp_path / "reports")
    file.reserve(1)
    assert file.path.stat().st_size == RESERVATION_STEP_BYTES
    assert file.path.stat().st_blocks * 512 >= RESERVATION_STEP_BYTES
    file.write([b"one", b"", b"two"])
    assert file.path.read_bytes() == b"onetwo"
    assert file.read(2, 3) == b"etw"
    with pytest.raises(LostError):
        file.read(4, 3)
    file.close()


def test_refused_reservation_releases_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate ext4, which keeps the room that it reserved before the disk was full."""
    file = ReportFile(tmp_path / "reports")
    file.reserve(1)

    def take_some(handle: int, _: int, size: int) -> None:
        os.truncate(handle, size // 2)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", take_some)
    for _ in range(2):
        with pytest.raises(StoreError):
            file.reserve(8 * RESERVATION_STEP_BYTES)
        assert file.path.stat().st_size == RESERVATION_STEP_BYTES
    monkeypatch.undo()
    monkeypatch.setattr(file, "_count_free_bytes", lambda: SPARE_BYTES + RESERVATION_STEP_BYTES)
    with pytest.raises(StoreError):
        file.reserve(3 * RESERVATION_STEP_BYTES)
    file.reserve(2 * RESERVATION_STEP_BYTES)
    file.close()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.EIO])
def test_file_system_without_reservations_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = ReportFile(tmp_path / "reports")
    with pytest.raises(StoreError) if number == errno.EIO else nullcontext():
        file.reserve(1)
    file.close()


def test_files_of_epochs_that_are_over_are_deleted(tmp_path: Path) -> None:
    files = EpochFiles(tmp_path)
    assert not files.begin(1)
    files.begin(2)
    assert files.begin(2)
    later = tmp_path / "epoch-3-batches.sqlite3"
    later.touch()
    (tmp_path / "proxy.sqlite3").touch()
    files.delete_others(2, [1], newest=2)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"proxy.sqlite3", "epoch-1-shuffled.bin", "epoch-2-shuffled.bin"} < names
    assert "epoch-1-batches.sqlite3" not in names
    files.delete_others(None, [], newest=2)
    assert {path.name for path in tmp_path.iterdir()} == {"proxy.sqlite3", later.name}
    files.close()
