"""`sottovoce paper`: runs, resumed runs, and the options that it refuses."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sottovoce.errors import CheckpointError, SettingsError
from sottovoce_lab.cli.paper import app
from sottovoce_lab.paper import EXPERIMENTS, QUICK_SCALE, Runner


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False
    )


# Computes every method and draws every picture, with tiny data.
@pytest.mark.slow
def test_quick_run_of_all_experiments(tmp_path: Path) -> None:
    result = run("all", "--quick", "--seeds", 2, "--out", tmp_path, "--threads", 1)
    assert result.exit_code == 0, result.output
    assert "SMOKE RUN" in result.stdout
    first = r"^cell 1 of \d+, 0 s so far: .*seed \d"
    assert re.search(first, result.stderr, re.MULTILINE)
    assert "stands in for ML-20M" in result.stdout
    page = (tmp_path / "report.html").read_text()
    for name, experiment in EXPERIMENTS.items():
        content = json.loads((tmp_path / f"{name}.json").read_text())
        assert content["about"]["scale"] == QUICK_SCALE
        assert experiment.title in page
        assert f"sottovoce paper {name} --data" in page
        for table_name, table in content["tables"].items():
            assert table["numbers"]
            assert f'id="table-{table_name}"' in page
            assert (tmp_path / f"{table_name}.csv").read_text().count("\n") > 1
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
    assert "SMOKE RUN" in page
    assert " not private" in page
    # The page needs no other file: it has only anchors and inlined pictures.
    targets = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", page)
    assert targets
    assert all(target.startswith(("#", "data:image/svg+xml")) for target in targets)
    assert "@import" not in page
    assert "url(" not in page
    # A second run computes nothing and writes the same bytes.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    (tmp_path / "report.html").unlink()
    assert run("all", "--quick", "--seeds", 2, "--out", tmp_path).exit_code == 0
    assert (tmp_path / "report.html").read_text() == page
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == before


def test_selected_methods(tmp_path: Path) -> None:
    few = ("--methods", "paper", "--methods", "popularity", "--seeds", 1)
    result = run("table4", "--quick", *few, "--sample-users", 300, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "about.json").read_text())["users"] == 300
    cells = [json.loads(path.read_text())["cell"] for path in (tmp_path / "cells").iterdir()]
    assert {cell["method"] for cell in cells} == {"paper", "popularity"}
    assert "Table 4" in result.stdout
    assert not (tmp_path / "cost.json").exists()


def test_interrupted_command_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "_compute_cell", stop)
    result = run("cost", "--quick", "--out", tmp_path)
    assert result.exit_code == 130
    monkeypatch.undo()
    assert run("cost", "--quick", "--out", tmp_path).exit_code == 0
    before = (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    (tmp_path / "cost.csv").unlink()
    assert run("report", "--out", tmp_path).exit_code == 0
    assert (tmp_path / "cost.csv").exists()
    assert (tmp_path / "report.html").read_text() == before


def test_errors_of_options(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        run("fig2", "--quick", "--methods", "louder", "--out", tmp_path)
    with pytest.raises(SettingsError):
        run("fig2", "--out", tmp_path)
    with pytest.raises(SettingsError):
        run("fig2", "--quick", "--scale", 0.1, "--out", tmp_path)
    with pytest.raises(CheckpointError):
        run("report", "--out", tmp_path)


def test_only_requested_experiments_are_written(tmp_path: Path) -> None:
    # Others share cells with them, and would be nearly empty.
    few = ("--quick", "--methods", "paper", "--seeds", 1, "--out", tmp_path)
    assert run("fig2", *few).exit_code == 0
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"fig2"}
    assert run("table4", *few).exit_code == 0
    assert run("report", "--out", tmp_path).exit_code == 0
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"fig2", "table4"}
    page = (tmp_path / "report.html").read_text()
    names = {name for name, experiment in EXPERIMENTS.items() if experiment.title in page}
    assert names == {"fig2", "table4"}
