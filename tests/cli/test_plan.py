import json
import shlex
from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from sottovoce.server.settings import ServerSettings
from tests.processes import make_caller

call = make_caller(app)
SMALL = ["plan", "--people", "200", "--items", "60", "--history", "6"]


@pytest.mark.parametrize("central", [[], ["--central-budget", "1", "--accounts"]])
def test_printed_command_sets_up_the_planned_training(tmp_path: Path, central: list[str]) -> None:
    """Run the command that it prints: it plans the same training."""
    out, shop, folder = tmp_path / "plan.json", tmp_path / "shop.csv", tmp_path / "server"
    shown = call(*SMALL, "--budget", "20", *central, "--json", out)
    content = json.loads(out.read_text())
    assert shown.startswith(content["sentence"])
    assert content["verdict"] == "no"
    assert content["privacy"]["spans"][-1]["pure"] <= 20
    assert len(content["hr@10_by_epoch"]) == content["settings"]["epochs"]
    assert bool(content["settings"]["dummies"]) == bool(central)
    assert ("times in 100 for one account, or" in " ".join(shown.split())) == bool(central)
    shop.write_text("item,title\n" + "".join(f"{n},Item {n}\n" for n in range(60)))
    line = next(line for line in shown.splitlines() if "server init" in line)
    command = shlex.split(line.partition(": sottovoce ")[2])
    call(*(str({"FOLDER": folder, "FILE": shop}.get(word, word)) for word in command))
    server = ServerSettings.read(folder / "server.toml")
    assert server.training.as_dict() == content["settings"]
    assert server.terms.min_clients == content["min_clients"]
    assert server.terms.accounts == bool(central)
    assert server.epoch_seconds == 7 * 86_400


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--budget", "nan"], ["--budget", "10", "--people", "0"],
        ["--budget", "10", "--people", "-3"], ["--budget", "10", "--history", "nan"],
        ["--budget", "10", "--history", "61"],
    ],
)  # fmt: skip
def test_impossible_plans_are_refused(arguments: list[str]) -> None:
    with pytest.raises((SettingsError, SystemExit)):
        call(*SMALL, *arguments)
