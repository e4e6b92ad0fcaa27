from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sottovoce
from sottovoce.cli.app import app
from sottovoce.errors import SettingsError

runner = CliRunner()
SMALL = ["simulate", "--data", "synthetic:N=300,M=80,seed=1", "--epochs", "2", "--reports", "10"]


def test_json_and_plot(tmp_path: Path) -> None:
    out, picture = tmp_path / "run.json", tmp_path / "curve.png"
    result = runner.invoke(app, [*SMALL, "--json", str(out), "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    assert "HR@10" in result.stdout
    content = json.loads(out.read_text())
    parts = {"data", "settings", "epochs", "final", "popularity", "privacy", "seconds"}
    assert set(content) == parts
    assert [record["epoch"] for record in content["epochs"]] == [1, 2]
    assert content["epochs"][-1]["hr@10"] == content["final"]["hr@10"]
    assert set(content["final"]) == {"hr@2", "hr@5", "hr@10", "ndcg@10"}
    assert content["privacy"]["spans"][2]["pure"] == 2 * 10 * 2.5
    assert content["settings"]["mechanism"] == "loudest"
    assert content["data"]["users"] == 300
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_several_seeds_have_an_interval(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    result = runner.invoke(app, [*SMALL, "--seeds", "3", "--seed", "5", "--json", str(out)])
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    assert content["settings"]["seeds"] == [5, 6, 7]
    finals = [run["final"]["hr@10"] for run in content["runs"]]
    assert content["final"]["hr@10"] == pytest.approx(sum(finals) / 3)
    assert content["interval95"]["hr@10"] > 0
    assert "±" in result.stdout


def test_a_checkpoint_folder_is_continued(tmp_path: Path) -> None:
    folder, first, second = tmp_path / "ck", tmp_path / "a.json", tmp_path / "b.json"
    common = [*SMALL, "--checkpoint", str(folder)]
    assert runner.invoke(app, [*common, "--json", str(first)]).exit_code == 0
    assert (folder / "seed-0.safetensors").exists()
    assert runner.invoke(app, [*common, "--json", str(second)]).exit_code == 0
    a, b = json.loads(first.read_text()), json.loads(second.read_text())
    assert a["epochs"] == b["epochs"]


def test_subsets_splits_and_full_ranking() -> None:
    options = ["--users", "200", "--items", "50", "--split", "latest", "--negatives", "0"]
    result = runner.invoke(app, [*SMALL, *options])
    assert result.exit_code == 0, result.output
    assert "200 users x 50 items" in result.stdout
    assert "whole catalogue" in result.stdout


def test_an_engine_that_is_not_there() -> None:
    result = runner.invoke(app, [*SMALL, "--engine", "tpu"])
    assert isinstance(result.exception, SettingsError)
    assert "no engine 'tpu'" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate", "--epsilon", "0"], "epsilon must be a finite number above 0"),
        (["simulate", "--data", "nowhere.csv"], "nowhere.csv"),
        (["simulate", "--data", "ml-latest-small"], "nothing is left"),
    ],
)
def test_errors_are_one_line_and_code_2(arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["simulate", "demo", "bench", "data"])
def test_every_command_has_help(command: str) -> None:
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "--help" in result.stdout


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).stdout.strip() == sottovoce.__version__
