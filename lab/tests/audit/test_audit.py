"""`sottovoce audit`: its output, its files, and the options that it refuses."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.tests.audit.audited import HONEST_ALPHA, HONEST_SAMPLES, make_seeded
from sottovoce.cli.app import app
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce_lab.audit import AuditPlan, judge
from tests.processes import make_caller

call = make_caller(app, "audit")
SMALL_AUDIT = [
    "--data",
    "synthetic:N=60,M=30,seed=0",
    "--reports",
    "5",
    "--trials",
    "80",
    "--quick",
]
SMALL_AUDIT += ["--samples", f"{HONEST_SAMPLES}"]


def test_command_passes_and_writes_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce_lab.audit.audit.judge", partial(judge, alpha=HONEST_ALPHA))
    files = ["--json", tmp_path / "a.json", "--plot", tmp_path / "a.png"]
    output = call(*SMALL_AUDIT, *files)
    assert "Audit passed" in output
    assert re.search(r"linked +┃ shuffled +┃ bound of shuffled", output)
    assert "does not hold for linked" in " ".join(output.split())
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["passed"]
    assert {check["mechanism"] for check in content["checks"]} == set(MECHANISMS)
    assert [attack["settings"]["mechanism"] for attack in content["attacks"]] == list(MECHANISMS)
    assert all(0 <= p["linked"]["value"] <= 1 for p in content["attacks"][0]["points"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_command_fails_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce_lab.audit.audit.make_live_client", make_seeded)
    arguments = ["--mechanism", "coordinate", "--no-attack", "--samples", "2000"]
    result = CliRunner().invoke(app, ["audit", *arguments])
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "Audit FAILED" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--plot", "x.png", "--no-attack"],
        ["--samples", "10"],
        ["--mechanism", "whisper"],
        ["--mechanism", "loudest", "--mechanism", "loudest"],
        ["--epsilon", "-1"],
    ],
)
def test_command_refuses_wrong_options(arguments: list[str]) -> None:
    with pytest.raises(SettingsError):
        call(*arguments)


def test_plan_lists_the_settings_of_every_mechanism() -> None:
    plan = AuditPlan(epsilon=1.0, reports=3, epochs=2, alpha=4.0)
    assert [settings.mechanism for settings in plan.list_settings()] == list(MECHANISMS)
    assert {(s.epsilon, s.reports, s.epochs, s.alpha) for s in plan.list_settings()} == {
        (1.0, 3, 2, 4.0)
    }
