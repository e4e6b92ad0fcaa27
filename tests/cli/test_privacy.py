from __future__ import annotations

import json
from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from tests.processes import calling

call = calling(app, "privacy")


def test_table_paragraph_json_and_plot(tmp_path: Path) -> None:
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    arguments = ["--preset", "paper", "--clients", "50000", "--epochs", "3"]
    shown = call(*arguments, "--json", str(out), "--plot", str(picture))
    assert "Not promised" in shown
    content = json.loads(out.read_text())
    assert content["mechanism"] == "coordinate"
    assert content["spans"][2]["pure"] == 750
    assert content["statement"] in shown.replace("\n", " ") + content["statement"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_a_crowd_there_is_no_central_figure() -> None:
    shown = call("--preset", "paper")
    assert "is weak" in shown
    assert "no central figure" in shown


def test_a_mechanism_named_is_that_mechanisms_preset(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    few = ["--epsilon", "5", "--reports", "1", "--epochs", "2", "--clients", "75040"]
    call("--mechanism", "loudest", *few, "--json", str(out))
    content = json.loads(out.read_text())
    assert (content["mechanism"], content["spans"][2]["pure"]) == ("loudest", 10)
    assert content["spans"][3]["central"] == pytest.approx(0.247, abs=0.001)


def test_planning(tmp_path: Path) -> None:
    out, picture = tmp_path / "p.json", tmp_path / "p.png"
    arguments = ["--budget", "10", "--json", str(out)]
    call(*arguments, "--plot", str(picture))
    best = json.loads(out.read_text())["options"]
    assert all(option["local"] <= 10 for option in best)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_planner_says_what_it_takes(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    target = ["--budget", "50", "--items", "9781", "--json", str(out)]
    shown = call(*target, "--clients", "20000")
    assert "epsilon 10, reports 1 in each of 5 of 20 epochs, factors 11" in " ".join(shown.split())
    said = json.loads(out.read_text())
    assert said["plan"]["lifetime"] == 5
    assert said["cost"]["spans"][-1]["pure"] == 50
    call(*target, "--clients", "20000", "--epochs", "30")
    assert json.loads(out.read_text())["plan"]["epochs"] == 30


def test_planned_presets_need_a_crowd(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    with pytest.raises(SettingsError, match="--clients PEOPLE"):
        call("--preset", "strong")
    call("--preset", "strong", "--clients", "50000", "--items", "9781", "--json", str(out))
    lifetime = json.loads(out.read_text())["spans"][-1]
    assert lifetime["pure"] <= 10
    assert lifetime["central"] <= 1
    crowd = ["--preset", "crowd", "--clients", "50000", "--delta", "1e-9", "--json", str(out)]
    call(*crowd)
    assert 0.9 < json.loads(out.read_text())["spans"][-1]["central"] <= 1


def test_who_take_turns_are_a_smaller_crowd(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    call("--epochs", "20", "--lifetime", "1", "--clients", "20000", "--json", str(out))
    content = json.loads(out.read_text())
    assert content["crowd"]["clients"] == 820, "1,000, less what chance can take away"
    assert content["spans"][-1]["pure"] == 250


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
        ["--central-budget", "1"],
        ["--budget", "0.01"],
        ["--budget", "inf"],
        ["--budget", "10", "--central-budget", "1", "--clients", "100"],
        ["--central-budget", "1000", "--clients", "100"],
        ["--central-budget", "1", "--clients", "50000", "--colluding", "49990"],
        ["--central-budget", "1", "--clients", "50000", "--preset", "paper"],
        ["--colluding", "5"],
        ["--lifetime", "1", "--clients", "50"],
    ],
)
def test_bad_input_is_refused(arguments: list[str]) -> None:
    """That this is one line and code 2: `test_main.py`."""
    with pytest.raises(SettingsError) as caught:
        call(*arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_table_and_paragraph_round_alike_and_up() -> None:
    shown = call("--budget", "10", "--clients", "50000")
    assert "7.039" in shown.split("The planner takes")[1].split("Each person")[0]
    assert "e^7.039" in shown
    assert "7.038" not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("--clients", 10**23, "--reports", 1, "--epochs", 1),
        ("--clients", 1_000, "--trainings", 10**20),
        ("--reports", 10_000, "--epochs", 100_000),
        ("--clients", 10**23, "--lifetime", 2, "--reports", 1),
    ],
)
def test_huge_numbers_are_bounded(arguments: tuple[object, ...]) -> None:
    assert "upper bound" in call(*arguments)


@pytest.mark.parametrize("option", ["--clients", "--trainings", "--items"])
def test_numbers_beyond_everything_are_refused(option: str) -> None:
    with pytest.raises(SettingsError, match=r"at most 10\^30"):
        call(option, 10**400)
