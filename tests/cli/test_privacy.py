import json
from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from tests.processes import make_caller

call = make_caller(app, "privacy")


def test_output_has_a_table_a_paragraph_and_json(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    arguments = ["--preset", "paper", "--clients", "50000", "--epochs", "3"]
    shown = call(*arguments, "--json", str(out))
    assert "Not promised" in shown
    content = json.loads(out.read_text())
    assert content["settings"]["mechanism"] == "coordinate"
    assert content["spans"][2]["pure"] == 750


def test_output_has_the_settings_of_the_planner(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    target = ["--budget", "50", "--items", "9781", "--json", str(out)]
    call(*target, "--clients", "20000")
    report = json.loads(out.read_text())
    assert report["settings"]["lifetime"] == 5
    assert report["spans"][-1]["pure"] == 50
    call(*target, "--clients", "20000", "--epochs", "30")
    assert json.loads(out.read_text())["settings"]["epochs"] == 30


def test_preset_crowd_needs_clients_and_preset_strong_does_not(tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    with pytest.raises(SettingsError):
        call("--preset", "crowd")
    for crowd in (["--clients", "50000"], ["--clients", "1"], []):
        output = call("--preset", "strong", *crowd, "--items", "9781", "--json", str(out))
        report = json.loads(out.read_text())
        lifetime = report["spans"][-1]
        assert lifetime["pure"] <= 10
        assert lifetime["central"] <= lifetime["dummies_only"] <= 1
        assert f"{report['dummies']:,} dummies" in output
    crowd = ["--preset", "crowd", "--clients", "50000", "--delta", "1e-9", "--json", str(out)]
    call(*crowd)
    assert 0.9 < json.loads(out.read_text())["spans"][-1]["central"] <= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "0"], ["--epsilon", "nan"], ["--reports", "0"], ["--clients", "1"],
        ["--delta", "1"], ["--delta", "0"], ["--preset", "nothing"], ["--central-budget", "1"],
        ["--budget", "inf"],
        ["--central-budget", "1000", "--clients", "100"],
        ["--budget", "10", "--central-budget", "1", "--clients", "200", "--dummies", "5"],
        ["--lifetime", "1", "--clients", "50"],
        ["--clients", "1" + "0" * 400],
    ],
)  # fmt: skip
def test_bad_input_is_refused(arguments: list[str]) -> None:
    # One line and exit code 2: `test_app.py`.
    with pytest.raises(SettingsError) as caught:
        call(*arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_huge_numbers_are_bounded() -> None:
    for arguments in (
        ("--clients", 10**23, "--epsilon", 2.5, "--reports", 1, "--epochs", 1),
        ("--epsilon", 2.5, "--reports", 10_000, "--epochs", 100_000),
    ):
        assert "upper bound" in call(*arguments)


def test_only_people_of_the_same_epoch_hide_each_other(tmp_path: Path) -> None:
    out, central = tmp_path / "p.json", []
    for epoch_options in (("--epochs", 20, "--lifetime", 1, "--clients", 10_000),
                  ("--epochs", 1, "--clients", 500)):  # fmt: skip
        call("--epsilon", 2, "--reports", 1, *epoch_options, "--json", out)
        central.append(json.loads(out.read_text())["spans"][-1]["central"])
    assert central[0] >= central[1] > 0
