from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.atomic import write_atomically


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_atomically(file, b"old")
    with pytest.raises(TypeError):
        write_atomically(file, "not bytes")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
