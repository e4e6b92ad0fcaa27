from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli.app import app

runner = CliRunner()


def test_table_paragraph_json_and_plot(tmp_path: Path) -> None:
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    arguments = ["privacy", "--preset", "paper", "--clients", "50000", "--epochs", "3"]
    result = runner.invoke(app, [*arguments, "--json", str(out), "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    assert "Not promised" in result.stdout
    content = json.loads(out.read_text())
    assert content["mechanism"] == "coordinate"
    assert content["spans"][2]["pure"] == 750
    assert content["statement"] in result.stdout.replace("\n", " ") + content["statement"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_a_crowd_there_is_no_central_figure() -> None:
    result = runner.invoke(app, ["privacy", "--preset", "paper"])
    assert "is weak" in result.stdout
    assert "No central figure" in result.stdout


def test_planning(tmp_path: Path) -> None:
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    arguments = ["privacy", "--target", "10", "--view", "local", "--json", str(out)]
    result = runner.invoke(app, [*arguments, "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    best = json.loads(out.read_text())["options"]
    assert all(option["local"] <= 10 for option in best)
    assert picture.read_bytes().startswith(b"\x89PNG")
    tiny = runner.invoke(app, ["privacy", "--target", "0.01", "--view", "local"])
    assert "Not even one report" in tiny.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--reports", "0"],
        ["--clients", "1"],
        ["--delta", "1"],
        ["--delta", "0"],
        ["--preset", "nothing"],
        ["--target", "1"],
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce", "privacy", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("sottovoce: ")
