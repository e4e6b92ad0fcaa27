"""The cache of compiled loops: numba does not notice that a kernel changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.cpu import cache

if TYPE_CHECKING:
    import pytest


def make_loop(folder: Path) -> Any:
    return SimpleNamespace(__name__="run_epoch", stats=SimpleNamespace(cache_path=str(folder)))


def test_loops_are_dropped_only_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = tmp_path / "epoch.run_epoch-9.py311.nbi", tmp_path / "solve.solve_users-9.nbi"
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "loudest.py").write_text("one")
    monkeypatch.setattr(cache, "COMPILED_FOLDERS", [kernels])
    for content, stays in (("one", False), ("one", True), ("two", False), ("two", True)):
        (kernels / "loudest.py").write_text(content)
        index.touch()
        other.touch()
        cache.drop_stale(make_loop(tmp_path))
        assert index.exists() == stays
    assert other.exists()


def test_an_unwritable_cache_does_not_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache.drop_stale(make_loop(tmp_path / "file" / "below"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_loop_that_has_run_is_known_to_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cpu_0123"
    folder.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "LOADED_LOOPS", set())
    assert not cache.is_cached("whisper")
    cache.mark_loaded("whisper", make_loop(folder))
    assert cache.is_cached("whisper")
    assert not cache.is_cached("shout")
    (folder / "whisper.loaded").write_text("other sources")
    assert not cache.is_cached("whisper")
