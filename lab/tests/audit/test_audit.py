"""`sottovoce audit`: what it prints, writes and refuses."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.tests.audit.audited import HONEST_ALPHA, HONEST_SAMPLES, seeded_when_made
from sottovoce.cli.app import app
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce_lab.audit import AuditPlan, judge
from tests.processes import make_caller

call = make_caller(app, "audit")
TINY = ["--data", "synthetic:N=60,M=30,seed=0", "--reports", "5", "--trials", "80", "--quick"]
TINY += ["--samples", f"{HONEST_SAMPLES}"]


def test_command_passes_and_writes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce_lab.audit.audit.judge", partial(judge, alpha=HONEST_ALPHA))
    files = ["--json", tmp_path / "a.json", "--plot", tmp_path / "a.png"]
    shown = call(*TINY, *files)
    assert "Audit passed" in shown
    assert re.search(r"linked +┃ shuffled +┃ bound of shuffled", shown)
    assert "linked reports have no such bound" in " ".join(shown.split())
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["passed"]
    assert {check["mechanism"] for check in content["checks"]} == set(MECHANISMS)
    assert [each["settings"]["mechanism"] for each in content["attacks"]] == list(MECHANISMS)
    assert all(0 <= p["linked"]["value"] <= 1 for p in content["attacks"][0]["points"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_command_fails_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce_lab.audit.audit.live_client", seeded_when_made)
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
def test_command_refuses(arguments: list[str]) -> None:
    with pytest.raises(SettingsError):
        call(*arguments)


def test_plan_names_every_training() -> None:
    plan = AuditPlan(epsilon=1.0, reports=3, epochs=2, alpha=4.0)
    assert [settings.mechanism for settings in plan.settings()] == list(MECHANISMS)
    assert {(s.epsilon, s.reports, s.epochs, s.alpha) for s in plan.settings()} == {
        (1.0, 3, 2, 4.0)
    }
